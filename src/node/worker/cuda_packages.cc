#include "node/worker/cuda_packages.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <string_view>

#include "node/worker/gpu_tenancy.h"

namespace lambent::worker {
namespace {

namespace fs = std::filesystem;

// Distributions that have it in them or load it, as their folders of metadata begin.
constexpr std::array<std::string_view, 4> kDistributions = {"nvidia_cuda_runtime", "cupy_cuda",
                                                            "jax_cuda", "tensorflow_gpu"};
// A build of torch for CUDA may bring its own.
constexpr char kTorchForCuda[] = "torch/lib/libtorch_cuda.so";
constexpr std::string_view kMetadata = ".dist-info";

// In the folder itself.
std::string find_in(const fs::path& folder) {
  std::error_code error;
  if (fs::exists(folder / kTorchForCuda, error)) return "torch";
  std::string found;
  for (fs::directory_iterator each(folder, error), end; !error && each != end;
       each.increment(error)) {
    const std::string name = each->path().filename();
    if (!name.ends_with(kMetadata)) continue;
    const bool brings_it = std::ranges::any_of(
        kDistributions, [&](std::string_view begin) { return name.starts_with(begin); });
    const std::string package = name.substr(0, name.size() - kMetadata.size());
    // The order of a folder is any.
    if (brings_it && (found.empty() || package < found)) found = package;
  }
  return found;
}

}  // namespace

std::string CudaPackages::find(const std::string& folder) {
  std::string found = find_in(folder);
  std::error_code error;
  for (fs::directory_iterator each(fs::path(folder) / "lib", error), end;
       found.empty() && !error && each != end; each.increment(error)) {
    found = find_in(each->path() / "site-packages");
  }
  return found;
}

void CudaPackages::look(loop::WorkThread& files, const Result<std::string>& folder,
                        std::function<void(std::string package)> then) const {
  if (!matters_ || !folder.ok() || folder->empty()) return then({});
  const auto found = std::make_shared<std::string>();
  const bool looks = files.run([found, folder = *folder] { *found = find(folder); },
                               [found, then] { then(std::move(*found)); });
  // A warning is not worth a refusal where much waits.
  if (!looks) then({});
}

void CudaPackages::recover(const std::string& code_sha256, const Result<std::string>& folder) {
  if (matters_ && folder.ok() && !folder->empty()) put(code_sha256, find(*folder));
}

void CudaPackages::put(const std::string& code_sha256, const std::string& package) {
  if (!matters_ || package.empty()) return;
  if (packages_.size() >= kMost) {
    std::erase_if(packages_, [&](const auto& entry) { return !codes_.contains(entry.first); });
  }
  if (packages_.size() < kMost) packages_[code_sha256] = package;
}

std::string CudaPackages::warning(const FunctionSpec& spec) const {
  const auto found = packages_.find(spec.code_sha256);
  if (found == packages_.end() || !uses_a_gpu(spec)) return {};
  return "its package " + found->second +
         " uses NVIDIA's CUDA runtime, which does not run on this worker's emulated GPU: use the "
         "CPU, or a worker with an NVIDIA GPU (lambent serve --gpu nvidia)";
}

}  // namespace lambent::worker
