// Several requests to one kernel function as the payload of one invocation, and their answers: what
// each is by itself, with its content type and length before it. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/domain/tensor_content.h"

namespace lambent::kernel_graph {

using lambent::kBatchContentType;

struct BatchPart {
  std::string_view content_type;
  std::string_view payload;

  bool operator==(const BatchPart&) const = default;
};

std::string join_batch(std::span<const BatchPart> parts);

// They lie in the payload. INVALID_ARGUMENT: it is not what join_batch() made of 1 to `most` parts.
Result<std::vector<BatchPart>> split_batch(std::string_view payload, uint64_t most);

}  // namespace lambent::kernel_graph
