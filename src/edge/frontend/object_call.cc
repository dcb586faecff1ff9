#include "edge/frontend/object_call.h"

#include "core/base/parse_number.h"
#include "core/domain/limits.h"
#include "edge/frontend/limits.h"
#include "edge/frontend/native_error.h"
#include "edge/frontend/native_path.h"
#include "edge/frontend/plain_text.h"
#include "node/objects/limits.h"

namespace lambent::frontend {
namespace {

Error invalid(std::string what) { return {ErrorCode::kInvalidArgument, std::move(what)}; }

// "2,3", "[2, 3]" or "[]".
Result<std::vector<uint64_t>> parse_shape(std::string_view text) {
  const std::string_view whole = text;
  text = trimmed(text);
  if (text.starts_with('[') && text.ends_with(']')) text = trimmed(text.substr(1, text.size() - 2));
  std::vector<uint64_t> shape;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const auto number = parse_number<uint64_t>(trimmed(text.substr(0, comma)));
    const bool ends_early = comma + 1 == text.size();
    if (!number || ends_early) {
      return invalid("shape is a list of numbers such as 2,3, not '" +
                     std::string(whole.substr(0, 64)) + "'");
    }
    shape.push_back(*number);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return shape;
}

// What clients say in the query or, where they prefer it, in a header.
std::string said(const http::Request& request, std::string_view name, std::string_view header) {
  std::string value = http::query_value(http::query_of(request.target), name);
  return value.empty() ? std::string(request.headers.get(header)) : value;
}

Result<std::optional<Duration>> read_seconds(const http::Request& request, std::string_view name,
                                             std::string_view header, Duration least,
                                             Duration most) {
  const std::string text = said(request, name, header);
  if (text.empty()) return std::optional<Duration>();
  const auto number = parse_number<double>(text);
  // Compared as numbers: a large one has no Duration.
  if (!number || !(*number >= to_seconds(least)) || !(*number <= to_seconds(most))) {
    return invalid(std::string(name) + " is " + std::to_string(least / seconds(1)) + " to " +
                   std::to_string(most / seconds(1)) + " seconds");
  }
  return std::optional<Duration>(from_seconds(*number));
}

Result<TensorType> read_type(const http::Request& request, Bytes size) {
  const std::string datatype = said(request, "datatype", "x-lambent-datatype");
  const std::string shape = said(request, "shape", "x-lambent-shape");
  TensorType type = raw_tensor(size);
  if (!datatype.empty()) {
    const auto known = data_type_from(datatype);
    if (!known) {
      return invalid(
          "'" + datatype.substr(0, 32) +
          "' is no datatype; use FP32, INT64, BYTES, ... of the Open Inference Protocol");
    }
    type.datatype = *known;
    if (shape.empty() && type.datatype != DataType::kBytes) return invalid("shape is missing");
  } else if (!shape.empty()) {
    return invalid("a shape needs a datatype");
  }
  if (!shape.empty()) {
    ASSIGN_OR_RETURN(type.shape, parse_shape(shape));
  }
  ASSIGN_OR_RETURN(const Bytes needed, byte_size(type));
  if (needed != size) {
    return invalid(to_string(type) + " has " + std::to_string(needed.count) + " bytes, but " +
                   std::to_string(size.count) + " were sent");
  }
  return type;
}

Result<PutObject> read_put(http::Request request, std::optional<ObjectId> object) {
  const Bytes size(request.body.size());
  if (size > limits::kHttpObject) {
    return Error{ErrorCode::kOutOfRange,
                 "over HTTP an object has at most " + to_string(limits::kHttpObject) +
                     "; put larger ones through the worker's object socket"};
  }
  PutObject put;
  put.object = object;
  ASSIGN_OR_RETURN(put.type, read_type(request, size));
  ASSIGN_OR_RETURN(put.time_to_live, read_time_to_live(request));
  put.bytes = std::move(request.body);
  return put;
}

// One range of bytes; whatever else the header says counts as nothing said, as HTTP has it.
std::optional<ByteRange> read_range(std::string_view text) {
  if (!text.starts_with("bytes=")) return std::nullopt;
  text.remove_prefix(6);
  const size_t dash = text.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  ByteRange range;
  range.first = parse_number<uint64_t>(text.substr(0, dash));
  range.last = parse_number<uint64_t>(text.substr(dash + 1));
  const bool no_first = dash == 0;
  const bool no_last = dash + 1 == text.size();
  if (range.first.has_value() == no_first) return std::nullopt;
  if (range.last.has_value() == no_last) return std::nullopt;
  if (no_first && no_last) return std::nullopt;
  return range;
}

bool is_only_here(const http::Request& request) {
  return request.headers.get("x-lambent-only-here") == "true";
}

Result<GetObject> read_get(const http::Request& request, ObjectId object) {
  GetObject get{object, {}, read_range(request.headers.get("range"))};
  ASSIGN_OR_RETURN(const auto wait, read_seconds(request, "wait", "x-lambent-wait", Duration(0),
                                                 limits::kMostObjectWait));
  get.wait = wait.value_or(Duration(0));
  get.only_here = is_only_here(request);
  return get;
}

Result<ListObjects> read_list(const http::Request& request) {
  ListObjects list{std::nullopt, limits::kObjectsPerPage};
  const std::string_view query = http::query_of(request.target);
  if (const std::string after = http::query_value(query, "after"); !after.empty()) {
    list.after = object_id_from_string(after);
    if (!list.after) return invalid("after is the id of an object");
  }
  ASSIGN_OR_RETURN(list.limit, page_limit(query, limits::kObjectsPerPage));
  return list;
}

template <typename T>
ObjectCall call_or_error(Result<T> result) {
  if (!result.ok()) return error_response(result.error());
  return ObjectCall(std::move(*result));
}

http::Response not_allowed(std::string_view method, const char* allowed) {
  http::Response response =
      error_response(Error{ErrorCode::kUnimplemented, std::string(method.substr(0, 32)) +
                                                          " is not allowed here; use " + allowed});
  response.status = 405;
  response.headers.add("Allow", allowed);
  return response;
}

}  // namespace

ObjectCall decode_object_call(http::Request request, std::string_view path) {
  if (path.empty()) {
    if (request.method == "GET") return call_or_error(read_list(request));
    if (request.method == "POST") return call_or_error(read_put(std::move(request), std::nullopt));
    return not_allowed(request.method, "GET, POST");
  }
  const auto object = object_id_from_string(path.substr(1));
  if (!path.starts_with('/') || !object) {
    return error_response(
        invalid("the id of an object is that of an invocation, a dot and a number"));
  }
  if (request.method == "GET") return call_or_error(read_get(request, *object));
  if (request.method == "HEAD") return DescribeObject{*object, is_only_here(request)};
  if (request.method == "DELETE") return RemoveObject{*object};
  if (request.method == "PUT") return call_or_error(read_put(std::move(request), *object));
  return not_allowed(request.method, "GET, HEAD, PUT, DELETE");
}

Result<std::optional<Duration>> read_time_to_live(const http::Request& request) {
  return read_seconds(request, "ttl", "x-lambent-ttl", limits::kLeastObjectTimeToLive,
                      limits::kMostObjectTimeToLive);
}

Result<std::vector<ObjectId>> parse_object_list(std::string_view text) {
  std::vector<ObjectId> objects;
  while (!trimmed(text).empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const auto object = object_id_from_string(trimmed(text.substr(0, comma)));
    if (!object) {
      return invalid("'" + std::string(text.substr(0, std::min<size_t>(comma, 64))) +
                     "' is not an id of an object");
    }
    if (objects.size() == limits::kNeeds) {
      return invalid("an invocation needs at most " + std::to_string(limits::kNeeds) + " objects");
    }
    objects.push_back(*object);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return objects;
}

}  // namespace lambent::frontend
