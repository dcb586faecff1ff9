#include "decide/pipeline/enumeration.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "decide/pipeline/limits.h"
#include "decide/pipeline/structure.h"

namespace lambent::pipeline {
namespace {

// One or more stages for the components from one position of the linear order to another. A
// partition is a way of blocks from its beginning to its end.
struct Block {
  size_t begin = 0;
  size_t end = 0;
  std::vector<Stage> stages;
  double squares = 0;  // of the stages' times, summed up

  bool operator==(const Block& other) const {
    return begin == other.begin && end == other.end && stages == other.stages;
  }
};

class Blocks {
 public:
  Blocks(const LinearOrder& order, const EnumerationLimits& limits, const StageProcessTime& time_of)
      : order_(order), limits_(limits), time_of_(time_of) {
    const size_t count = order.components.size();
    for (size_t begin = 0; begin < count; ++begin) {
      for (size_t end = begin + 1; end <= count; ++end) {
        // What a longer stage process needs is never less.
        if (!add(begin, end, {{{run(begin, end)}}})) break;
      }
    }
    for (const Fork& fork : order.forks) {
      add_side_by_side(fork);
      add_step_by_step(fork);
    }
  }

  std::vector<Block> take() { return std::move(blocks_); }

 private:
  StageProcess run(size_t begin, size_t end) const {
    StageProcess stage_process{
        {order_.components.begin() + begin, order_.components.begin() + end}};
    std::sort(stage_process.components.begin(), stage_process.components.end());
    return stage_process;
  }

  bool add(size_t begin, size_t end, std::vector<Stage> stages) {
    Block block{begin, end, std::move(stages)};
    if (block.stages.size() > limits_.most_stages) return false;
    for (const Stage& stage : block.stages) {
      Duration longest{};
      for (const StageProcess& stage_process : stage.stage_processes) {
        const auto time = time_of_(stage_process);
        if (!time) return false;
        longest = std::max(longest, *time);
      }
      block.squares += to_seconds(longest) * to_seconds(longest);
    }
    if (std::find(blocks_.begin(), blocks_.end(), block) == blocks_.end()) {
      blocks_.push_back(std::move(block));
    }
    return true;
  }

  // One stage in which branches run at the same time: each in a stage process of its own, or,
  // longest first, each in the stage process that has least to do until then.
  void add_side_by_side(const Fork& fork) {
    const size_t branches = fork.bounds.size() - 1;
    std::vector<std::pair<Duration, size_t>> longest_first;
    for (size_t i = 0; i < branches; ++i) {
      const auto time = time_of_(run(fork.bounds[i], fork.bounds[i + 1]));
      longest_first.emplace_back(-time.value_or(Duration{}), i);
    }
    std::sort(longest_first.begin(), longest_first.end());
    for (size_t count = 2; count <= std::min(branches, limits::kStageProcessesOfStage); ++count) {
      std::vector<std::pair<Duration, StageProcess>> stage_processes(count);
      for (const auto& [time, branch] : longest_first) {
        auto least =
            std::min_element(stage_processes.begin(), stage_processes.end(),
                             [](const auto& a, const auto& b) { return a.first < b.first; });
        // None stays empty, even if branches take no time at all.
        for (auto stage_process = stage_processes.begin(); stage_process != stage_processes.end();
             ++stage_process) {
          if (stage_process->second.components.empty()) least = stage_process;
        }
        least->first -= time;
        const StageProcess more = run(fork.bounds[branch], fork.bounds[branch + 1]);
        auto& components = least->second.components;
        components.insert(components.end(), more.components.begin(), more.components.end());
      }
      Stage stage;
      for (auto& [time, stage_process] : stage_processes) {
        std::sort(stage_process.components.begin(), stage_process.components.end());
        stage.stage_processes.push_back(std::move(stage_process));
      }
      sort_stage_processes(stage);
      add(fork.bounds.front(), fork.bounds.back(), {std::move(stage)});
    }
  }

  // Several stages, in each of which all branches go a step on: each branch is cut into as many
  // pieces as there are stages, or as it has components, so that the longest is as short as can be.
  void add_step_by_step(const Fork& fork) {
    size_t longest = 0;
    const size_t branches = fork.bounds.size() - 1;
    if (branches > limits::kStageProcessesOfStage) return;
    for (size_t i = 0; i < branches; ++i) {
      longest = std::max(longest, fork.bounds[i + 1] - fork.bounds[i]);
    }
    for (size_t steps = 2; steps <= std::min(longest, limits::kStepsOfFork); ++steps) {
      std::vector<Stage> stages(steps);
      for (size_t i = 0; i < branches; ++i) {
        const std::vector<size_t> cuts = balanced_cuts(fork.bounds[i], fork.bounds[i + 1], steps);
        for (size_t step = 0; step + 1 < cuts.size(); ++step) {
          stages[step].stage_processes.push_back(run(cuts[step], cuts[step + 1]));
        }
      }
      for (Stage& stage : stages) sort_stage_processes(stage);
      add(fork.bounds.front(), fork.bounds.back(), std::move(stages));
    }
  }

  // The bounds of at most `pieces` runs of which the longest is as short as can be.
  std::vector<size_t> balanced_cuts(size_t begin, size_t end, size_t pieces) const {
    pieces = std::min(pieces, end - begin);
    const size_t count = end - begin;
    // best[p][i]: the longest of p pieces of the first i; from[p][i]: where the last begins.
    std::vector<std::vector<Duration>> best(pieces + 1,
                                            std::vector<Duration>(count + 1, Duration::max()));
    std::vector<std::vector<size_t>> from(pieces + 1, std::vector<size_t>(count + 1));
    best[0][0] = Duration{};
    for (size_t p = 1; p <= pieces; ++p) {
      for (size_t i = p; i <= count; ++i) {
        for (size_t j = p - 1; j < i; ++j) {
          const Duration last = time_of_(run(begin + j, begin + i)).value_or(Duration::max());
          const Duration longest = std::max(best[p - 1][j], last);
          if (j == p - 1 || longest < best[p][i]) {
            best[p][i] = longest;
            from[p][i] = j;
          }
        }
      }
    }
    std::vector<size_t> cuts{end};
    for (size_t p = pieces, i = count; p > 0; --p) cuts.push_back(begin + (i = from[p][i]));
    std::reverse(cuts.begin(), cuts.end());
    return cuts;
  }

  static void sort_stage_processes(Stage& stage) {
    std::sort(
        stage.stage_processes.begin(), stage.stage_processes.end(),
        [](const StageProcess& a, const StageProcess& b) { return a.components < b.components; });
  }

  const LinearOrder& order_;
  const EnumerationLimits& limits_;
  const StageProcessTime& time_of_;
  std::vector<Block> blocks_;
};

// The ways from the beginning to each position, by how many stages they have; of each kind at most
// `width`, those with the least squares. Since what a way adds does not depend on how it began, the
// best whole ways are among those that continue the best beginnings.
class Ways {
 public:
  Ways(const std::vector<Block>& blocks, size_t positions, size_t most_stages, size_t width)
      : blocks_(blocks), most_stages_(most_stages) {
    ways_.assign(positions + 1, std::vector<std::vector<Way>>(most_stages + 1));
    ways_[0][0] = {{}};
    std::vector<std::vector<size_t>> ending(positions + 1);
    for (size_t i = 0; i < blocks.size(); ++i) ending[blocks[i].end].push_back(i);
    for (size_t position = 1; position <= positions; ++position) {
      for (size_t stages = 1; stages <= most_stages; ++stages) {
        fill(position, stages, ending[position], width);
      }
    }
  }

  std::vector<Partition> partitions() const {
    std::vector<Partition> found;
    for (size_t stages = 1; stages <= most_stages_; ++stages) {
      for (const Way& way : ways_.back()[stages]) found.push_back(partition_of(way, stages));
    }
    return found;
  }

 private:
  struct Way {
    double squares = 0;
    uint32_t block = 0;   // its last
    uint32_t before = 0;  // which of the ways to that block's beginning
  };

  void fill(size_t position, size_t stages, const std::vector<size_t>& ending, size_t width) {
    std::vector<Way>& ways = ways_[position][stages];
    for (const size_t index : ending) {
      const Block& block = blocks_[index];
      if (block.stages.size() > stages) continue;
      const std::vector<Way>& before = ways_[block.begin][stages - block.stages.size()];
      for (size_t i = 0; i < before.size(); ++i) {
        ways.push_back({before[i].squares + block.squares, static_cast<uint32_t>(index),
                        static_cast<uint32_t>(i)});
      }
    }
    if (ways.size() <= width) return;
    std::nth_element(
        ways.begin(), ways.begin() + width, ways.end(), [](const Way& a, const Way& b) {
          return std::tie(a.squares, a.block, a.before) < std::tie(b.squares, b.block, b.before);
        });
    ways.resize(width);
  }

  Partition partition_of(Way way, size_t stages) const {
    Partition partition;
    for (;;) {
      const Block& block = blocks_[way.block];
      partition.stages.insert(partition.stages.begin(), block.stages.begin(), block.stages.end());
      stages -= block.stages.size();
      if (block.begin == 0) return partition;
      way = ways_[block.begin][stages][way.before];
    }
  }

  const std::vector<Block>& blocks_;
  const size_t most_stages_;
  std::vector<std::vector<std::vector<Way>>> ways_;  // by position and stages
};

// How many partitions there are, or `most` + 1 if that many and more.
size_t count_ways(const std::vector<Block>& blocks, size_t positions, size_t most_stages,
                  size_t most) {
  std::vector<std::vector<size_t>> ways(positions + 1, std::vector<size_t>(most_stages + 1));
  ways[0][0] = 1;
  std::vector<const Block*> by_end;
  for (const Block& block : blocks) by_end.push_back(&block);
  std::sort(by_end.begin(), by_end.end(),
            [](const Block* a, const Block* b) { return a->end < b->end; });
  for (const Block* block : by_end) {
    for (size_t stages = block->stages.size(); stages <= most_stages; ++stages) {
      size_t& sum = ways[block->end][stages];
      sum = std::min(most + 1, sum + ways[block->begin][stages - block->stages.size()]);
    }
  }
  return std::min(most + 1, std::accumulate(ways.back().begin(), ways.back().end(), size_t{0}));
}

}  // namespace

std::vector<Partition> all_partitions(const Dag& dag, const EnumerationLimits& limits,
                                      const StageProcessTime& time_of) {
  const LinearOrder order = order_of(structure_of(dag));
  const size_t positions = order.components.size();
  if (positions == 0 || limits.most_stages == 0 || limits.most_partitions == 0) return {};
  const std::vector<Block> blocks = Blocks(order, limits, time_of).take();
  const size_t most_stages = std::min(limits.most_stages, positions);
  const bool all =
      count_ways(blocks, positions, most_stages, limits.most_partitions) <= limits.most_partitions;
  const size_t width =
      all ? limits.most_partitions : std::max<size_t>(1, limits.most_partitions / most_stages);
  return Ways(blocks, positions, most_stages, width).partitions();
}

}  // namespace lambent::pipeline
