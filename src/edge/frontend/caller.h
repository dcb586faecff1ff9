// Caller: on whose behalf a request is made. A value; every decoder puts its tenant into the call.
#pragma once

#include <string>

#include "core/domain/access.h"
#include "core/domain/tenant.h"

namespace lambent::frontend {

struct Caller {
  TenantId tenant = kDefaultTenant;
  Scopes scopes = Scopes::all();
  std::string token;  // its id; empty: none was needed
};

}  // namespace lambent::frontend
