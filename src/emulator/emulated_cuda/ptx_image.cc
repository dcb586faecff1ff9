#include "emulator/emulated_cuda/ptx_image.h"

#include <algorithm>
#include <atomic>

#include "emulator/emulated_cuda/process.h"
#include "emulator/emulated_cuda/ptx_compiler.h"
#include "gpu/cuda_abi/device_names.h"
#include "gpu/cuda_abi/ptx_job.h"

namespace lambent::emulated_cuda {

Image side_modules_of(Process& process, const void* image,
                      const std::vector<std::string>& kernels) {
  // Without a kernel nothing says that the PTX is of the program's own source.
  if (kernels.empty()) return {};
  std::vector<std::string> notes;
  Image found = process.side_modules.find(process.settings.kernels, image, &notes);
  for (const std::string& note : notes) log_refusal("host code for GPU images", note.c_str());
  const bool has_all = std::all_of(kernels.begin(), kernels.end(), [&](const std::string& kernel) {
    const std::string name = cuda_abi::name_in_host_code(kernel);
    return std::any_of(found.begin(), found.end(),
                       [&](const auto& code) { return code->has_kernel(name); });
  });
  if (!has_all) found.clear();
  return found;
}

CUresult compile_image(const std::vector<std::string>& modules, const JitOptions& jit, Image* out,
                       std::string* reason) {
  constexpr size_t kMostRefusals = 100;
  static std::atomic<size_t> refusals{0};
  static const emulated_node::CodeSettings settings = emulated_node::read_code_settings();
  if (modules[0].starts_with(cuda_abi::kPtxOfBundle)) {
    *reason = "PTX of a kernel bundle: the bundle's image for the host runs here";
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  }
  PtxCode code = compile_ptx(settings, modules, jit.optimisation());
  if (!code.note.empty()) {
    log_refusal("cache of compiled PTX", ("it is not used: " + code.note).c_str());
  }
  *reason = code.message;
  if (code.result == CUDA_SUCCESS) {
    *reason = code.was_kept ? "the PTX was compiled for the host before"
                            : "the PTX was compiled for the host";
    *out = {std::move(code.code)};
    return CUDA_SUCCESS;
  }
  // Each is told of, as the log has one line for each name.
  if (const size_t number = ++refusals; number <= kMostRefusals) {
    const std::string which = number == 1 ? "" : " " + std::to_string(number);
    log_refusal(("module image (PTX)" + which).c_str(), reason->c_str());
  }
  return code.result;
}

void tell(JitOptions& jit, CUresult result, const std::string& reason) {
  if (result != CUDA_SUCCESS) jit.write_error(reason);
  if (result != CUDA_SUCCESS || jit.is_verbose()) jit.write_information(reason);
}

CUresult read_image(Process& process, const void* image, JitOptions& jit, Image* out) {
  std::string reason;
  if (!image || image_kind(image) != ImageKind::kPtx) {
    const CUresult result = read_image(process, image, 0, out, &reason);
    if (result != CUDA_SUCCESS) jit.write_error(reason);
    return result;
  }
  const std::string text = ptx_text(image, 0);
  *out = side_modules_of(process, image, ptx_kernels(text));
  if (!out->empty()) return CUDA_SUCCESS;
  const CUresult result = compile_image({text}, jit, out, &reason);
  tell(jit, result, reason);
  return result;
}

}  // namespace lambent::emulated_cuda
