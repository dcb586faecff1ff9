// The calls on objects, decoded from HTTP: clients' under /v1/objects and handlers' under the same
// paths of their Runtime API. Values; decode_object_call is a pure function and the only reader.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/domain/tensor_type.h"
#include "core/http/message.h"
#include "edge/frontend/caller.h"

namespace lambent::frontend {

struct PutObject {
  std::optional<ObjectId> object;  // none: it gets a name
  TensorType type;                 // of so many bytes as came
  std::optional<Duration> time_to_live;
  std::string bytes;
};
// Bytes `first` to `last`, both included; without `first` the last `last` ones.
struct ByteRange {
  std::optional<uint64_t> first;
  std::optional<uint64_t> last;

  bool operator==(const ByteRange&) const = default;
};
struct GetObject {
  ObjectId object;
  Duration wait{};
  std::optional<ByteRange> range;
  bool only_here = false;  // a node asks: it is not sought elsewhere
};
// What is known of it, without its bytes.
struct DescribeObject {
  ObjectId object;
  bool only_here = false;
};
struct RemoveObject {
  ObjectId object;
};
struct ListObjects {
  std::optional<ObjectId> after;
  size_t limit = 0;
};

// A request that is no good call is the response that answers it.
using ObjectCall =
    std::variant<http::Response, PutObject, GetObject, DescribeObject, RemoveObject, ListObjects>;

// `path` is what follows the part that all such paths share: "" or "/ID". Takes the body.
ObjectCall decode_object_call(http::Request request, std::string_view path);

// What the query ("ttl") or X-Lambent-Ttl says, in seconds; none: nothing. INVALID_ARGUMENT.
Result<std::optional<Duration>> read_time_to_live(const http::Request& request);

// "<uuid>.<number>, <uuid>.<number>", as in X-Lambent-Needs. INVALID_ARGUMENT.
Result<std::vector<ObjectId>> parse_object_list(std::string_view text);

}  // namespace lambent::frontend
