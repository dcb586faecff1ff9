// Blas: the cuBLAS of an executor, looked for when the first function comes that could use it. Of
// the thread that loads instances, with the device's primary context current; handles go to others
// as said.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu/cublas/handle.h"

namespace lambent::executor {

class Blas {
 public:
  // Paths of libraries, the first of which that works is taken; none: there is no cuBLAS.
  Blas(const cuda::Driver& driver, std::vector<std::string> libraries)
      : driver_(driver), libraries_(std::move(libraries)) {}

  // All are null where cuBLAS cannot be used, which is said once, on stderr. A handle is used by
  // one thread at a time, so there are two of the primary context: for programs that are made, on
  // this thread, and for requests, on the loop's.
  cublas::Handle* for_programs();
  cublas::Handle* for_requests();
  // For requests that run in this context, which outlives it.
  std::unique_ptr<cublas::Handle> for_partition(const cuda::GreenContext& partition);

 private:
  void find();
  Result<void> open(const std::string& path);

  const cuda::Driver& driver_;
  const std::vector<std::string> libraries_;
  bool has_looked_ = false, has_told_of_partitions_ = false;
  std::optional<cublas::Library> library_;
  std::unique_ptr<cublas::Handle> programs_, requests_;
};

}  // namespace lambent::executor
