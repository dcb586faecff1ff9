// SharedMemoryOwner: whose shared memory a tenant may register, as the operator says it. A value.
#pragma once

#include <sys/types.h>

#include <string>

#include "core/domain/tenant.h"

namespace lambent::frontend {

struct SharedMemoryOwner {
  uid_t user = 0;
  std::string tenant = std::string(kDefaultTenantName);

  bool operator==(const SharedMemoryOwner&) const = default;
};

}  // namespace lambent::frontend
