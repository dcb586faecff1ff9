// The codec between worker, lambent-launcher and init: whatever comes, it is decoded or refused,
// and what was decoded encodes to something that decodes to the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "node/sandbox/message.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent::sandbox;
  const auto message = decode(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!message.ok()) return 0;
  if (const auto* launch = std::get_if<LaunchRequest>(&*message)) (void)validate(launch->plan);
  const std::string bytes = encode(*message);
  const auto again = decode(bytes);
  // Compared as bytes: a quota of NaN is not equal to itself.
  if (!again.ok() || encode(*again) != bytes) abort();
  return 0;
}
