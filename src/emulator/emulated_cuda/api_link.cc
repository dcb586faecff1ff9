// Linking. Modules of PTX are compiled for the host as one, unless host code beside the program has
// all of their kernels; other GPU code cannot be linked here: it stands for the program's side
// modules. Or there is the one host module that was given.
#include <elf.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "core/base/mutex.h"
#include "emulator/emulated_cuda/api.h"
#include "emulator/emulated_cuda/ptx_compiler.h"
#include "emulator/emulated_cuda/ptx_image.h"

using namespace lambent::emulated_cuda;

namespace {

constexpr uint16_t kCudaMachine = 190;
constexpr std::string_view kArchive = "!<arch>\n";

struct Link {
  JitOptions jit;
  lambent::Mutex mutex;
  std::vector<std::string> ptx GUARDED_BY(mutex);
  bool any_gpu_code GUARDED_BY(mutex) = false;      // other than PTX
  std::vector<char> host_module GUARDED_BY(mutex);  // empty: GPU code only
  std::vector<char> result GUARDED_BY(mutex);       // kept for the caller
};

Handles<Link>& links() {
  static auto* links = new Handles<Link>;
  return *links;
}

// What a loader tells from GPU code by its header and goes to the side modules for.
std::vector<char> stand_in_for_gpu_code() {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_EXEC;
  header.e_machine = kCudaMachine;
  header.e_version = EV_CURRENT;
  header.e_ehsize = sizeof header;
  std::vector<char> bytes(sizeof header);
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

CUresult refuse_mixture(Link& link, const char* reason) {
  log_refusal("linking", reason);
  link.jit.write_error(reason);
  return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult add_input(Process& process, Link& link, CUjitInputType type, const char* data,
                   size_t bytes) {
  if (type < 0 || type >= CU_JIT_NUM_INPUT_TYPES || !data) return CUDA_ERROR_INVALID_VALUE;
  std::vector<char> input(data, data + bytes);
  if (input.size() < 64) input.resize(64);  // text may be shorter than any header
  const lambent::MutexLock lock(link.mutex);
  // A library of GPU code adds nothing: what PTX calls of it will be missed by name.
  const bool is_archive = std::string_view(input.data(), input.size()).starts_with(kArchive);
  if (type == CU_JIT_INPUT_LIBRARY && is_archive) return CUDA_SUCCESS;
  const ImageKind kind = image_kind(input.data());
  if (kind == ImageKind::kPtx) {
    link.ptx.push_back(ptx_text(input.data(), input.size()));
    return CUDA_SUCCESS;
  }
  Image image;
  std::string reason;
  if (CUresult result = read_image(process, input.data(), input.size(), &image, &reason)) {
    link.jit.write_error(reason);
    return result;
  }
  if (kind != ImageKind::kHostElf) {
    link.any_gpu_code = true;
    return CUDA_SUCCESS;
  }
  if (!link.host_module.empty()) {
    return refuse_mixture(link, "host modules are linked by their compiler; give one");
  }
  link.host_module = std::move(input);
  return CUDA_SUCCESS;
}

// All of the PTX comes from beside the program, or none of it: kernels of one module may use what
// another one defines.
CUresult complete(Process& process, Link& link) REQUIRES(link.mutex) {
  if (link.ptx.empty() && !link.any_gpu_code && link.host_module.empty()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!link.host_module.empty()) {
    if (!link.ptx.empty()) {
      return refuse_mixture(link, "a host module cannot be linked with PTX");
    }
    link.result = link.host_module;
    return CUDA_SUCCESS;
  }
  std::vector<std::string> kernels;
  for (const std::string& text : link.ptx) {
    for (std::string& name : ptx_kernels(text)) kernels.push_back(std::move(name));
  }
  std::vector<char> stand_in = stand_in_for_gpu_code();
  if (link.ptx.empty() || !side_modules_of(process, stand_in.data(), kernels).empty()) {
    link.result = std::move(stand_in);
    return CUDA_SUCCESS;
  }
  if (link.any_gpu_code) {
    return refuse_mixture(link,
                          "PTX that is compiled now cannot be linked with GPU code in binary form");
  }
  Image compiled;
  std::string reason;
  const CUresult result = compile_image(link.ptx, link.jit, &compiled, &reason);
  tell(link.jit, result, reason);
  if (result == CUDA_SUCCESS) link.result = compiled[0]->bytes();
  return result;
}

}  // namespace

CUresult cuLinkCreate_v2(unsigned int count, CUjit_option* options, void** values,
                         CUlinkState* state) {
  WITH_CONTEXT();
  if (!state) return CUDA_ERROR_INVALID_VALUE;
  auto link = std::make_shared<Link>();
  if (CUresult result = link->jit.read(count, options, values)) return result;
  *state = reinterpret_cast<CUlinkState>(links().insert(std::move(link)));
  return CUDA_SUCCESS;
}

CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void* data, size_t bytes,
                          const char*, unsigned int count, CUjit_option* options, void** values) {
  WITH_PROCESS();
  auto link = links().find(state);
  if (!link) return CUDA_ERROR_INVALID_HANDLE;
  JitOptions jit;
  if (CUresult result = jit.read(count, options, values)) return result;
  return add_input(*process, *link, type, static_cast<const char*>(data), bytes);
}

CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char* path,
                          unsigned int count, CUjit_option* options, void** values) {
  WITH_PROCESS();
  auto link = links().find(state);
  if (!link) return CUDA_ERROR_INVALID_HANDLE;
  JitOptions jit;
  if (CUresult result = jit.read(count, options, values)) return result;
  if (!path) return CUDA_ERROR_INVALID_VALUE;
  std::ifstream file(path, std::ios::binary);
  if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
  std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return add_input(*process, *link, type, bytes.data(), bytes.size());
}

CUresult cuLinkComplete(CUlinkState state, void** image, size_t* bytes) {
  WITH_PROCESS();
  auto link = links().find(state);
  if (!link) return CUDA_ERROR_INVALID_HANDLE;
  if (!image) return CUDA_ERROR_INVALID_VALUE;
  const lambent::MutexLock lock(link->mutex);
  if (link->result.empty()) {
    if (CUresult result = complete(*process, *link)) return result;
  }
  *image = link->result.data();
  if (bytes) *bytes = link->result.size();
  return CUDA_SUCCESS;
}

CUresult cuLinkDestroy(CUlinkState state) {
  WITH_PROCESS();
  return links().remove(state) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

// The first ABI differs in nothing that matters on 64 bits.
CUresult cuLinkCreate(unsigned int count, CUjit_option* options, void** values,
                      CUlinkState* state) {
  return cuLinkCreate_v2(count, options, values, state);
}
CUresult cuLinkAddData(CUlinkState state, CUjitInputType type, void* data, size_t bytes,
                       const char* name, unsigned int count, CUjit_option* options, void** values) {
  return cuLinkAddData_v2(state, type, data, bytes, name, count, options, values);
}
CUresult cuLinkAddFile(CUlinkState state, CUjitInputType type, const char* path, unsigned int count,
                       CUjit_option* options, void** values) {
  return cuLinkAddFile_v2(state, type, path, count, options, values);
}
