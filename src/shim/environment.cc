#include "shim/environment.h"

#include <stdlib.h>

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
const char* log_path() { return value_of("LAMBENT_SHIM_LOG"); }
bool traces() { return value_of("LAMBENT_SHIM_TRACE") != nullptr; }
const char* memory_mode_name() { return value_of("LAMBENT_SHIM_MEMORY_MODE"); }
const char* worker_path() { return value_of("LAMBENT_SHIM_MEMORY"); }
const char* device_link_path() { return value_of("LAMBENT_SHIM_LINK"); }

}  // namespace lambent::shim
