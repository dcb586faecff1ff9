// Bytes of a server into the client's response parser; cut in pieces of any size, the same response
// must come out.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/http/response_parser.h"

namespace {

std::string parse(std::string_view bytes, size_t step) {
  lambent::http::ResponseParser parser(false);
  bool whole = false;
  while (!bytes.empty() && !whole) {
    std::string_view piece = bytes.substr(0, step);
    bytes.remove_prefix(piece.size());
    const auto fed = parser.feed(piece);
    if (!fed.ok()) return "failed";
    whole = *fed;
    if (!whole && !piece.empty()) abort();  // unfinished, but did not take all there was
  }
  const auto& response = parser.response();
  return (whole ? "whole " : "part ") + std::to_string(response.status) + response.body;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  if (size < 2) return 0;
  const std::string_view text(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  if (parse(text, text.size()) != parse(text, 1 + bytes[0])) abort();
  return 0;
}
