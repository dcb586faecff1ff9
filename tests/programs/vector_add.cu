// c = a + b: the smallest whole program.
__global__ void vector_add(const float* a, const float* b, float* c, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) c[i] = a[i] + b[i];
}

#ifdef __CUDACC__
#include "program.h"

int main() {
  const int count = 100'003;
  unsigned seed = 1;
  std::vector<float> a(count), b(count);
  for (int i = 0; i < count; ++i) {
    a[i] = random_float(&seed);
    b[i] = random_float(&seed);
  }
  float *device_a = upload(a), *device_b = upload(b), *device_c = nullptr;
  OK(cudaMalloc(&device_c, count * sizeof(float)));
  vector_add<<<(count + 255) / 256, 256>>>(device_a, device_b, device_c, count);
  LAUNCHED();
  const auto c = download(device_c, count);
  for (int i = 0; i < count; ++i) EXPECT(c[i] == a[i] + b[i]);
  OK(cudaFree(device_a));
  OK(cudaFree(device_b));
  OK(cudaFree(device_c));
  OK(cudaDeviceReset());
  std::puts("ok");
}
#endif
