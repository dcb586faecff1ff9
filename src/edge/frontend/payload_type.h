// What a client says that a payload is. Pure; used by every route on which functions are invoked.
#pragma once

#include <string_view>

#include "core/http/message.h"

namespace lambent::frontend {

// The Content-Type, or nothing where it only is what that client says of every payload: `curl -d`,
// and the AWS SDKs for Go, JavaScript and Java. Lambda looks at no type: events are JSON. Handlers
// and kernel functions here may be told otherwise, but not in this way. Lives as long as `headers`.
std::string_view payload_type_of(const http::Headers& headers);

// JSON, or no type at all.
bool is_json(std::string_view content_type);

}  // namespace lambent::frontend
