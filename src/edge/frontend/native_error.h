// Errors of our own API: {"error":{"code":"NOT_FOUND","message":"..."}} with the code's HTTP
// status. Free functions; any thread.
#pragma once

#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/base/time.h"
#include "core/http/message.h"

namespace lambent::frontend {

// RESOURCE_EXHAUSTED says when to try again: after so long, and at least a second.
http::Response error_response(const Error& error, Duration retry_after = {});
// Only the JSON.
std::string error_body(const Error& error);
// Bodies for what the HTTP server refuses by itself (ServerOptions::error_response), made so that
// clients of either API understand them.
http::Response server_error(int status, std::string_view reason);

}  // namespace lambent::frontend
