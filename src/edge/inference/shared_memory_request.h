// Requests and answers of the Open Inference Protocol whose tensors lie in shared memory (Triton's
// extension system_shared_memory), made into such that have them as bytes behind their JSON, which
// every server of the protocol takes. Pure; fuzzed; any thread.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/http/message.h"
#include "edge/inference/shared_memory_regions.h"

namespace lambent::inference {

// The region that the body of a registration describes: {"key", "offset", "byte_size"}, offset 0
// unless it says another. INVALID_ARGUMENT for anything else.
Result<RegionSpec> parse_registration(std::string name, std::string_view body);

// A part of a region, as a request names it.
struct SharedSlice {
  std::string region;
  uint64_t offset = 0;
  uint64_t size = 0;

  bool operator==(const SharedSlice&) const = default;
};

// What one input has behind the JSON.
struct InputBytes {
  std::string_view own;               // of the request's body
  std::optional<SharedSlice> shared;  // instead: what lies there
};

struct SharedOutput {
  std::string name;
  SharedSlice place;  // for at most so many bytes
};

struct SharedMemoryRequest {
  std::string json;                // as servers get it
  std::vector<InputBytes> inputs;  // those that have bytes, in order; `own` points into the body
  std::vector<SharedOutput> outputs;

  uint64_t shared_input_bytes() const;
};

// `json_length` as in parse_infer_request(). Nothing: the request names no shared memory, or is so
// wrong that its server tells best why. INVALID_ARGUMENT, naming the tensor, for what it says of
// shared memory.
Result<std::optional<SharedMemoryRequest>> parse_shared_memory_request(
    std::string_view body, std::optional<size_t> json_length);

// A server's answer to such a request, in two parts.
struct SharedMemoryAnswer {
  http::Response response;                // for the client
  std::vector<std::string_view> written;  // what goes to the place of each output; in `whole`
};

// INVALID_ARGUMENT, naming the output, if one does not fit its place; INTERNAL if the answer does
// not have each of `outputs` once, as bytes.
Result<SharedMemoryAnswer> take_shared_outputs(const http::Response& whole,
                                               std::span<const SharedOutput> outputs);

}  // namespace lambent::inference
