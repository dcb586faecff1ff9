#include "gpu/mig/change.h"

#include <algorithm>

namespace lambent::mig {
namespace {

bool has(const std::vector<Placement>& layout, const Placement& placement) {
  return std::find(layout.begin(), layout.end(), placement) != layout.end();
}

// Places the wanted profiles one after the other, wherever each may start, and keeps the layout
// that shares most with the present one.
class Search {
 public:
  Search(const MigFamily& family, const std::vector<Placement>& current,
         std::vector<const MigProfile*> wanted)
      : family_(family), current_(current), wanted_(std::move(wanted)) {
    // Those with the fewest places first; equal ones beside each other.
    std::sort(wanted_.begin(), wanted_.end(), [](const MigProfile* a, const MigProfile* b) {
      return a->memory_slices != b->memory_slices ? a->memory_slices > b->memory_slices
                                                  : a->id < b->id;
    });
    place(0, 0);
  }

  std::optional<std::vector<Placement>> best() const {
    if (!found_) return std::nullopt;
    return best_;
  }

 private:
  void place(size_t next, size_t kept) {
    if (next == wanted_.size()) {
      if (!found_ || kept > best_kept_) best_ = layout_, best_kept_ = kept;
      found_ = true;
      return;
    }
    for (const int start : free_starts(family_, layout_, *wanted_[next])) {
      // Equal profiles ascend: every layout once.
      const bool as_before = next > 0 && wanted_[next] == wanted_[next - 1];
      if (as_before && start < layout_.back().start) continue;
      layout_.push_back({wanted_[next], start});
      place(next + 1, kept + has(current_, layout_.back()));
      layout_.pop_back();
    }
  }

  const MigFamily& family_;
  const std::vector<Placement>& current_;
  std::vector<const MigProfile*> wanted_;
  std::vector<Placement> layout_, best_;
  size_t best_kept_ = 0;
  bool found_ = false;
};

void sort_by_start(std::vector<Placement>& layout) {
  std::sort(layout.begin(), layout.end(),
            [](const Placement& a, const Placement& b) { return a.start < b.start; });
}

}  // namespace

std::optional<Change> plan_change(const MigFamily& family, const std::vector<Placement>& current,
                                  std::vector<const MigProfile*> wanted) {
  if (wanted.size() > static_cast<size_t>(kMaxInstances)) return std::nullopt;
  const auto layout = Search(family, current, std::move(wanted)).best();
  if (!layout) return std::nullopt;
  Change change;
  for (const Placement& each : current) {
    (has(*layout, each) ? change.keep : change.destroy).push_back(each);
  }
  for (const Placement& each : *layout) {
    if (!has(current, each)) change.create.push_back(each);
  }
  for (auto* list : {&change.keep, &change.destroy, &change.create}) sort_by_start(*list);
  return change;
}

std::string text_of(const std::vector<Placement>& layout) {
  std::string text;
  for (const Placement& each : layout) {
    text += (text.empty() ? "" : " ") + std::string(each.profile->name) + "@" +
            std::to_string(each.start);
  }
  return text;
}

}  // namespace lambent::mig
