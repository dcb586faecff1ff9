// What a machine has of NVIDIA's GPUs and their driver, and what follows: whether a worker can use
// them, and if not, why and what to do. Pure; the worker chooses its GPUs by it, and `lambent
// doctor` tells it.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/result.h"

namespace lambent {

// A version of CUDA, or of PTX. A value.
struct CudaVersion {
  unsigned major = 0;
  unsigned minor = 0;

  auto operator<=>(const CudaVersion&) const = default;
};
std::string to_string(CudaVersion version);  // "12.4"
// Of a text that begins with it; none: it does not.
std::optional<CudaVersion> cuda_version_of(std::string_view text);
// The latest PTX that drivers and compilers of this version of CUDA know.
CudaVersion ptx_of(CudaVersion cuda);

// What was found. A value.
struct NvidiaFacts {
  std::vector<std::string> device_files;  // /dev/nvidia0, ...
  std::string module_version;             // of the kernel's module; empty: none is loaded
  std::string library;                    // path of libcuda.so.1; empty: none was found
  bool has_nvml = false;                  // libnvidia-ml.so.1 is beside it
  // How many devices CUDA's driver sees, once it has started.
  Result<unsigned> devices = Error{ErrorCode::kUnknown, "not asked"};
  std::optional<CudaVersion> cuda;  // that the driver was made for; it says so without a device
};

enum class NvidiaState {
  kAbsent,  // nothing says that this machine has one
  kBroken,  // it has one that cannot be used
  kUsable,
};

struct NvidiaJudgement {
  NvidiaState state = NvidiaState::kAbsent;
  std::string says;    // half a sentence
  std::string remedy;  // empty: nothing has to be done
};

NvidiaJudgement judge(const NvidiaFacts& facts);

}  // namespace lambent
