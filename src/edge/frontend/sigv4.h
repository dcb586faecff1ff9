// AWS Signature Version 4 of requests to Lambda's API, as AWS clients sign them ("Signing AWS API
// requests", AWS General Reference). Pure functions, the only readers of such headers; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"
#include "core/http/message.h"

namespace lambent::frontend {

constexpr std::string_view kSigV4Scheme = "AWS4-HMAC-SHA256";
// How far the client's clock may be from ours.
constexpr Duration kSigV4Skew = std::chrono::minutes(5);

// What `Authorization` has of it. Views into the header.
struct SigV4 {
  std::string_view access_key_id;
  std::string_view date;  // YYYYMMDD
  std::string_view region;
  std::string_view service;
  std::vector<std::string_view> signed_headers;
  std::string_view signature;  // 64 hexadecimal digits
};

// INVALID_ARGUMENT, saying what is missing, if the header begins with kSigV4Scheme and is
// malformed; nothing if it has another scheme.
Result<std::optional<SigV4>> parse_sigv4(std::string_view authorization);

// Whether `request` was signed with `secret`. `body_digest` is the SHA-256 of its body in
// hexadecimal digits, `now` since the Unix epoch. UNAUTHENTICATED: another signature, another
// service than lambda, a date that is missing or too far from now, a body or a header that the
// signature should cover and does not.
Result<void> verify_sigv4(const http::Request& request, const SigV4& signature,
                          std::string_view secret, std::string_view body_digest, Duration now);

// What is signed, line by line; for tests and messages.
std::string canonical_request(const http::Request& request, const SigV4& signature,
                              std::string_view body_digest);

}  // namespace lambent::frontend
