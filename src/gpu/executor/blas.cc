#include "gpu/executor/blas.h"

#include <cstdio>
#include <utility>

namespace lambent::executor {

cublas::Handle* Blas::for_programs() {
  find();
  return programs_.get();
}

cublas::Handle* Blas::for_requests() {
  find();
  return requests_.get();
}

std::unique_ptr<cublas::Handle> Blas::for_partition(const cuda::GreenContext& partition) {
  find();
  if (requests_ == nullptr) return nullptr;
  auto handle = cublas::Handle::create(driver_, *library_, &partition);
  if (handle.ok()) return std::move(*handle);
  if (!std::exchange(has_told_of_partitions_, true)) {
    std::fprintf(stderr, "lambent-executor: no cuBLAS for a function with a share: %s\n",
                 to_string(handle.error()).c_str());
  }
  return nullptr;
}

void Blas::find() {
  if (std::exchange(has_looked_, true)) return;
  for (const std::string& path : libraries_) {
    const auto opened = open(path);
    if (opened.ok()) {
      std::fprintf(stderr, "lambent-executor: linear algebra by cuBLAS %d of %s\n",
                   requests_->version(), path.c_str());
      return;
    }
    std::fprintf(stderr, "lambent-executor: linear algebra without %s: %s\n", path.c_str(),
                 to_string(opened.error()).c_str());
    programs_.reset();
    requests_.reset();
    library_.reset();
  }
}

Result<void> Blas::open(const std::string& path) {
  ASSIGN_OR_RETURN(auto library, cublas::Library::load(path));
  library_.emplace(std::move(library));
  ASSIGN_OR_RETURN(programs_, cublas::Handle::create(driver_, *library_));
  ASSIGN_OR_RETURN(requests_, cublas::Handle::create(driver_, *library_));
  return {};
}

}  // namespace lambent::executor
