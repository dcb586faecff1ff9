#include "core/domain/nvidia_gpus.h"

#include <charconv>

namespace lambent {
namespace {

// From which version of CUDA on there is which version of PTX; the last before counts.
constexpr struct {
  CudaVersion cuda, ptx;
} kPtx[] = {{{10, 0}, {6, 3}}, {{10, 2}, {6, 5}}, {{11, 0}, {7, 0}}, {{11, 1}, {7, 1}},
            {{11, 2}, {7, 2}}, {{11, 3}, {7, 3}}, {{11, 4}, {7, 4}}, {{11, 5}, {7, 5}},
            {{11, 6}, {7, 6}}, {{11, 7}, {7, 7}}, {{11, 8}, {7, 8}}, {{12, 0}, {8, 0}},
            {{12, 1}, {8, 1}}, {{12, 2}, {8, 2}}, {{12, 3}, {8, 3}}, {{12, 4}, {8, 4}},
            {{12, 5}, {8, 5}}, {{12, 7}, {8, 6}}, {{12, 8}, {8, 7}}, {{12, 9}, {8, 8}},
            {{13, 0}, {9, 0}}, {{13, 1}, {9, 1}}};

NvidiaJudgement broken(std::string says, std::string remedy) {
  return {NvidiaState::kBroken, std::move(says), std::move(remedy)};
}

// Neither a device nor a module: a machine without a GPU, or a container that was not given one.
NvidiaJudgement judge_absence(const NvidiaFacts& facts) {
  if (facts.library.empty()) {
    return {NvidiaState::kAbsent, "no driver of NVIDIA's is loaded and there is no libcuda.so.1",
            ""};
  }
  const std::string answer = facts.devices.ok() ? "" : " (" + facts.devices.error().message + ")";
  return {NvidiaState::kAbsent,
          "there is " + facts.library +
              ", but no driver of NVIDIA's is loaded and no /dev/nvidia0" + answer,
          "in a container give it the GPUs, as docker run --gpus all does"};
}

NvidiaJudgement judge_library(const NvidiaFacts& facts) {
  const std::string driver = "driver " + facts.module_version;
  if (facts.library.empty()) {
    return broken(driver + " is loaded, but no libcuda.so.1 was found",
                  "name its folder with lambent serve --nvidia-driver; in a container set "
                  "NVIDIA_DRIVER_CAPABILITIES=compute,utility");
  }
  if (!facts.devices.ok()) {
    return broken(driver + " is loaded, but CUDA does not start: " + facts.devices.error().message,
                  facts.library + " has to be of the same version as the module");
  }
  const std::string found = std::to_string(*facts.devices) + " by " + driver;
  if (*facts.devices == 0) {
    return broken(found, "CUDA sees no device: look at CUDA_VISIBLE_DEVICES and nvidia-smi");
  }
  if (!facts.has_nvml) {
    return broken(found + ", but there is no libnvidia-ml.so.1 beside " + facts.library,
                  "install it (Debian: libnvidia-ml1); in a container set "
                  "NVIDIA_DRIVER_CAPABILITIES=compute,utility");
  }
  return {NvidiaState::kUsable, found, ""};
}

}  // namespace

std::string to_string(CudaVersion version) {
  return std::to_string(version.major) + "." + std::to_string(version.minor);
}

std::optional<CudaVersion> cuda_version_of(std::string_view text) {
  CudaVersion version;
  const char* const end = text.data() + text.size();
  const auto major = std::from_chars(text.data(), end, version.major);
  if (major.ec != std::errc() || major.ptr == end || *major.ptr != '.') return std::nullopt;
  const auto minor = std::from_chars(major.ptr + 1, end, version.minor);
  if (minor.ec != std::errc()) return std::nullopt;
  return version;
}

CudaVersion ptx_of(CudaVersion cuda) {
  CudaVersion known;
  for (const auto& [from, ptx] : kPtx) {
    if (from <= cuda) known = ptx;
  }
  return known;
}

NvidiaJudgement judge(const NvidiaFacts& facts) {
  const bool has_files = !facts.device_files.empty();
  const bool has_module = !facts.module_version.empty();
  if (!has_files && !has_module) return judge_absence(facts);
  if (!has_files) {
    return broken("driver " + facts.module_version + " is loaded, but there is no /dev/nvidia0",
                  "nvidia-modprobe -c 0 -u makes the device files");
  }
  if (!has_module) {
    return broken("there are device files, but no driver is loaded",
                  "modprobe nvidia; its log is in dmesg");
  }
  return judge_library(facts);
}

}  // namespace lambent
