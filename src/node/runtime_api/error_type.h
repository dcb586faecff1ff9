// The type of an error that a runtime reports: in a header, or in the JSON of its body.
// Pure; used by Session.
#pragma once

#include <string>
#include <string_view>

namespace lambent::runtime_api {

// The header if it has Lambda's form, "Runtime.Name" or "Function.Name"; else the body's
// "errorType", as any short printable text; else `fallback`.
std::string error_type_of(std::string_view header, std::string_view body,
                          std::string_view fallback);

// The body's "errorMessage"; the whole body if it has none.
std::string error_message_of(std::string_view body);

// {"errorMessage": ..., "errorType": ...}
std::string error_json(std::string_view error_type, std::string_view message);

}  // namespace lambent::runtime_api
