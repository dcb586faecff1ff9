// Filters of grey images: rows of floats, the last dimension's elements side by side. A thread
// makes one element.
#include <lambent/kernel.h>

namespace {

__device__ __forceinline__ unsigned smaller(unsigned a, unsigned b) { return a < b ? a : b; }

}  // namespace

// The mean of each pixel and its neighbours, as many as there are.
extern "C" __global__ void blur(const float* __restrict__ image, float* __restrict__ blurred,
                                unsigned height, unsigned width) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= height * width) return;
  const unsigned row = i / width, column = i % width;
  float sum = 0;
  unsigned count = 0;
  for (unsigned y = row > 0 ? row - 1 : 0; y <= smaller(row + 1, height - 1); ++y) {
    for (unsigned x = column > 0 ? column - 1 : 0; x <= smaller(column + 1, width - 1); ++x) {
      sum += image[y * width + x];
      ++count;
    }
  }
  blurred[i] = sum / count;
}

// Twice as high and as wide; what lies between pixels is their mean.
extern "C" __global__ void enlarge(const float* __restrict__ image, float* __restrict__ enlarged,
                                   unsigned height, unsigned width) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= 4 * height * width) return;
  const unsigned y = i / (2 * width), x = i % (2 * width);
  const unsigned above = y / 2, below = smaller((y + 1) / 2, height - 1);
  const unsigned left = x / 2, right = smaller((x + 1) / 2, width - 1);
  enlarged[i] = (image[above * width + left] + image[above * width + right] +
                 image[below * width + left] + image[below * width + right]) /
                4;
}

extern "C" __global__ void row_sums(const float* __restrict__ image, float* __restrict__ sums,
                                    unsigned height, unsigned width) {
  const unsigned row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= height) return;
  float sum = 0;
  for (unsigned x = 0; x < width; ++x) sum += image[row * width + x];
  sums[row] = sum;
}

// 1 where the image is at least as bright as `level`, else 0.
extern "C" __global__ void threshold(const float* __restrict__ image,
                                     unsigned char* __restrict__ mask, float level,
                                     unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) mask[i] = image[i] >= level;
}

LAMBENT_KERNEL(blur);
LAMBENT_KERNEL(enlarge);
LAMBENT_KERNEL(row_sums);
LAMBENT_KERNEL(threshold);
