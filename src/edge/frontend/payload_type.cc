#include "edge/frontend/payload_type.h"

#include <strings.h>

#include <algorithm>

#include "core/domain/tensor_content.h"

namespace lambent::frontend {
namespace {

// Whether it is that type, whatever its parameters; letter case does not count (RFC 9110, 8.3.1).
bool is_type(std::string_view content_type, std::string_view media_type) {
  std::string_view type = content_type.substr(0, content_type.find(';'));
  const size_t begin = std::min(type.find_first_not_of(" \t"), type.size());
  type = type.substr(begin, type.find_last_not_of(" \t") + 1 - begin);
  return type.size() == media_type.size() &&
         strncasecmp(type.data(), media_type.data(), type.size()) == 0;
}

}  // namespace

std::string_view payload_type_of(const http::Headers& headers) {
  const std::string_view type = headers.get("Content-Type");
  if (is_type(type, "application/x-www-form-urlencoded")) return {};
  // The worker's own forms of requests, which no client may send.
  if (is_type(type, kTensorContentType) || is_type(type, kBatchContentType)) return {};
  const bool is_sdk = !headers.get("amz-sdk-invocation-id").empty();
  return is_sdk && is_type(type, "application/octet-stream") ? std::string_view() : type;
}

bool is_json(std::string_view content_type) {
  return content_type.empty() || is_type(content_type, "application/json");
}

}  // namespace lambent::frontend
