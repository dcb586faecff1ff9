// Habits of programs that others wrote: headers of libraries with functions for both sides, an
// index or an int by a conditional operator, a stream that is made for a part of a capture.
#if __has_include(<cublas_v2.h>)
#include <cublas_v2.h>
#endif
#include <cuComplex.h>

#include <ctime>

#include "program.h"

// A header for both compilers brings for the host what CUDA has.
#ifndef __CUDACC__
inline int max(int a, int b) { return a > b ? a : b; }
inline int min(int a, int b) { return a < b ? a : b; }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
#endif

// C++20 has one too, C++17 has none.
inline __host__ __device__ float lerp(float a, float b, float t) { return a + t * (b - a); }

__global__ void own_and_cudas(float* out, int i) {
  const unsigned above = max(threadIdx.x, 2u);
  out[threadIdx.x] = rsqrtf(16.0f) * (min(i, 3) + max(1.5f, 0.5f) + above) + lerp(0.0f, 8.0f, 0.5f);
}

__global__ void first_or_index(int* out, int i) {
  const int block = i == 0 ? blockIdx.x : i;
  const int chosen = i != 0 ? block : threadIdx.x;
  out[blockIdx.x * blockDim.x + threadIdx.x] = 100 * block + chosen;
}

__global__ void square(cuFloatComplex* z) {
  z[threadIdx.x] = cuCmulf(z[threadIdx.x], z[threadIdx.x]);
}

__global__ void add(int* to, int more) { atomicAdd(to, more); }

// The C library has a clock() as well, of the processor time of the process.
__global__ void wait_for(clock_t ticks, long long* read) {
  read[0] = clock64();
  const clock_t begin = clock();
  while (clock() - begin < ticks) {
  }
  read[1] = begin;
  read[2] = clock();
  read[3] = clock64();
}

bool a_kernels_clock_ticks_as_its_clock64_does() {
  long long *read, host[4];
  OK(cudaMalloc(&read, sizeof host));
  wait_for<<<1, 1>>>(1000, read);
  OK(cudaMemcpy(host, read, sizeof host, cudaMemcpyDeviceToHost));
  OK(cudaFree(read));
  // A GPU's clock() may be the lower half of the other.
  const auto between = [&](long long ticks) {
    return static_cast<unsigned>(ticks - host[0]) <= host[3] - host[0];
  };
  return std::clock() >= 0 && host[3] - host[0] >= 1000 && between(host[1]) && between(host[2]);
}

bool an_index_may_stand_beside_an_int() {
  int *out, host[8];
  OK(cudaMalloc(&out, sizeof host));
  bool right = true;
  for (int i : {0, 5}) {
    first_or_index<<<2, 4>>>(out, i);
    OK(cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost));
    for (int k = 0; k < 8; ++k) {
      const int block = i == 0 ? k / 4 : i;
      right = right && host[k] == 100 * block + (i != 0 ? block : k % 4);
    }
  }
  OK(cudaFree(out));
  return right;
}

bool a_program_may_define_for_its_host_what_cuda_has() {
  float *out, host[4];
  OK(cudaMalloc(&out, sizeof host));
  own_and_cudas<<<1, 4>>>(out, 7);
  OK(cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost));
  OK(cudaFree(out));
  bool right = true;
  for (int i = 0; i < 4; ++i) right = right && host[i] == 4 + 0.25f * (4.5f + (i > 2 ? i : 2));
  return right;
}

bool complex_numbers_are_the_toolkits() {
  cuFloatComplex *z, host[4];
  for (int i = 0; i < 4; ++i) host[i] = make_cuFloatComplex(i, 1);
  OK(cudaMalloc(&z, sizeof host));
  OK(cudaMemcpy(z, host, sizeof host, cudaMemcpyHostToDevice));
  square<<<1, 4>>>(z);
  OK(cudaMemcpy(host, z, sizeof host, cudaMemcpyDeviceToHost));
  OK(cudaFree(z));
  bool right = true;
  for (int i = 0; i < 4; ++i) right = right && host[i].x == i * i - 1 && host[i].y == 2 * i;
  return right;
}

bool a_stream_of_a_part_may_go_before_the_capture_ends() {
  cudaStream_t stream, part;
  cudaEvent_t fork, join;
  int *sum, host = 0;
  OK(cudaMalloc(&sum, 4));
  OK(cudaMemset(sum, 0, 4));
  OK(cudaDeviceSynchronize());  // the streams below do not wait for it
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  OK(cudaStreamCreateWithFlags(&part, cudaStreamNonBlocking));
  OK(cudaEventCreate(&fork));
  OK(cudaEventCreate(&join));
  OK(cudaEventRecord(fork, stream));
  OK(cudaStreamWaitEvent(part, fork, 0));
  add<<<1, 32, 0, part>>>(sum, 1);
  add<<<1, 32, 0, stream>>>(sum, 2);
  OK(cudaEventRecord(join, part));
  OK(cudaStreamWaitEvent(stream, join, 0));
  OK(cudaStreamDestroy(part));
  OK(cudaEventDestroy(fork));
  OK(cudaEventDestroy(join));
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  OK(cudaStreamEndCapture(stream, &graph));
  OK(cudaGraphInstantiate(&exec, graph, 0));
  OK(cudaGraphLaunch(exec, stream));
  OK(cudaStreamSynchronize(stream));
  OK(cudaMemcpy(&host, sum, 4, cudaMemcpyDeviceToHost));
  OK(cudaGraphExecDestroy(exec));
  OK(cudaGraphDestroy(graph));
  OK(cudaStreamDestroy(stream));
  OK(cudaFree(sum));
  return host == 32 * 3;
}

int main() {
  EXPECT(an_index_may_stand_beside_an_int());
  EXPECT(a_program_may_define_for_its_host_what_cuda_has());
  EXPECT(complex_numbers_are_the_toolkits());
  EXPECT(a_kernels_clock_ticks_as_its_clock64_does());
  EXPECT(a_stream_of_a_part_may_go_before_the_capture_ends());
  std::puts("right");
  return 0;
}
