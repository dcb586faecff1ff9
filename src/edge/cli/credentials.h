// Credentials: as whom a verb asks the worker, and Destination: where, too. Values; made by main,
// put on every request by what sends it, on any thread. Neither is ever shown.
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/http/client.h"
#include "core/http/message.h"

namespace lambent::cli {

struct Credentials {
  std::string token;   // empty: none is sent
  std::string tenant;  // for which an admin acts; empty: the token's own

  bool empty() const { return token.empty() && tenant.empty(); }
};

struct Destination {
  http::Endpoint endpoint;
  Credentials credentials;
};

// The request's headers, and those that say who sends it.
http::Headers headers_of(const http::Request& request, const Credentials& credentials);

// The token in `text`, without the blanks and line ends around it. INVALID_ARGUMENT, naming
// `source` and nothing of the text, if it cannot be a token.
Result<std::string> token_in(std::string_view text, std::string_view source);

}  // namespace lambent::cli
