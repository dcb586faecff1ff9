// What deploy asks of a worker that is to serve a model. Blocks.
#pragma once

#include <optional>
#include <string>

#include "core/base/result.h"
#include "edge/cli/transport.h"

namespace lambent::cli {

// "x FP32[-1,4] -> scores FP32[-1,3]", of what answers at `target`. Nothing if who asks may deploy
// and not invoke. FAILED_PRECONDITION: it cannot be loaded, with the reason.
Result<std::optional<std::string>> load_model(Transport& transport, const std::string& target);

// Whether the worker, or another node of its cluster, has a GPU. Who may not ask takes it that it
// has.
bool has_gpu(Transport& transport);

}  // namespace lambent::cli
