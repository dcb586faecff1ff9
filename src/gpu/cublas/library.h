// Library: the functions of a cuBLAS, loaded at run time, and its results as our errors. Immutable;
// any thread may call through it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "gpu/cuda_abi/driver_types.h"

namespace lambent::cublas {

using RawHandle = struct RawContext*;
struct Complex {
  float real, imaginary;
};

struct Functions {
#define CUBLAS_FUNCTION(name, symbol, parameters) int(*name) parameters = nullptr;
#include "gpu/cublas/functions.inc"
#undef CUBLAS_FUNCTION
};

enum Status : int {
#define CUBLAS_STATUS(name, symbol, value, was_refused) name = value,
#include "gpu/cublas/statuses.inc"
#undef CUBLAS_STATUS
};

class Library {
 public:
  // UNAVAILABLE if it cannot be loaded, or lacks a function. What is loaded stays.
  static Result<Library> load(const std::string& path);

  const Functions* operator->() const { return &functions_; }

  // UNIMPLEMENTED if the library does not do what was asked for, and has done nothing of it.
  static Result<void> check(int status, std::string_view call);

 private:
  Functions functions_;
};

}  // namespace lambent::cublas
