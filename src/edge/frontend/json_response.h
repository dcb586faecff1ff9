// Answers whose body is JSON. A free function; any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "core/http/message.h"

namespace lambent::frontend {

http::Response json_response(int status, const nlohmann::json& body);

}  // namespace lambent::frontend
