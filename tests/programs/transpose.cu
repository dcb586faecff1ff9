// The transpose of a pitched matrix through padded tiles.
constexpr int kTile = 16;

__global__ void transpose(const float* input, size_t input_pitch, float* output,
                          size_t output_pitch, int width, int height) {
  __shared__ float tile[kTile][kTile + 1];
  int x = blockIdx.x * kTile + threadIdx.x, y = blockIdx.y * kTile + threadIdx.y;
  if (x < width && y < height) tile[threadIdx.y][threadIdx.x] = input[y * input_pitch + x];
  __syncthreads();
  x = blockIdx.y * kTile + threadIdx.x;
  y = blockIdx.x * kTile + threadIdx.y;
  if (x < height && y < width) output[y * output_pitch + x] = tile[threadIdx.x][threadIdx.y];
}

#ifdef __CUDACC__
#include "program.h"

int main() {
  const int width = 100, height = 37;
  std::vector<float> matrix(width * height), result(width * height);
  for (size_t i = 0; i < matrix.size(); ++i) matrix[i] = static_cast<float>(i);
  float *input = nullptr, *output = nullptr;
  size_t input_pitch = 0, output_pitch = 0;
  OK(cudaMallocPitch(&input, &input_pitch, width * sizeof(float), height));
  OK(cudaMallocPitch(&output, &output_pitch, height * sizeof(float), width));
  EXPECT(input_pitch >= width * sizeof(float) && input_pitch % 32 == 0);
  OK(cudaMemcpy2D(input, input_pitch, matrix.data(), width * sizeof(float), width * sizeof(float),
                  height, cudaMemcpyHostToDevice));
  const dim3 grid((width + kTile - 1) / kTile, (height + kTile - 1) / kTile), block(kTile, kTile);
  transpose<<<grid, block>>>(input, input_pitch / sizeof(float), output,
                             output_pitch / sizeof(float), width, height);
  LAUNCHED();
  OK(cudaMemcpy2D(result.data(), height * sizeof(float), output, output_pitch,
                  height * sizeof(float), width, cudaMemcpyDeviceToHost));
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) EXPECT(result[x * height + y] == matrix[y * width + x]);
  std::puts("ok");
}
#endif
