#include "gpu/cublas/library.h"

#include <dlfcn.h>

#include <algorithm>
#include <iterator>
#include <string>

namespace lambent::cublas {
namespace {

struct Fact {
  int status;
  const char* name;
  bool was_refused;
};
constexpr Fact kFacts[] = {
#define CUBLAS_STATUS(name, symbol, value, was_refused) {value, #symbol, was_refused},
#include "gpu/cublas/statuses.inc"
#undef CUBLAS_STATUS
};

}  // namespace

Result<Library> Library::load(const std::string& path) {
  // Never closed: it has its own CUDA runtime, which stays with the driver.
  void* loaded = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) {
    const char* why = dlerror();
    return Error{ErrorCode::kUnavailable, why != nullptr ? why : path + " cannot be loaded"};
  }
  Library library;
  std::string missing;
  const auto find = [&](const char* symbol) {
    void* found = dlsym(loaded, symbol);
    if (found == nullptr && missing.empty()) missing = symbol;
    return found;
  };
#define CUBLAS_FUNCTION(name, symbol, parameters) \
  library.functions_.name = reinterpret_cast<int(*) parameters>(find(#symbol));
#include "gpu/cublas/functions.inc"
#undef CUBLAS_FUNCTION
  if (!missing.empty()) return Error{ErrorCode::kUnavailable, path + " has no " + missing};
  return library;
}

Result<void> Library::check(int status, std::string_view call) {
  if (status == kSuccess) return {};
  const auto* fact = std::find_if(std::begin(kFacts), std::end(kFacts),
                                  [&](const Fact& each) { return each.status == status; });
  const bool is_known = fact != std::end(kFacts);
  return Error{is_known && fact->was_refused ? ErrorCode::kUnimplemented : ErrorCode::kInternal,
               std::string(call) + ": " + (is_known ? fact->name : "unknown status of cuBLAS") +
                   " (" + std::to_string(status) + ")"};
}

}  // namespace lambent::cublas
