// CrossOrigin: what pages of other origins may ask of a function whose owner allows them to
// (core/domain/cors.h), and what browsers are told of it. Pure; any thread.
#pragma once

#include "core/base/result.h"
#include "core/domain/cors.h"
#include "core/http/message.h"

namespace lambent::frontend {

// A browser asks before it sends a page's request.
bool is_preflight(const http::Request& request);

// PERMISSION_DENIED unless the request names one page in Origin, that page may call, and its method
// (that of a preflight: the one it asks for) is allowed. Without allow_methods these are GET, HEAD
// and POST, which pages may always send.
Result<void> check_cross_origin(const Cors& cors, const http::Request& request);

// The answer to one that was allowed; no function sees it.
http::Response preflight_answer(const Cors& cors, const http::Request& request);

// For the answer to a request that was allowed. Empty for a page that may not call.
http::Headers cross_origin_headers(const Cors& cors, const http::Request& request);

}  // namespace lambent::frontend
