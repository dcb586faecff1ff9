// Gaussian elimination: two kernels for each column, then back-substitution on the host.
__global__ void multipliers(const double* matrix, double* factor, int size, int column) {
  const int row = column + 1 + blockIdx.x * blockDim.x + threadIdx.x;
  if (row < size) factor[row] = matrix[row * size + column] / matrix[column * size + column];
}

__global__ void eliminate(double* matrix, double* right, const double* factor, int size,
                          int column) {
  const int row = column + 1 + blockIdx.y * blockDim.y + threadIdx.y;
  const int x = column + blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= size || x >= size) return;
  matrix[row * size + x] -= factor[row] * matrix[column * size + x];
  if (x == column) right[row] -= factor[row] * right[column];
}

#ifdef __CUDACC__
#include "program.h"

int main() {
  const int size = 40;
  unsigned seed = 9;
  std::vector<double> matrix(size * size), right(size), solution(size);
  for (int i = 0; i < size; ++i) {
    for (int j = 0; j < size; ++j) {
      matrix[i * size + j] = random_float(&seed) + (i == j ? size : 0);
    }
    for (int j = 0; j < size; ++j)
      right[i] += matrix[i * size + j] * (j + 1);  // solved by 1, 2, 3...
  }
  double *device_matrix = upload(matrix), *device_right = upload(right), *factor = nullptr;
  OK(cudaMalloc(&factor, size * sizeof(double)));
  for (int column = 0; column + 1 < size; ++column) {
    multipliers<<<1, 64>>>(device_matrix, factor, size, column);
    LAUNCHED();
    eliminate<<<dim3(3, 3), dim3(16, 16)>>>(device_matrix, device_right, factor, size, column);
    LAUNCHED();
  }
  matrix = download(device_matrix, matrix.size());
  right = download(device_right, right.size());
  for (int i = size - 1; i >= 0; --i) {
    solution[i] = right[i];
    for (int j = i + 1; j < size; ++j) solution[i] -= matrix[i * size + j] * solution[j];
    solution[i] /= matrix[i * size + i];
    EXPECT(close_to(solution[i], i + 1, 1e-9));
  }
  std::puts("ok");
}
#endif
