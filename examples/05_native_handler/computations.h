// The four computations of this example, each on the GPU and, to compare, on the CPU.
// Used by main, on the handler's one thread.
#pragma once

#include <memory>
#include <vector>

#include "examples/native_gpu.h"

namespace lambent::examples {

struct Computed {
  std::vector<float> result;
  std::vector<float> expected;  // from the CPU; empty if it was not asked for
};

class Computations {
 public:
  static Result<std::unique_ptr<Computations>> load(const std::string& bundles);

  Result<Computed> vector_add(unsigned count, bool check);
  Result<Computed> matmul(unsigned size, bool check);
  Result<Computed> fft(unsigned points, bool check);  // of one signal; real, imaginary, real, ...
  Result<Computed> jacobi(unsigned size, bool check);

 private:
  explicit Computations(std::unique_ptr<Gpu> gpu) : gpu_(std::move(gpu)) {}

  std::unique_ptr<Gpu> gpu_;
  CUfunction add_ = nullptr;
  CUfunction multiply_ = nullptr;
  CUfunction transform_ = nullptr;
  CUfunction step_ = nullptr;
};

}  // namespace lambent::examples
