// The Mandelbrot set in an image of four bytes for each point, fetched asynchronously into
// page-locked memory.
__device__ int iterations_at(double re, double im) {
  double x = 0, y = 0;
  int i = 0;
  for (; i < 100 && x * x + y * y <= 4.0; ++i) {
    const double next = x * x - y * y + re;
    y = 2 * x * y + im;
    x = next;
  }
  return i;
}

__global__ void mandelbrot(unsigned* image, int width, int height) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  const int n = iterations_at(-2.0 + 3.0 * x / width, -1.5 + 3.0 * y / height);
  image[y * width + x] = 0xff070000u | static_cast<unsigned>(n);
}

#ifdef __CUDACC__
#include "program.h"

int main() {
  const int width = 120, height = 90;
  unsigned *device = nullptr, *image = nullptr;
  OK(cudaMalloc(&device, width * height * sizeof(unsigned)));
  OK(cudaMallocHost(&image, width * height * sizeof(unsigned)));
  cudaStream_t stream;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  mandelbrot<<<dim3((width + 15) / 16, (height + 15) / 16), dim3(16, 16), 0, stream>>>(
      device, width, height);
  LAUNCHED();
  OK(cudaMemcpyAsync(image, device, width * height * sizeof(unsigned), cudaMemcpyDeviceToHost,
                     stream));
  OK(cudaStreamSynchronize(stream));
  int inside = 0;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const double re = -2.0 + 3.0 * x / width, im = -1.5 + 3.0 * y / height;
      double a = 0, b = 0;
      int n = 0;
      for (; n < 100 && a * a + b * b <= 4.0; ++n) {
        const double next = a * a - b * b + re;
        b = 2 * a * b + im;
        a = next;
      }
      inside += n == 100;
      const unsigned point = image[y * width + x];
      // At the rim one rounding more or less may decide.
      EXPECT(std::abs(static_cast<int>(point & 0xffff) - n) <= 2);
      EXPECT(point >> 16 == 0xff07);
    }
  }
  EXPECT(inside > width * height / 20);
  OK(cudaFreeHost(image));
  OK(cudaStreamDestroy(stream));
  std::puts("ok");
}
#endif
