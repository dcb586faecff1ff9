// Messages between worker and lambent-executor: any bytes decode or are refused, and what decodes
// comes back from its own encoding.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/protocol/executor_message.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent::protocol;
  const auto message =
      decode_executor_message(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!message.ok()) return 0;
  const auto again = decode_executor_message(encode(*message));
  if (!again.ok() || *again != *message) abort();
  return 0;
}
