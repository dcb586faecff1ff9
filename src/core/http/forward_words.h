// Words by which nodes of a cluster tell each other, and themselves, what became of a request.
#pragma once

#include <string_view>

namespace lambent::http {

// In what is said of a node that was lost while it had a request.
constexpr std::string_view kMayHaveRun = "it may have run there";

}  // namespace lambent::http
