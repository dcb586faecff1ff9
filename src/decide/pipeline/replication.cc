#include "decide/pipeline/replication.h"

#include <algorithm>
#include <tuple>

#include "decide/pipeline/hand_over.h"
#include "decide/pipeline/limits.h"

namespace lambent::pipeline {
namespace {

constexpr size_t kMostWays = 256;  // to give the stage processes of one partition shapes
// So many times its bottleneck a job waits inside an instance that has as many as keep it busy: one
// for those before it (Instance::most_jobs), and one more as they do not all take equally long.
constexpr double kBehindOthers = 2;

double seconds_of(Duration duration) { return std::max(to_seconds(duration), 1e-9); }

// One way: a group for each stage process, and how many of its slices.
struct Way {
  std::vector<size_t> groups;
  std::vector<size_t> replicas;
  double cost = 0;
};

class Search {
 public:
  Search(const PipelineFunction& function, const Partition& partition,
         std::span<const SliceGroup> groups, const TransferCosts& costs,
         const ReplicationLimits& limits)
      : function_(function),
        partition_(partition),
        groups_(groups),
        costs_(costs),
        limits_(limits),
        stage_processes_(stage_processes_of(partition)),
        crossing_(hand_overs(function.dag, partition)) {}

  std::optional<Replicated> best() {
    size_t ways = 1;
    for (const StageProcess* stage_process : stage_processes_) {
      const Bytes memory = memory_of(function_, *stage_process);
      std::vector<size_t> fits;
      std::vector<Duration> work;
      for (size_t i = 0; i < groups_.size(); ++i) {
        const SliceGroup& group = groups_[i];
        if (group.shape.memory < memory || group.slices.empty()) continue;
        fits.push_back(i);
        work.push_back(expected_time(function_, *stage_process, group.shape));
      }
      if (fits.empty()) return std::nullopt;
      ways = std::min(kMostWays + 1, ways * fits.size());
      choices_.push_back(std::move(fits));
      work_.push_back(std::move(work));
    }
    if (ways > kMostWays) return std::nullopt;
    std::vector<size_t> way(stage_processes_.size());
    for (;;) {
      consider(way);
      size_t stage_process = 0;
      while (stage_process < way.size() && ++way[stage_process] == choices_[stage_process].size())
        way[stage_process++] = 0;
      if (stage_process == way.size()) break;
    }
    if (!best_) return std::nullopt;
    return carried_out();
  }

 private:
  void consider(const std::vector<size_t>& way) {
    Way tried;
    std::vector<size_t> left;
    std::vector<Duration> work;
    double worth = 0;
    for (const SliceGroup& group : groups_) left.push_back(group.slices.size());
    for (size_t stage_process = 0; stage_process < way.size(); ++stage_process) {
      const size_t group = choices_[stage_process][way[stage_process]];
      if (left[group]-- == 0) return;
      tried.groups.push_back(group);
      work.push_back(work_[stage_process][way[stage_process]]);
      worth += groups_[group].worth;
    }
    tried.replicas.assign(way.size(), 1);
    const StageProcessTimes times =
        stage_process_times(function_, partition_, crossing_, work, costs_);
    const double least_s = 1 / std::max(limits_.wanted_per_s, 1e-9);
    for (size_t used = way.size();; ++used) {
      size_t slowest = 0;
      const auto pace = [&](size_t stage_process) {
        return seconds_of(times.busy[stage_process]) /
               static_cast<double>(tried.replicas[stage_process]);
      };
      for (size_t stage_process = 1; stage_process < way.size(); ++stage_process) {
        if (pace(stage_process) > pace(slowest)) slowest = stage_process;
      }
      // Full of jobs, it takes so much longer.
      const Duration full = times.latency + from_seconds(pace(slowest) * kBehindOthers);
      const bool late = function_.slo > Duration{} && full > function_.slo;
      tried.cost = worth * std::max(pace(slowest), least_s);
      if (!best_ || std::tuple(late, tried.cost, times.latency) <
                        std::tuple(best_late_, best_->cost, best_latency_)) {
        best_ = tried;
        best_late_ = late;
        best_latency_ = times.latency;
      }
      if (used >= limits_.most_slices || pace(slowest) <= least_s) return;
      size_t& more = left[tried.groups[slowest]];
      if (more == 0) return;
      --more;
      ++tried.replicas[slowest];
      if (most_channels(tried.replicas) > limits::kChannelsOfProcess) return;
      worth += groups_[tried.groups[slowest]].worth;
    }
  }

  // Of one process: for each value one to or from every replica of the stage process at the other
  // end.
  size_t most_channels(const std::vector<size_t>& replicas) const {
    std::vector<size_t> channels(replicas.size());
    for (const HandOver& each : crossing_) {
      channels[each.from] += replicas[each.to];
      channels[each.to] += replicas[each.from];
    }
    return *std::max_element(channels.begin(), channels.end());
  }

  Replicated carried_out() const {
    Replicated found{.late = best_late_, .cost = best_->cost};
    Placement& placement = found.placement;
    placement.partition = partition_;
    placement.replicas = best_->replicas;
    placement.latency = best_latency_;
    std::vector<size_t> taken(groups_.size());
    std::vector<const SliceShape*> shapes;
    std::vector<const Slice*> slices;
    for (size_t stage_process = 0; stage_process < stage_processes_.size(); ++stage_process) {
      const SliceGroup& group = groups_[best_->groups[stage_process]];
      shapes.push_back(&group.shape);
      for (size_t replica = 0; replica < best_->replicas[stage_process]; ++replica) {
        const Slice* slice = group.slices[taken[best_->groups[stage_process]]++];
        slices.push_back(slice);
        placement.slices.push_back(slice->id);
      }
    }
    const std::vector<Duration> busy = busy_of(function_, partition_, shapes, costs_);
    for (size_t stage_process = 0; stage_process < busy.size(); ++stage_process) {
      placement.bottleneck =
          std::max(placement.bottleneck,
                   busy[stage_process] / static_cast<int64_t>(best_->replicas[stage_process]));
    }
    placement.load = load_time(function_, placement, slices, costs_);
    placement.batches = batch_timings(function_, partition_, shapes, placement.replicas, costs_);
    return found;
  }

  const PipelineFunction& function_;
  const Partition& partition_;
  const std::span<const SliceGroup> groups_;
  const TransferCosts& costs_;
  const ReplicationLimits& limits_;
  const std::vector<const StageProcess*> stage_processes_;
  const std::vector<HandOver> crossing_;
  std::vector<std::vector<size_t>> choices_;  // by stage process: groups that hold it
  std::vector<std::vector<Duration>> work_;   // and how long it works there
  std::optional<Way> best_;
  bool best_late_ = false;
  Duration best_latency_{};
};

}  // namespace

std::optional<Replicated> place_replicated(const PipelineFunction& function,
                                           const Partition& partition,
                                           std::span<const SliceGroup> groups,
                                           const TransferCosts& costs,
                                           const ReplicationLimits& limits) {
  if (partition.stage_processes() < 2) return std::nullopt;
  return Search(function, partition, groups, costs, limits).best();
}

}  // namespace lambent::pipeline
