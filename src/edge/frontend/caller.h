// Caller: on whose behalf a request is made. A value; every decoder puts its tenant into the call.
#pragma once

#include "core/domain/function.h"
#include "core/http/message.h"

namespace lambent::frontend {

struct Caller {
  TenantId tenant = kDefaultTenant;
};

// There is no authentication yet, and one tenant: whoever reaches the socket is that tenant.
inline Caller caller_of(const http::Request&) { return Caller(); }

}  // namespace lambent::frontend
