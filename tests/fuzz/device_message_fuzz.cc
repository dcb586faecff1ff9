// Messages of lambent-device: any bytes decode or are refused, and what decodes encodes to the
// same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "core/protocol/device_message.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent::protocol;
  const auto message = decode_device_message(std::as_bytes(std::span(data, size)));
  if (!message.ok()) return 0;
  const std::string again = encode(*message);
  if (again != std::string(reinterpret_cast<const char*>(data), size)) abort();
  return 0;
}
