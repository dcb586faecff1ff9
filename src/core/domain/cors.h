// Cors: which web pages of other origins may call a function by its URL, and what of the answer
// they may read: Lambda's block of that name. A value and pure functions; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace lambent {

struct Cors {
  std::vector<std::string> allow_origins;   // "https://app.example.org", or "*" for any
  std::vector<std::string> allow_methods;   // "GET", or "*"
  std::vector<std::string> allow_headers;   // of requests, or "*"
  std::vector<std::string> expose_headers;  // of answers, beside those that any page may read
  bool allow_credentials = false;
  double max_age_s = 0;  // how long a browser may keep what a preflight was answered

  bool operator==(const Cors&) const = default;
};

// As the manifest's table, tags and the catalog have it: JSON with these names. INVALID_ARGUMENT,
// naming what is wrong: also a list that is too long, an origin that is none, and credentials for
// any origin, which browsers refuse.
Result<Cors> parse_cors(std::string_view text);
std::string text_of(const Cors& cors);

// Whether a page of that origin, as a browser names it, may call.
bool allows_origin(const Cors& cors, std::string_view origin);
// Whether one may send a request with that method.
bool allows_method(const Cors& cors, std::string_view method);

}  // namespace lambent
