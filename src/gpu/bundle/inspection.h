// Lists the kernels of a host module by loading it, which runs its code: do it in a child process.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"
#include "gpu/bundle/manifest.h"

namespace lambent::bundle {

Result<std::vector<Kernel>> inspect_host_module(const std::string& path);

}  // namespace lambent::bundle
