// What a tenant may see of the worker's metrics: the series of its own functions. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "core/base/ids.h"

namespace lambent::frontend {

// Of a Prometheus text: the samples with this tenant's label, and the comments of their families.
std::string metrics_of(std::string_view text, TenantId tenant);

}  // namespace lambent::frontend
