// A call on objects: method, path with query, the header Range, and a list of ids, a line each; the
// rest is the body.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/check.h"
#include "core/domain/limits.h"
#include "edge/frontend/object_call.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent;
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto line = [&bytes] {
    const size_t end = std::min(bytes.find('\n'), bytes.size());
    const std::string text(bytes.substr(0, end));
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
    return text;
  };
  http::Request request;
  request.method = line();
  request.target = line();
  request.headers.add("Range", line());
  const auto needs = frontend::parse_object_list(line());
  if (needs.ok()) CHECK(needs->size() <= limits::kNeeds, "no list is longer than is allowed");
  request.body = bytes;
  const std::string path(http::path_of(request.target));
  const auto call = frontend::decode_object_call(std::move(request), path);
  if (const auto* refused = std::get_if<http::Response>(&call)) {
    CHECK(refused->status >= 400, "what is no call is an error");
  } else if (const auto* put = std::get_if<frontend::PutObject>(&call)) {
    CHECK(*byte_size(put->type) == Bytes(put->bytes.size()), "bytes fit their type");
  }
  return 0;
}
