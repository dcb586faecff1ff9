// Which of onnxruntime's execution providers runs a model: that of the host's processors, or
// CUDA's. The choice is pure; only cuda_libraries_beside looks at files. Used by the engine, and by
// mains for the words.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace lambent::onnx {

enum class Provider {
  kCpu,
  kCuda,
  kAuto,  // CUDA's where it can be, else the processors'
};
// "cpu", "cuda" or "auto".
std::optional<Provider> provider_from(std::string_view word);

// What CUDA's provider needs, as it was found.
struct CudaFacts {
  std::string no_gpu = {};   // why there is no GPU that it could use; empty: there is one
  bool is_built_in = false;  // the library was built with the provider
  std::string failure = {};  // why it, or a library that it needs, was not loaded; empty: it was
};

struct ProviderChoice {
  bool cuda = false;
  std::string why_not = {};  // if it was wanted and is not taken
};
// FAILED_PRECONDITION, with what to do about it, if `wanted` is kCuda and something lacks.
Result<ProviderChoice> choose_provider(Provider wanted, const CudaFacts& facts);

// NVIDIA's libraries that the provider is linked against, of the packages (nvidia-cudnn-cu12 and
// the like) that lie beside that of `library`, each behind those that it needs. Loaded first, they
// are found without a search path.
std::vector<std::string> cuda_libraries_beside(const std::string& library);

}  // namespace lambent::onnx
