// Caller: on whose behalf a request is made. A value; every decoder puts its tenant into the call.
#pragma once

#include "core/domain/access.h"
#include "core/domain/tenant.h"

namespace lambent::frontend {

struct Caller {
  TenantId tenant = kDefaultTenant;
  Scopes scopes = Scopes::all();
};

}  // namespace lambent::frontend
