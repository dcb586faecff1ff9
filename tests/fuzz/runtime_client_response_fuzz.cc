// A handler reads answers from whatever listens at its Runtime API.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "edge/runtime_client/http_response.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lambent::runtime_client::HttpResponse response;
  const auto parsed = lambent::runtime_client::parse_response(
      {reinterpret_cast<const char*>(data), size}, response);
  if (parsed.ok() && *parsed && response.consumed > size) abort();
  return 0;
}
