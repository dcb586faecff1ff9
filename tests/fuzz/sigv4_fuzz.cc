// A signed request: method, target, Host, X-Amz-Date and Authorization, one a line, and the body.
// What passes was signed for Lambda, near our clock, and covers what has to be covered.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/check.h"
#include "core/crypto/crypto.h"
#include "edge/frontend/sigv4.h"

namespace {

std::string_view take_line(std::string_view& rest) {
  const size_t end = std::min(rest.find('\n'), rest.size());
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return line;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  http::Request request;
  request.method = take_line(rest);
  request.target = take_line(rest);
  for (const char* name : {"Host", "X-Amz-Date", "Authorization"}) {
    request.headers.add(name, std::string(take_line(rest)));
  }
  request.body = rest;
  const auto parsed = frontend::parse_sigv4(request.headers.get("authorization"));
  if (!parsed.ok() || !parsed->has_value()) return 0;
  const frontend::SigV4& signature = **parsed;
  CHECK(!signature.access_key_id.empty(), "what was parsed names a key");
  CHECK(signature.signature.size() == 64, "and has a signature's length");
  const std::string digest = crypto::to_hex(crypto::sha256(request.body));
  // 2026-11-28T04:22:00Z, as the corpus has it.
  const auto verified =
      frontend::verify_sigv4(request, signature, "s1gning", digest, seconds(1795839720));
  if (!verified.ok()) {
    CHECK(verified.error().code == ErrorCode::kUnauthenticated, "a refusal is one of credentials");
    return 0;
  }
  const auto covers = [&](std::string_view name) {
    return std::ranges::find(signature.signed_headers, name) != signature.signed_headers.end();
  };
  CHECK(signature.service == "lambda", "it is for this service");
  CHECK(covers("host"), "it stays at its host");
  CHECK(covers("x-amz-date"), "and at its time");
  return 0;
}
