// What the test programs share on the host: a call that fails, or a value that is not what the host
// computed itself, ends the program with a message and status 1.
#pragma once

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define OK(call)                                                         \
  do {                                                                   \
    const cudaError_t error_ = (call);                                   \
    if (error_ != cudaSuccess) {                                         \
      std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, \
                   cudaGetErrorString(error_));                          \
      std::exit(1);                                                      \
    }                                                                    \
  } while (0)

#define EXPECT(condition)                                                          \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                                \
    }                                                                              \
  } while (0)

// After a launch with <<<>>>, which returns nothing.
#define LAUNCHED() OK(cudaGetLastError())

inline bool close_to(double a, double b, double tolerance = 1e-4) {
  return std::fabs(a - b) <= tolerance * (1.0 + std::fabs(b));
}

// The same numbers on every machine.
inline unsigned next_random(unsigned* state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}
inline float random_float(unsigned* state) {
  return static_cast<float>(next_random(state) % 1000) / 1000.0f;
}

template <typename T>
T* upload(const std::vector<T>& values) {
  T* device = nullptr;
  OK(cudaMalloc(&device, values.size() * sizeof(T)));
  OK(cudaMemcpy(device, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  return device;
}

template <typename T>
std::vector<T> download(const T* device, size_t count) {
  std::vector<T> values(count);
  OK(cudaMemcpy(values.data(), device, count * sizeof(T), cudaMemcpyDeviceToHost));
  return values;
}
