// Heat that spreads over a plate: a stencil with coefficients in constant memory, two arrays in
// turn.
struct Coefficients {
  float keep, spread;
};
__constant__ Coefficients coefficients;
__device__ int steps_done = 0;

__global__ void step(const float* from, float* to, int width, int height) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x == 0 && y == 0) atomicAdd(&steps_done, 1);
  if (x >= width || y >= height) return;
  const int at = y * width + x;
  const float left = from[x > 0 ? at - 1 : at], right = from[x + 1 < width ? at + 1 : at];
  const float above = from[y > 0 ? at - width : at];
  const float below = from[y + 1 < height ? at + width : at];
  to[at] = coefficients.keep * from[at] + coefficients.spread * (left + right + above + below);
}

#ifdef __CUDACC__
#include <utility>

#include "program.h"

int main() {
  const int width = 60, height = 45, steps = 20;
  const Coefficients given = {0.6f, 0.1f};
  OK(cudaMemcpyToSymbol(coefficients, &given, sizeof given));
  std::vector<float> plate(width * height, 20.0f), next(plate);
  plate[width * height / 2] = 1000.0f;
  float *from = upload(plate), *to = upload(plate);
  for (int i = 0; i < steps; ++i, std::swap(from, to)) {
    step<<<dim3((width + 15) / 16, (height + 7) / 8), dim3(16, 8)>>>(from, to, width, height);
    LAUNCHED();
  }
  for (int i = 0; i < steps; ++i, plate.swap(next)) {
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) {
        const int at = y * width + x;
        next[at] = given.keep * plate[at] +
                   given.spread *
                       (plate[x > 0 ? at - 1 : at] + plate[x + 1 < width ? at + 1 : at] +
                        plate[y > 0 ? at - width : at] + plate[y + 1 < height ? at + width : at]);
      }
    }
  }
  const auto result = download(from, plate.size());
  for (size_t i = 0; i < plate.size(); ++i) EXPECT(close_to(result[i], plate[i]));
  int done = 0;
  OK(cudaMemcpyFromSymbol(&done, steps_done, sizeof done));
  EXPECT(done == steps);
  std::puts("ok");
}
#endif
