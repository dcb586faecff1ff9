// Words by which nodes of a cluster tell each other, and themselves, what became of a request.
#pragma once

#include <string_view>

#include "core/domain/stopping.h"
#include "core/http/message.h"

namespace lambent::http {

// In what is said of a node that was lost while it had a request.
constexpr std::string_view kMayHaveRun = "it may have run there";

// "true" in the answer of a worker that stops and has begun nothing of the request: the node that
// forwarded it tries another one.
constexpr std::string_view kNotBegun = "X-Lambent-Not-Begun";

// Puts that into an answer to the error, if it is this one.
inline void tell_not_begun(Headers& answer, ErrorCode code, std::string_view message) {
  if (has_not_begun(code, message)) answer.add(std::string(kNotBegun), "true");
}

}  // namespace lambent::http
