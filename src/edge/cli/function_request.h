// The Lambda API's words for deploying a function: what we send to create or change one. Pure; used
// by deploy and replay.
#pragma once

#include <string>
#include <string_view>

#include "core/domain/function.h"
#include "core/http/message.h"

namespace lambent::cli {

http::Request create_request(const FunctionSpec& spec, std::string_view zip);
http::Request update_code_request(const std::string& name, std::string_view zip);
http::Request update_configuration_request(const FunctionSpec& spec);
// What Lambda has no field for (GPU, weight, concurrency) travels as tags, which have a call of
// their own once the function exists.
http::Request update_tags_request(const FunctionSpec& spec);

// "/2015-03-31/functions/NAME" with `rest` after it.
std::string function_target(const std::string& name, std::string_view rest = "");

}  // namespace lambent::cli
