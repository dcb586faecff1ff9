// Files of the driver's capabilities: any text names the minor number of a device file or none, and
// what follows the number's line changes nothing.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "node/worker/device_nodes.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using lambent::worker::capability_minor;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto minor = capability_minor(text);
  if (minor && capability_minor(text + "\nDeviceFileMode: 292\n") != minor) abort();
  if (minor && text.find("DeviceFileMinor:") == std::string::npos) abort();
  return 0;
}
