// Errors of our own API: {"error":{"code":"NOT_FOUND","message":"..."}} with the code's HTTP
// status. Free functions; any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "http/message.h"

namespace lambent::frontend {

http::Response error_response(const Error& error);
// The JSON alone.
std::string error_body(const Error& error);
// Bodies for what the HTTP server refuses by itself (ServerOptions::error_response), made so that
// clients of either API understand them.
http::Response server_error(int status, std::string_view reason);

}  // namespace lambent::frontend
