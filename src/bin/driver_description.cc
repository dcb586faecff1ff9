#include "bin/driver_description.h"

#include <dlfcn.h>

#include <cstdio>
#include <optional>

#include "gpu/cuda/driver.h"
#include "gpu/monitor/driver_facts.h"

namespace lambent {
namespace {

std::string nvml_uuid_of(const CUuuid& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    char byte[4];
    const bool begins_group = i == 4 || i == 6 || i == 8 || i == 10;
    std::snprintf(byte, sizeof(byte), "%s%02x", begins_group ? "-" : "",
                  static_cast<unsigned char>(uuid.bytes[i]));
    text += byte;
  }
  return text;
}

std::optional<monitor::DriverFacts> facts_of(const cuda::Driver& driver, int ordinal) {
  CUdevice device = 0;
  CUuuid uuid = {};
  int integrated = 0;
  size_t memory = 0;
  if (driver->device_get(&device, ordinal) != CUDA_SUCCESS ||
      driver->device_get_uuid_v2(&uuid, device) != CUDA_SUCCESS ||
      driver->device_get_attribute(&integrated, CU_DEVICE_ATTRIBUTE_INTEGRATED, device) !=
          CUDA_SUCCESS ||
      driver->device_total_mem(&memory, device) != CUDA_SUCCESS) {
    return std::nullopt;
  }
  return monitor::DriverFacts{nvml_uuid_of(uuid), integrated != 0, Bytes(memory)};
}

}  // namespace

int print_cuda_version() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "lambent-device: no CUDA driver: %s\n", dlerror());
    return exit_code_of(ErrorCode::kUnavailable);
  }
  const auto get_version =
      reinterpret_cast<CUresult (*)(int*)>(dlsym(library, "cuDriverGetVersion"));
  int version = 0;  // 12040
  if (get_version == nullptr || get_version(&version) != CUDA_SUCCESS) return 1;
  std::printf("%d.%d\n", version / 1000, version % 1000 / 10);
  return 0;
}

int describe_driver() {
  const auto driver = cuda::Driver::load();
  if (!driver.ok()) {
    std::fprintf(stderr, "lambent-device: %s\n", to_string(driver.error()).c_str());
    return exit_code_of(driver.error().code);
  }
  int count = 0;
  if ((**driver)->device_get_count(&count) != CUDA_SUCCESS) return 1;
  std::vector<monitor::DriverFacts> facts;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    if (auto known = facts_of(**driver, ordinal)) facts.push_back(std::move(*known));
  }
  std::fputs(monitor::to_text(facts).c_str(), stdout);
  return 0;
}

}  // namespace lambent
