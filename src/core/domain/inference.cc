#include "core/domain/inference.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace lambent {

static_assert(std::endian::native == std::endian::little, "tensors are little-endian, as we are");

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (const int64_t size : shape) text += (text.size() > 1 ? "," : "") + std::to_string(size);
  return text + "]";
}

std::optional<uint64_t> element_count(const Shape& shape) {
  if (std::any_of(shape.begin(), shape.end(), [](int64_t size) { return size < 0; })) {
    return std::nullopt;
  }
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  constexpr uint64_t kMost = uint64_t{1} << 62;
  uint64_t count = 1;
  for (const int64_t size : shape) {
    if (count > kMost / static_cast<uint64_t>(size)) return std::nullopt;
    count *= static_cast<uint64_t>(size);
  }
  return count;
}

Tensor& Tensor::operator=(Tensor&& other) noexcept {
  if (this == &other) return *this;
  const bool owns = other.content.data() == other.owned.data();
  name = std::move(other.name);
  type = other.type;
  shape = std::move(other.shape);
  const std::string_view seen = other.content;
  owned = std::move(other.owned);
  // A short text moves with its bytes.
  content = owns ? std::string_view(owned) : seen;
  other.content = {};
  return *this;
}

void append_bytes_element(std::string& content, std::string_view element) {
  const auto size = static_cast<uint32_t>(element.size());
  content.append(reinterpret_cast<const char*>(&size), sizeof size);
  content.append(element);
}

Result<std::vector<std::string_view>> bytes_elements(std::string_view content, uint64_t count) {
  std::vector<std::string_view> elements;
  while (!content.empty() && elements.size() < count) {
    uint32_t size = 0;
    if (content.size() < sizeof size) break;
    memcpy(&size, content.data(), sizeof size);
    content.remove_prefix(sizeof size);
    if (size > content.size()) {
      return Error{ErrorCode::kInvalidArgument, "element " + std::to_string(elements.size()) +
                                                    " says that it has " + std::to_string(size) +
                                                    " bytes; " + std::to_string(content.size()) +
                                                    " are left"};
    }
    elements.push_back(content.substr(0, size));
    content.remove_prefix(size);
  }
  if (elements.size() != count || !content.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "the bytes do not hold exactly " + std::to_string(count) + " elements"};
  }
  return elements;
}

}  // namespace lambent
