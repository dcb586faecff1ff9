#include "decide/kernel_graph/batch_payload.h"

#include <cstring>
#include <optional>

namespace lambent::kernel_graph {
namespace {

void append(std::string& text, std::string_view bytes) {
  const auto length = static_cast<uint32_t>(bytes.size());
  text.append(reinterpret_cast<const char*>(&length), sizeof length);
  text += bytes;
}

std::optional<std::string_view> take(std::string_view& left) {
  uint32_t length = 0;
  if (left.size() < sizeof length) return std::nullopt;
  std::memcpy(&length, left.data(), sizeof length);
  left.remove_prefix(sizeof length);
  if (left.size() < length) return std::nullopt;
  const std::string_view bytes = left.substr(0, length);
  left.remove_prefix(length);
  return bytes;
}

}  // namespace

std::string join_batch(std::span<const BatchPart> parts) {
  size_t size = 0;
  for (const BatchPart& part : parts) {
    size += 2 * sizeof(uint32_t) + part.content_type.size() + part.payload.size();
  }
  std::string text;
  text.reserve(size);
  for (const BatchPart& part : parts) {
    append(text, part.content_type);
    append(text, part.payload);
  }
  return text;
}

Result<std::vector<BatchPart>> split_batch(std::string_view payload, uint64_t most) {
  std::vector<BatchPart> parts;
  while (!payload.empty()) {
    const auto type = take(payload);
    const auto content = type ? take(payload) : std::nullopt;
    if (!content) return Error{ErrorCode::kInvalidArgument, "the batch: it is cut off"};
    if (parts.size() == most) {
      return Error{ErrorCode::kInvalidArgument,
                   "the batch: it has more than " + std::to_string(most) + " requests"};
    }
    parts.push_back({*type, *content});
  }
  if (parts.empty()) return Error{ErrorCode::kInvalidArgument, "the batch: it is empty"};
  return parts;
}

}  // namespace lambent::kernel_graph
