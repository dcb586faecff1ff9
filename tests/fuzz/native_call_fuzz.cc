// A request to our own API: the method in the first line, the target in the rest.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/check.h"
#include "edge/frontend/native_call.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(bytes.find('\n'), bytes.size());
  http::Request request;
  request.method = bytes.substr(0, end);
  request.target = bytes.substr(std::min(end + 1, bytes.size()));
  const auto call = frontend::decode_native_call(request, frontend::Caller());
  if (const auto* refused = std::get_if<http::Response>(&call)) {
    CHECK(refused->status >= 400, "what is no call is an error");
    CHECK(!refused->body.empty(), "and says so");
  }
  return 0;
}
