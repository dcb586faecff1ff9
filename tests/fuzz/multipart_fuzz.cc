// A body of multipart/form-data: parts lie within it, in order, and what was read is written and
// read the same.
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/check.h"
#include "core/http/multipart.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent;
  const std::string body(reinterpret_cast<const char*>(data), size);
  // Also as the type, which a client chooses as well.
  (void)http::parse_multipart(body, body).ok();
  const auto parts = http::parse_multipart("multipart/form-data; boundary=XX", body);
  if (!parts.ok()) return 0;
  CHECK(parts->size() <= http::kMostParts, "there are no more parts than are read");
  const char* after = body.data();
  for (const http::Part& part : *parts) {
    CHECK(part.content.data() >= after, "parts come in order");
    after = part.content.data() + part.content.size();
    CHECK(after <= body.data() + body.size(), "a part lies within the body");
    CHECK(part.content.find("\r\n--XX") == std::string_view::npos, "a part ends at its delimiter");
  }
  return 0;
}
