// Which nodes of a cluster may answer a request, told by its method, path and headers. Pure; any
// thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/http/forward_service.h"

namespace lambent::frontend {

struct Forwarding {
  http::Destination destination = http::Destination::kAnyNode;
  std::string function;  // as the request names it, perhaps qualified; empty: it is of none
  bool creates = false;  // the function need not be there

  bool operator==(const Forwarding&) const = default;
};

// Nothing: the node that has the request answers it. `function_domain` as in function_target().
std::optional<Forwarding> forwarding_of(const http::Request& request,
                                        std::string_view function_domain);

}  // namespace lambent::frontend
