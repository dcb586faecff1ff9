#include "core/base/document_place.h"

namespace lambent {

Error invalid_at(const std::string& place, const std::string& what) {
  return {ErrorCode::kInvalidArgument, place + ": " + what};
}

std::string item_place(const std::string& place, size_t index) {
  return place + "[" + std::to_string(index) + "]";
}

std::string member_place(const std::string& place, std::string_view key) {
  return place.empty() ? std::string(key) : place + "." + std::string(key);
}

}  // namespace lambent
