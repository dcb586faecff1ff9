// What Lambda has and no function has here: the answers to clients that ask whether it is there,
// and what a refusal says. Pure; used by the Lambda frontend.
#pragma once

#include <string>
#include <string_view>

#include "core/http/message.h"

namespace lambent::frontend {

// What Lambda answers where there is none of `feature` (the path behind the function, or the
// collection). `function` is its name, empty for a collection.
http::Response answer_of_none(std::string_view feature, std::string_view function);

// Why `feature` is refused, and what does the same here.
std::string refusal_of_feature(std::string_view feature);

}  // namespace lambent::frontend
