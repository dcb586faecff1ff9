// Bytes of a client into the parser of a server's connection. The first byte says how they are cut
// into pieces: however they arrive, the same requests must come out.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/http/request_parser.h"

namespace {

using lambent::http::RequestParser;

constexpr RequestParser::Limits kLimits{.max_headers = 2048, .max_body = 4096};

// Everything that came out, as one text.
std::string parse(std::string_view bytes, size_t step) {
  std::string seen;
  RequestParser parser(kLimits);
  while (!bytes.empty()) {
    std::string_view piece = bytes.substr(0, step);
    bytes.remove_prefix(piece.size());
    while (!piece.empty()) {
      const RequestParser::Status status = parser.feed(piece);
      if (status == RequestParser::Status::kFailed) {
        return seen + "failed " + std::to_string(parser.failure().status);
      }
      if (status != RequestParser::Status::kComplete) {
        if (!piece.empty()) abort();  // unfinished, but did not take all there was
        continue;
      }
      const auto& request = parser.request();
      if (request.body.size() > kLimits.max_body) abort();
      seen += request.method + " " + request.target + "\n";
      for (const auto& [name, value] : request.headers.fields()) {
        if (name.empty() || value.find_first_of(std::string_view("\r\n\0", 3)) != value.npos) {
          abort();
        }
        seen += name + ": " + value + "\n";
      }
      seen += request.body + "\n";
      parser.next();
    }
  }
  return seen;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  if (size < 2) return 0;
  const std::string_view text(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  const std::string whole = parse(text, text.size());
  if (parse(text, 1 + bytes[0]) != whole) abort();
  return 0;
}
