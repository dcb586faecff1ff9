// Bytes of a server into the client's response parser; cut in pieces of any size, and with its body
// taken at once or at the end, the same response must come out. The first byte says how the bytes
// are cut, the second what was asked for.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "core/http/response_parser.h"

namespace {

using lambent::http::ResponseParser;

std::string parse(std::string_view bytes, size_t step, ResponseParser::Options options,
                  bool takes_body) {
  ResponseParser parser(options);
  std::string body;
  bool whole = false;
  while (!bytes.empty() && !whole) {
    std::string_view piece = bytes.substr(0, step);
    bytes.remove_prefix(piece.size());
    const auto fed = parser.feed(piece);
    if (!fed.ok()) return "failed";
    whole = *fed;
    if (!whole && !piece.empty()) abort();  // unfinished, but did not take all there was
    if (takes_body) body += std::exchange(parser.response().body, {});
    if (parser.switched() && !options.upgrades) abort();
  }
  const auto& response = parser.response();
  if (!takes_body) body = response.body;
  if (whole && parser.head_done() && !options.bodiless && parser.size().value_or(0) > 0 &&
      body.size() != *parser.size()) {
    const bool has_none = response.status < 200 || response.status == 204 || response.status == 304;
    if (!has_none) abort();  // the size that it told is another
  }
  return (whole ? "whole " : "part ") + std::to_string(response.status) + body;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  if (size < 3) return 0;
  const std::string_view text(reinterpret_cast<const char*>(bytes) + 2, size - 2);
  ResponseParser::Options options;
  options.bodiless = (bytes[1] & 1) != 0;
  options.upgrades = (bytes[1] & 2) != 0;
  if ((bytes[1] & 4) != 0) options.max_head = 64;
  const std::string at_once = parse(text, text.size(), options, false);
  if (at_once != parse(text, 1 + bytes[0], options, true)) abort();
  return 0;
}
