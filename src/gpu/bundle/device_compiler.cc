#include "gpu/bundle/device_compiler.h"

#include <dlfcn.h>

#include <cstring>
#include <filesystem>

#include "core/base/fd.h"
#include "gpu/bundle/ptx_version.h"

namespace lambent::bundle {
namespace {

constexpr size_t kMostSourceBytes = 16 * 1024 * 1024;

using Program = struct OpaqueProgram*;

// The few functions of NVRTC that we call, under the names that it exports.
struct Nvrtc {
  std::string toolkit_headers;  // of cooperative groups, half types and the like
  int (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*);
  int (*destroy)(Program*);
  int (*compile)(Program, int, const char* const*);
  int (*add_expression)(Program, const char*);
  int (*lowered_name)(Program, const char*, const char**);
  int (*log_size)(Program, size_t*);
  int (*log)(Program, char*);
  int (*ptx_size)(Program, size_t*);
  int (*ptx)(Program, char*);
  int (*cubin_size)(Program, size_t*);
  int (*cubin)(Program, char*);
  const char* (*error_string)(int);
};

Result<Nvrtc> load_nvrtc() {
  void* library = nullptr;
  for (const char* name :
       {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "/usr/local/cuda/lib64/libnvrtc.so"}) {
    library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) break;
  }
  if (library == nullptr) {
    return Error{ErrorCode::kUnavailable, "no CUDA toolkit here: libnvrtc is not found"};
  }
  Nvrtc nvrtc{};
  bool complete = true;
  const auto look_up = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    complete = complete && function != nullptr;
  };
  look_up(nvrtc.create, "nvrtcCreateProgram");
  look_up(nvrtc.destroy, "nvrtcDestroyProgram");
  look_up(nvrtc.compile, "nvrtcCompileProgram");
  look_up(nvrtc.add_expression, "nvrtcAddNameExpression");
  look_up(nvrtc.lowered_name, "nvrtcGetLoweredName");
  look_up(nvrtc.log_size, "nvrtcGetProgramLogSize");
  look_up(nvrtc.log, "nvrtcGetProgramLog");
  look_up(nvrtc.ptx_size, "nvrtcGetPTXSize");
  look_up(nvrtc.ptx, "nvrtcGetPTX");
  look_up(nvrtc.cubin_size, "nvrtcGetCUBINSize");
  look_up(nvrtc.cubin, "nvrtcGetCUBIN");
  look_up(nvrtc.error_string, "nvrtcGetErrorString");
  Dl_info place;
  if (dladdr(reinterpret_cast<void*>(nvrtc.create), &place) != 0) {
    std::error_code ignored;
    const auto library = std::filesystem::canonical(place.dli_fname, ignored);
    for (auto folder = library.parent_path(); folder.has_relative_path();
         folder = folder.parent_path()) {
      if (!std::filesystem::exists(folder / "include" / "cuda_fp16.h", ignored)) continue;
      nvrtc.toolkit_headers = (folder / "include").string();
      break;
    }
  }
  if (!complete) return Error{ErrorCode::kUnavailable, "libnvrtc lacks a function that we need"};
  return nvrtc;
}

// One program, compiled for one architecture.
class Compilation {
 public:
  Compilation(const Nvrtc& nvrtc, const DeviceCompilation& what) : nvrtc_(nvrtc), what_(what) {}
  Compilation(const Compilation&) = delete;
  ~Compilation() {
    if (program_ != nullptr) nvrtc_.destroy(&program_);
  }

  Result<void> run(const std::string& source, const std::string& architecture) {
    RETURN_IF_ERROR(
        check(nvrtc_.create(&program_, source.c_str(), what_.source.c_str(), 0, nullptr, nullptr)));
    for (const auto& expression : what_.expressions) {
      RETURN_IF_ERROR(check(nvrtc_.add_expression(program_, expression.c_str())));
    }
    const std::string target = "--gpu-architecture=" + architecture;
    const std::string include = "-I" + what_.include_folder;
    const std::string additions = include + "/lambent/device";
    const std::string toolkit = "-I" + nvrtc_.toolkit_headers;
    const std::string libraries = toolkit + "/cccl";  // where libcu++ lies since CUDA 13
    const char* options[] = {target.c_str(),    "--std=c++20",   include.c_str(),
                             additions.c_str(), toolkit.c_str(), libraries.c_str()};
    const int count = nvrtc_.toolkit_headers.empty() ? 4 : 6;
    if (const int failed = nvrtc_.compile(program_, count, options); failed != 0) {
      return Error{ErrorCode::kInvalidArgument,
                   "compile " + what_.source + " for " + architecture + ":\n" + log()};
    }
    return {};
  }

  template <typename Size, typename Get>
  Result<std::string> read(Size size, Get get) {
    size_t bytes = 0;
    RETURN_IF_ERROR(check(size(program_, &bytes)));
    std::string text(bytes, '\0');
    RETURN_IF_ERROR(check(get(program_, text.data())));
    return text;
  }

  Result<std::string> lowered(const std::string& expression) {
    const char* name = nullptr;
    RETURN_IF_ERROR(check(nvrtc_.lowered_name(program_, expression.c_str(), &name)));
    return std::string(name);
  }

 private:
  Result<void> check(int result) {
    if (result == 0) return {};
    return Error{ErrorCode::kInternal, std::string("NVRTC: ") + nvrtc_.error_string(result)};
  }

  std::string log() {
    auto text = read(nvrtc_.log_size, nvrtc_.log);
    return text.ok() ? std::string(text->c_str()) : "no log";
  }

  const Nvrtc& nvrtc_;
  const DeviceCompilation& what_;
  Program program_ = nullptr;
};

Result<std::string> ptx_for(const Nvrtc& nvrtc, const DeviceCompilation& what,
                            const std::string& source, const std::string& machine) {
  Compilation compilation(nvrtc, what);
  RETURN_IF_ERROR(compilation.run(source, machine));
  ASSIGN_OR_RETURN(std::string ptx, compilation.read(nvrtc.ptx_size, nvrtc.ptx));
  // NVRTC counts the zero behind it; in a file it would be a word that no compiler knows.
  ptx.resize(std::strlen(ptx.c_str()));
  return with_least_version(std::move(ptx));
}

}  // namespace

Result<DeviceCode> compile_for_device(const DeviceCompilation& what) {
  ASSIGN_OR_RETURN(const std::string source, read_file(what.source, kMostSourceBytes));
  ASSIGN_OR_RETURN(const Nvrtc nvrtc, load_nvrtc());
  DeviceCode code;
  Compilation binary(nvrtc, what);
  RETURN_IF_ERROR(binary.run(source, what.architecture));
  ASSIGN_OR_RETURN(code.cubin, binary.read(nvrtc.cubin_size, nvrtc.cubin));
  for (const auto& expression : what.expressions) {
    ASSIGN_OR_RETURN(code.lowered.emplace_back(), binary.lowered(expression));
  }
  ASSIGN_OR_RETURN(code.ptx, ptx_for(nvrtc, what, source, what.virtual_machine));
  auto older = ptx_for(nvrtc, what, source, what.older_machine);
  if (older.ok()) code.older_ptx = std::move(*older);
  return code;
}

}  // namespace lambent::bundle
