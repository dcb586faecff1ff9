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

// What jobs of so many requests take, without replicas.
struct Job {
  size_t requests = 1;
  StageProcessTimes times;
};

// The stage process that holds such jobs up, and the seconds that it takes for one.
struct Slowest {
  size_t stage_process = 0;
  double seconds = 0;
};
Slowest slowest_of(const Job& job, const std::vector<size_t>& replicas) {
  Slowest slowest;
  for (size_t i = 0; i < replicas.size(); ++i) {
    const double seconds = seconds_of(job.times.busy[i]) / static_cast<double>(replicas[i]);
    if (seconds > slowest.seconds) slowest = {i, seconds};
  }
  return slowest;
}

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
        crossing_(hand_overs(function.dag, partition)),
        sizes_(sizes_of(function)) {}

  std::optional<Replicated> best() {
    size_t ways = 1;
    for (const StageProcess* stage_process : stage_processes_) {
      const Bytes memory = memory_of(function_, *stage_process);
      std::vector<size_t> fits;
      std::vector<std::vector<Duration>> work;
      for (size_t i = 0; i < groups_.size(); ++i) {
        const SliceGroup& group = groups_[i];
        if (group.shape.memory < memory || group.slices.empty()) continue;
        fits.push_back(i);
        std::vector<Duration>& by_size = work.emplace_back();
        for (const size_t requests : sizes_) {
          by_size.push_back(expected_time(function_, *stage_process, group.shape, requests));
        }
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
  // One request, and the batch sizes that were measured.
  static std::vector<size_t> sizes_of(const PipelineFunction& function) {
    std::vector<size_t> sizes = batch_sizes(function);
    sizes.insert(sizes.begin(), 1);
    return sizes;
  }

  std::vector<Job> jobs_of(const std::vector<size_t>& way) const {
    std::vector<Job> jobs;
    for (size_t size = 0; size < sizes_.size(); ++size) {
      std::vector<Duration> work;
      for (size_t i = 0; i < way.size(); ++i) work.push_back(work_[i][way[i]][size]);
      jobs.push_back({sizes_[size], stage_process_times(function_, partition_, crossing_, work,
                                                        costs_, sizes_[size])});
    }
    return jobs;
  }

  // Where a replica helps, and the seconds between two results: with jobs of the size that gives
  // most, as capacity_of() has it.
  Slowest slowest_of_best(const std::vector<Job>& jobs, const std::vector<size_t>& replicas) const {
    Slowest best = slowest_of(jobs.front(), replicas);
    for (size_t size = 1; size < jobs.size(); ++size) {
      const Slowest slowest = slowest_of(jobs[size], replicas);
      if (!keeps_slo(function_.slo, jobs[size].times.latency, from_seconds(slowest.seconds))) break;
      const double seconds = slowest.seconds / static_cast<double>(jobs[size].requests);
      if (seconds < best.seconds) best = {slowest.stage_process, seconds};
    }
    return best;
  }

  void consider(const std::vector<size_t>& way) {
    Way tried;
    std::vector<size_t> left;
    double worth = 0;
    for (const SliceGroup& group : groups_) left.push_back(group.slices.size());
    for (size_t stage_process = 0; stage_process < way.size(); ++stage_process) {
      const size_t group = choices_[stage_process][way[stage_process]];
      if (left[group]-- == 0) return;
      tried.groups.push_back(group);
      worth += groups_[group].worth;
    }
    tried.replicas.assign(way.size(), 1);
    const std::vector<Job> jobs = jobs_of(way);
    const Duration latency = jobs.front().times.latency;
    const double least_s = 1 / std::max(limits_.wanted_per_s, 1e-9);
    for (size_t used = way.size();; ++used) {
      const double alone_s = slowest_of(jobs.front(), tried.replicas).seconds;
      const auto [slowest, seconds] = slowest_of_best(jobs, tried.replicas);
      // Full of jobs, it takes so much longer.
      const Duration full = latency + from_seconds(alone_s * kBehindOthers);
      const bool late = function_.slo > Duration{} && full > function_.slo;
      tried.cost = worth * std::max(seconds, least_s);
      if (!best_ || std::tuple(late, tried.cost, latency) <
                        std::tuple(best_late_, best_->cost, best_latency_)) {
        best_ = tried;
        best_late_ = late;
        best_latency_ = latency;
      }
      if (used >= limits_.most_slices || seconds <= least_s) return;
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
  const std::vector<size_t> sizes_;           // of jobs, ascending from 1
  std::vector<std::vector<size_t>> choices_;  // by stage process: groups that hold it
  // And how long it works there, by size of job.
  std::vector<std::vector<std::vector<Duration>>> work_;
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
