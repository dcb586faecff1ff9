// Which scopes let a request pass, told by its method and path. A table; pure; any thread.
#pragma once

#include <string_view>

#include "core/domain/access.h"

namespace lambent::frontend {

struct RouteScopes {
  // One of these, or admin, is needed. Of a path that is not in the table: only admin, so that a
  // route that was forgotten here is closed and not open.
  Scopes any_of;
  // It answers who has no token: whether the worker lives says nothing of anybody.
  bool open = false;
  // It changes something that outlives the request, or is an operator's: it is audited.
  bool audited = false;
};

RouteScopes scopes_of(std::string_view method, std::string_view path);

}  // namespace lambent::frontend
