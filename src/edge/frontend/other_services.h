// Requests of AWS's clients to other services than Lambda, which come here by an endpoint that is
// said for all of them. Pure; used by the router.
#pragma once

#include <optional>

#include "core/http/message.h"

namespace lambent::frontend {

// The refusal, in the form that the service's clients read; nothing if the request is not signed
// for another service, or is for a path of our own.
std::optional<http::Response> refusal_of_other_service(const http::Request& request);

}  // namespace lambent::frontend
