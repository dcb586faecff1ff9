// One call of the worker's API whose answer is a JSON object. Used by verbs, on their thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "core/base/result.h"
#include "edge/cli/transport.h"

namespace lambent::cli {

// Sends `body`, if there is one. The error of a bad answer as good() has it; INTERNAL if a good one
// is no object.
Result<nlohmann::ordered_json> ask_json(Transport& transport, const std::string& method,
                                        const std::string& target,
                                        const nlohmann::ordered_json* body = nullptr);

Error not_a_worker(const std::string& target);

}  // namespace lambent::cli
