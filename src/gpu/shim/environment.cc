#include "gpu/shim/environment.h"

#include <stdlib.h>
#include <string.h>

namespace lambent::shim {
namespace {

const char* value_of(const char* name) {
  const char* value = getenv(name);
  return value != nullptr && value[0] != '\0' ? value : nullptr;
}

}  // namespace

const char* real_driver_path() { return value_of("LAMBENT_SHIM_DRIVER"); }
const char* real_nvml_path() { return value_of("LAMBENT_SHIM_NVML"); }
const char* ledger_path() { return value_of("LAMBENT_SHIM_LEDGER"); }
int gpu_count() {
  const char* value = value_of("LAMBENT_SHIM_GPUS");
  const int count = value == nullptr ? 1 : atoi(value);
  return count > 1 ? count : 1;
}
const char* log_path() { return value_of("LAMBENT_SHIM_LOG"); }
bool traces() { return value_of("LAMBENT_SHIM_TRACE") != nullptr; }
const char* working_set_name() { return value_of("LAMBENT_SHIM_WORKING_SET"); }
const char* memory_mode_name() { return value_of("LAMBENT_SHIM_MEMORY_MODE"); }
const char* worker_path() { return value_of("LAMBENT_SHIM_MEMORY"); }
const char* device_link_path() { return value_of("LAMBENT_SHIM_LINK"); }
const char* managed_way_name() { return value_of("LAMBENT_SHIM_UVM"); }
bool may_oversubscribe() {
  const char* value = value_of("LAMBENT_SHIM_OVERSUBSCRIBE");
  return value != nullptr && strcmp(value, "1") == 0;
}

}  // namespace lambent::shim
