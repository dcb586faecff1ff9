#include "decide/pipeline/placing.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <tuple>

#include "decide/pipeline/hand_over.h"
#include "decide/pipeline/planner.h"

namespace lambent::pipeline {
namespace {

using Slices = std::vector<const Slice*>;

enum class Prefer { kSmall, kLarge };

// What an assignment of slices is judged by: the least between two results, then the quickest.
struct Cost {
  double seconds_a_result = 0;
  Duration latency{};

  bool operator<(const Cost& other) const {
    return std::tie(seconds_a_result, latency) < std::tie(other.seconds_a_result, other.latency);
  }
};

// Whether each stage process can have one of these to itself: both ascending, by memory.
bool holds(const std::vector<Bytes>& slices, const std::vector<Bytes>& needs) {
  // The slices are as many as the stage processes that are served: the least demanding.
  for (size_t i = 0; i < slices.size(); ++i) {
    if (slices[i] < needs[i]) return false;
  }
  return true;
}

// The slices with the fewest (or most) multiprocessors together on which all stage processes have a
// place; none if there are none. What can be held together is a matroid, in which taking the best
// that still fits leads to the best whole: for slices that differ only in memory, a set of them can
// be held if its smallest is enough for the least demanding stage process, its second for the
// second, and so on.
std::optional<Slices> choose(const Slices& slices, std::vector<Bytes> needs, Prefer prefer) {
  std::sort(needs.begin(), needs.end());
  Slices order = slices;
  std::stable_sort(order.begin(), order.end(), [&](const Slice* a, const Slice* b) {
    const SliceShape &left = a->shape, &right = b->shape;
    if (left.multiprocessors != right.multiprocessors) {
      return (left.multiprocessors < right.multiprocessors) == (prefer == Prefer::kSmall);
    }
    return std::tie(left.memory, a->id) < std::tie(right.memory, b->id);
  });
  Slices chosen;
  std::vector<Bytes> memory;  // of those chosen, ascending
  for (const Slice* slice : order) {
    auto with = memory;
    with.insert(std::upper_bound(with.begin(), with.end(), slice->shape.memory),
                slice->shape.memory);
    if (!holds(with, needs)) continue;
    memory = std::move(with);
    chosen.push_back(slice);
    if (chosen.size() == needs.size()) return chosen;
  }
  return std::nullopt;
}

class Assignment {
 public:
  Assignment(const PipelineFunction& function, const Partition& partition,
             const TransferCosts& costs)
      : function_(function),
        partition_(partition),
        costs_(costs),
        stage_processes_(stage_processes_of(partition)) {
    for (const StageProcess* stage_process : stage_processes_)
      needs_.push_back(memory_of(function, *stage_process));
  }

  const std::vector<Bytes>& needs() const { return needs_; }

  // The longest stage process first, each on the fastest slice that leaves the others a place: best
  // where all stage processes gain alike from a larger slice. Where they do not, two change places
  // while it helps.
  Slices assign(Slices chosen) const {
    std::stable_sort(chosen.begin(), chosen.end(), [](const Slice* a, const Slice* b) {
      return a->shape.multiprocessors > b->shape.multiprocessors;
    });
    std::vector<Duration> work;
    for (const StageProcess* stage_process : stage_processes_) {
      work.push_back(expected_time(function_, *stage_process, chosen.back()->shape));
    }
    std::vector<size_t> order(stage_processes_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return work[a] > work[b]; });
    Slices assigned(stage_processes_.size());
    for (size_t i = 0; i < order.size(); ++i) {
      const std::vector<size_t> rest(order.begin() + i + 1, order.end());
      for (auto slice = chosen.begin(); slice != chosen.end(); ++slice) {
        if ((*slice)->shape.memory < needs_[order[i]]) continue;
        Slices left = chosen;
        left.erase(left.begin() + (slice - chosen.begin()));
        if (!have_place(left, rest)) continue;
        assigned[order[i]] = *slice;
        chosen = std::move(left);
        break;
      }
    }
    improve(assigned);
    return assigned;
  }

  Cost cost(const Slices& slices) const {
    const auto shapes = shapes_of(slices);
    const Timing timing = timing_of(function_, partition_, shapes, costs_);
    const auto batches = batch_timings(function_, partition_, shapes, {}, costs_);
    return {capacity_of(timing.bottleneck, batches, function_.slo).seconds_a_result,
            timing.latency};
  }

  Placement placement(const Slices& slices) const {
    const Timing timing = timing_of(function_, partition_, shapes_of(slices), costs_);
    Placement placement{
        .partition = partition_, .latency = timing.latency, .bottleneck = timing.bottleneck};
    placement.load = load_time(function_, placement, slices, costs_);
    placement.batches = batch_timings(function_, partition_, shapes_of(slices), {}, costs_);
    for (const Slice* slice : slices) placement.slices.push_back(slice->id);
    return placement;
  }

 private:
  static std::vector<const SliceShape*> shapes_of(const Slices& slices) {
    std::vector<const SliceShape*> shapes;
    for (const Slice* slice : slices) shapes.push_back(&slice->shape);
    return shapes;
  }

  bool have_place(const Slices& slices, const std::vector<size_t>& stage_processes) const {
    std::vector<Bytes> memory, needs;
    for (const Slice* slice : slices) memory.push_back(slice->shape.memory);
    for (const size_t stage_process : stage_processes) needs.push_back(needs_[stage_process]);
    std::sort(memory.begin(), memory.end());
    std::sort(needs.begin(), needs.end());
    return holds(memory, needs);
  }

  void improve(Slices& assigned) const {
    Cost best = cost(assigned);
    for (size_t i = 0; i < assigned.size(); ++i) {
      for (size_t j = i + 1; j < assigned.size(); ++j) {
        if (assigned[i]->shape == assigned[j]->shape) continue;
        if (assigned[j]->shape.memory < needs_[i]) continue;
        if (assigned[i]->shape.memory < needs_[j]) continue;
        std::swap(assigned[i], assigned[j]);
        const Cost changed = cost(assigned);
        if (changed < best) {
          best = changed;
        } else {
          std::swap(assigned[i], assigned[j]);
        }
      }
    }
  }

  const PipelineFunction& function_;
  const Partition& partition_;
  const TransferCosts& costs_;
  const std::vector<const StageProcess*> stage_processes_;
  std::vector<Bytes> needs_;
};

struct Placed {
  Slices slices;
  Cost cost;

  uint64_t multiprocessors() const {
    return std::accumulate(
        slices.begin(), slices.end(), uint64_t{0},
        [](uint64_t sum, const Slice* slice) { return sum + slice->shape.multiprocessors; });
  }
};

std::optional<Placed> place_on_node(const Assignment& assignment, const Slices& free,
                                    Prefer prefer) {
  auto chosen = choose(free, assignment.needs(), prefer);
  if (!chosen) return std::nullopt;
  Placed placed{.slices = assignment.assign(*std::move(chosen))};
  placed.cost = assignment.cost(placed.slices);
  return placed;
}

std::optional<Placed> place_on_any(const Assignment& assignment, std::span<const Slice> free,
                                   Prefer prefer) {
  if (free.size() < assignment.needs().size()) return std::nullopt;
  std::map<uint32_t, Slices> by_node;
  for (const Slice& slice : free) by_node[slice.node].push_back(&slice);
  std::optional<Placed> best;
  const auto cost = [&](const Placed& each) {
    const uint64_t multiprocessors = each.multiprocessors();
    return std::tuple(prefer == Prefer::kSmall ? multiprocessors : ~multiprocessors, each.cost);
  };
  for (const auto& [node, slices] : by_node) {
    if (slices.size() < assignment.needs().size()) continue;
    auto placed = place_on_node(assignment, slices, prefer);
    if (placed && (!best || cost(*placed) < cost(*best))) best = std::move(placed);
  }
  return best;
}

std::optional<Placement> place_as(const PipelineFunction& function, const Partition& partition,
                                  std::span<const Slice> free, const TransferCosts& costs,
                                  Prefer prefer) {
  const Assignment assignment(function, partition, costs);
  const auto placed = place_on_any(assignment, free, prefer);
  if (!placed) return std::nullopt;
  return assignment.placement(placed->slices);
}

}  // namespace

std::optional<Placement> place(const PipelineFunction& function, const Partition& partition,
                               std::span<const Slice> free, const TransferCosts& costs) {
  return place_as(function, partition, free, costs, Prefer::kSmall);
}

std::optional<Placement> place_on_largest(const PipelineFunction& function,
                                          const Partition& partition, std::span<const Slice> free,
                                          const TransferCosts& costs) {
  return place_as(function, partition, free, costs, Prefer::kLarge);
}

std::optional<Placement> first_that_fits(const PipelineFunction& function,
                                         std::span<const Slice> free, const TransferCosts& costs) {
  for (const Partition& partition : function.ranked) {
    if (auto placement = place(function, partition, free, costs)) return placement;
  }
  return std::nullopt;
}

double efficiency_of(const PipelineFunction& function, const Placement& placement,
                     std::span<const SliceShape* const> shapes) {
  StageProcess whole;
  for (size_t i = 0; i < function.dag.components.size(); ++i) whole.components.push_back(i);
  const Partition one_piece{{Stage{{whole}}}};
  double ideal_per_s = 0;
  for (const SliceShape* shape : shapes) {
    const Capacity ideal =
        capacity_of(expected_time(function, whole, *shape),
                    batch_timings(function, one_piece, {&shape, 1}, {}, {}), function.slo);
    ideal_per_s += 1 / std::max(ideal.seconds_a_result, 1e-9);
  }
  const Capacity its = capacity_of(placement, function.slo);
  return 1 / (std::max(its.seconds_a_result, 1e-9) * ideal_per_s);
}

namespace {

struct Candidate {
  Placement placement;
  bool late = false;
  double efficiency = 0;
  uint64_t multiprocessors = 0;
};

bool better(const Candidate& a, const Candidate& b) {
  if (a.late != b.late) return b.late;
  return std::tuple(-a.efficiency, a.multiprocessors) <
         std::tuple(-b.efficiency, b.multiprocessors);
}

}  // namespace

std::optional<Placement> best_that_fits(const PipelineFunction& function,
                                        std::span<const Slice> free, const TransferCosts& costs) {
  std::optional<Candidate> best;
  const auto is_late = [&](const Placed& each) {
    return function.slo > Duration{} && each.cost.latency > function.slo;
  };
  const size_t count = std::min(function.ranked.size(), kPlaced);
  for (size_t i = 0; i < count; ++i) {
    const Assignment assignment(function, function.ranked[i], costs);
    const auto smallest = place_on_any(assignment, free, Prefer::kSmall);
    if (!smallest) continue;
    const auto consider = [&](const Placed& placed) {
      Candidate candidate{.placement = assignment.placement(placed.slices),
                          .late = is_late(placed),
                          .multiprocessors = placed.multiprocessors()};
      std::vector<const SliceShape*> shapes;
      for (const Slice* slice : placed.slices) shapes.push_back(&slice->shape);
      candidate.efficiency = efficiency_of(function, candidate.placement, shapes);
      if (!best || better(candidate, *best)) best = std::move(candidate);
    };
    consider(*smallest);
    if (!is_late(*smallest)) continue;
    if (const auto largest = place_on_any(assignment, free, Prefer::kLarge)) consider(*largest);
  }
  if (!best) return std::nullopt;
  return std::move(best->placement);
}

std::string why_not(const PipelineFunction& function, const Partition& partition,
                    std::span<const Slice> free) {
  std::vector<Bytes> needs;
  for (const StageProcess* stage_process : stage_processes_of(partition))
    needs.push_back(memory_of(function, *stage_process));
  std::sort(needs.begin(), needs.end(), std::greater());
  std::map<uint32_t, std::vector<Bytes>> by_node;
  for (const Slice& slice : free) by_node[slice.node].push_back(slice.shape.memory);
  // Of the node that comes nearest: with the most slices that are large enough.
  std::vector<Bytes> nearest;
  size_t most = 0;
  for (auto& [node, memory] : by_node) {
    std::sort(memory.begin(), memory.end(), std::greater());
    size_t good = 0;
    while (good < std::min(memory.size(), needs.size()) && memory[good] >= needs[good]) ++good;
    if (good == needs.size()) return "";
    if (good > most || nearest.empty()) nearest = memory;
    most = std::max(most, good);
  }
  const auto slices = [](size_t count) {
    return std::to_string(count) + (count == 1 ? " slice" : " slices");
  };
  if (nearest.size() < needs.size()) {
    return "needs " + slices(needs.size()) + (needs.size() > 1 ? " of one node, " : ", ") +
           std::to_string(nearest.size()) + (nearest.size() == 1 ? " is free" : " are free");
  }
  return "needs " + slices(most + 1) + " with at least " + to_string(needs[most]) + ", " +
         (most == 0 ? "the largest has " : "the next largest has ") + to_string(nearest[most]);
}

std::string what_would_fit(const PipelineFunction& function) {
  // For each number of stage processes the partition whose largest need is least.
  std::map<size_t, std::vector<Bytes>> by_stage_processes;
  for (const Partition& partition : function.ranked) {
    std::vector<Bytes> needs;
    for (const StageProcess* stage_process : stage_processes_of(partition))
      needs.push_back(memory_of(function, *stage_process));
    std::sort(needs.begin(), needs.end(), std::greater());
    const auto [place, first] = by_stage_processes.try_emplace(needs.size(), needs);
    if (!first && needs < place->second) place->second = std::move(needs);
  }
  std::string text;
  size_t told = 0;
  for (const auto& [count, needs] : by_stage_processes) {
    if (++told > 3) break;
    std::string amounts, names;
    for (const Bytes need : needs) {
      const SliceShape* shape = smallest_holding(function.shapes, need);
      amounts += (amounts.empty() ? "" : " + ") + to_string(need);
      if (shape) names += (names.empty() ? "" : " + ") + shape->name;
    }
    text += text.empty() ? "" : ", or ";
    text += count == 1 ? "a slice with " : std::to_string(count) + " slices of one node with ";
    text += amounts + (names.empty() ? "" : " (" + names + ")");
  }
  return text;
}

}  // namespace lambent::pipeline
