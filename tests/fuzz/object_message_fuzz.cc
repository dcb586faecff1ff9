// Messages at the worker's object socket: any bytes decode or are refused, and what decodes comes
// back from its own encoding.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/protocol/object_message.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent::protocol;
  if (size > kObjectMessage.count / 2) return 0;  // longer texts are cut when they are encoded
  const auto message =
      decode_object_message(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!message.ok()) return 0;
  const auto again = decode_object_message(encode(*message));
  if (!again.ok() || *again != *message) abort();
  return 0;
}
