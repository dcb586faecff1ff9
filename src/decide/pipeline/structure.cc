#include "decide/pipeline/structure.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "core/base/check.h"

namespace lambent::pipeline {
namespace {

using Set = uint64_t;  // of components
constexpr size_t kMost = 64;

constexpr Set one(size_t component) { return Set{1} << component; }
size_t first_of(Set set) { return static_cast<size_t>(std::countr_zero(set)); }

template <typename Visit>
void for_each(Set set, Visit visit) {
  for (; set != 0; set &= set - 1) visit(first_of(set));
}

// "Comes before, or after" is what a series is made of: the connected parts of its complement stand
// one after the other, and the connected parts of itself have nothing to do with each other.
class Decomposition {
 public:
  explicit Decomposition(const Dag& dag) : count_(dag.components.size()) {
    CHECK(count_ <= kMost, "a DAG has too many components");
    for (size_t i = 0; i < count_; ++i) {
      for (const Source& source : dag.components[i].inputs) {
        if (source.kind != Source::Kind::kComponent) continue;
        before_[i] |= one(source.index) | before_[source.index];
      }
    }
    for (size_t i = 0; i < count_; ++i) {
      related_[i] |= before_[i];
      for_each(before_[i], [&](size_t other) { related_[other] |= one(i); });
    }
  }

  Series series() const { return series_of(count_ == kMost ? ~Set{0} : one(count_) - 1); }

 private:
  Series series_of(Set set) const {
    std::vector<Set> parts = connected(set, false);
    // Of two parts each component of one is before all of the other.
    std::sort(parts.begin(), parts.end(),
              [&](Set a, Set b) { return (before_[first_of(b)] & one(first_of(a))) != 0; });
    Series series;
    for (const Set part : parts) append(part, series);
    return series;
  }

  void append(Set set, Series& series) const {
    if (std::has_single_bit(set)) {
      series.parts.push_back({.component = first_of(set)});
      return;
    }
    const std::vector<Set> branches = connected(set, true);
    if (branches.size() == 1) return append_levels(set, series);
    Part fork;
    for (const Set branch : branches) fork.branches.push_back(series_of(branch));
    series.parts.push_back(std::move(fork));
  }

  void append_levels(Set set, Series& series) const {
    while (set != 0) {
      Set level = 0;
      for_each(set, [&](size_t i) { level |= (before_[i] & set) == 0 ? one(i) : 0; });
      set &= ~level;
      if (std::has_single_bit(level)) {
        append(level, series);
        continue;
      }
      Part fork;
      for_each(level, [&](size_t i) { fork.branches.push_back({{Part{.component = i}}}); });
      series.parts.push_back(std::move(fork));
    }
  }

  // Connected by "related", or by its opposite.
  std::vector<Set> connected(Set set, bool by_relation) const {
    std::vector<Set> parts;
    while (set != 0) {
      Set part = 0, border = one(first_of(set));
      while (border != 0) {
        part |= border;
        Set next = 0;
        for_each(border, [&](size_t i) { next |= by_relation ? related_[i] : ~related_[i]; });
        border = next & set & ~part;
      }
      parts.push_back(part);
      set &= ~part;
    }
    return parts;
  }

  const size_t count_;
  std::array<Set, kMost> before_{}, related_{};
};

void append(const Series& series, LinearOrder& order) {
  for (const Part& part : series.parts) {
    if (part.branches.empty()) {
      order.components.push_back(part.component);
      continue;
    }
    Fork fork;
    for (const Series& branch : part.branches) {
      fork.bounds.push_back(order.components.size());
      append(branch, order);
    }
    fork.bounds.push_back(order.components.size());
    order.forks.push_back(std::move(fork));
  }
}

}  // namespace

Series structure_of(const Dag& dag) { return Decomposition(dag).series(); }

LinearOrder order_of(const Series& series) {
  LinearOrder order;
  append(series, order);
  return order;
}

}  // namespace lambent::pipeline
