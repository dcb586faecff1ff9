#include "edge/frontend/node_cursor.h"

#include <algorithm>
#include <utility>

#include "core/base/parse_number.h"

namespace lambent::frontend {
namespace {

constexpr size_t kMostNodes = 1024;

Error bad_cursor() {
  return {ErrorCode::kInvalidArgument, "this is neither a whole number nor the places of nodes"};
}

}  // namespace

Result<NodeCursor> NodeCursor::parse(std::string_view text) {
  NodeCursor cursor;
  if (text.empty()) return cursor;
  if (const auto number = parse_number<uint64_t>(text)) {
    cursor.offsets_[""] = *number;
    return cursor;
  }
  while (!text.empty()) {
    const std::string_view each = text.substr(0, text.find(','));
    text.remove_prefix(std::min(each.size() + 1, text.size()));
    const size_t colon = each.find(':');
    if (colon == std::string_view::npos || colon == 0) return bad_cursor();
    const auto number = parse_number<uint64_t>(each.substr(colon + 1));
    if (!number || cursor.offsets_.size() == kMostNodes) return bad_cursor();
    cursor.offsets_[std::string(each.substr(0, colon))] = *number;
  }
  return cursor;
}

void NodeCursor::name_own(const std::string& node) {
  auto unnamed = offsets_.extract("");
  if (unnamed.empty()) return;
  unnamed.key() = node;
  offsets_.insert(std::move(unnamed));
}

uint64_t NodeCursor::offset_at(const std::string& node) const {
  const auto found = offsets_.find(node);
  return found != offsets_.end() ? found->second : 0;
}

std::string NodeCursor::text_for(const std::string& only_node) const {
  const bool is_alone = offsets_.size() == 1 && offsets_.contains(only_node);
  return is_alone ? std::to_string(offsets_.at(only_node)) : text();
}

std::string NodeCursor::text() const {
  if (offsets_.empty()) return "0";
  std::string text;
  for (const auto& [node, offset] : offsets_) {
    if (node.empty()) return std::to_string(offset);
    text += (text.empty() ? "" : ",") + node + ":" + std::to_string(offset);
  }
  return text;
}

}  // namespace lambent::frontend
