#include "node/onnx_runtime/provider.h"

#include <algorithm>
#include <filesystem>

namespace lambent::onnx {
namespace {

// Each needs none but those before it.
constexpr std::string_view kCudaLibraries[] = {"libnvJitLink.so.", "libcudart.so.", "libnvrtc.so.",
                                               "libcublasLt.so.",  "libcublas.so.", "libcufft.so.",
                                               "libcurand.so.",    "libcudnn.so."};

std::string what_lacks(const CudaFacts& facts) {
  if (!facts.no_gpu.empty()) return facts.no_gpu;
  if (!facts.is_built_in) {
    return "this onnxruntime was built without it; name onnxruntime-gpu[cuda,cudnn] under [python] "
           "requirements";
  }
  if (facts.failure.empty()) return {};
  const bool lacks_library = facts.failure.find("cannot open shared object") != std::string::npos;
  return facts.failure + (lacks_library ? " (onnxruntime-gpu[cuda,cudnn] brings CUDA's libraries "
                                          "and cuDNN along)"
                                        : "");
}

// Nothing for a folder that cannot be read.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> found;
  std::error_code error;
  for (std::filesystem::directory_iterator each(folder, error), end; each != end && !error;
       each.increment(error)) {
    found.push_back(each->path());
  }
  return found;
}

}  // namespace

std::optional<Provider> provider_from(std::string_view word) {
  if (word == "cpu") return Provider::kCpu;
  if (word == "cuda") return Provider::kCuda;
  if (word == "auto") return Provider::kAuto;
  return std::nullopt;
}

Result<ProviderChoice> choose_provider(Provider wanted, const CudaFacts& facts) {
  if (wanted == Provider::kCpu) return ProviderChoice{};
  std::string lacking = what_lacks(facts);
  if (lacking.empty()) return ProviderChoice{.cuda = true};
  if (wanted == Provider::kAuto) return ProviderChoice{.why_not = std::move(lacking)};
  return Error{ErrorCode::kFailedPrecondition,
               "onnxruntime's CUDA provider cannot be used: " + lacking};
}

std::vector<std::string> cuda_libraries_beside(const std::string& library) {
  namespace fs = std::filesystem;
  // .../site-packages/onnxruntime/capi/libonnxruntime.so.1
  const fs::path packages = fs::path(library).parent_path().parent_path().parent_path() / "nvidia";
  std::vector<std::string> found;
  for (const fs::path& package : entries_of(packages)) {
    for (const fs::path& file : entries_of(package / "lib")) found.push_back(file.string());
  }
  std::ranges::sort(found);
  std::vector<std::string> ordered;
  for (const std::string_view name : kCudaLibraries) {
    for (const std::string& path : found) {
      if (fs::path(path).filename().string().starts_with(name)) ordered.push_back(path);
    }
  }
  return ordered;
}

}  // namespace lambent::onnx
