#include "decide/kernel_graph/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

namespace lambent::kernel_graph {
namespace {

constexpr Access kR = Access::kRead;
constexpr Access kW = Access::kWrite;
constexpr Access kRW = Access::kReadWrite;

using Uses = std::vector<std::pair<uint32_t, Access>>;

Launch launch(const Uses& uses) {
  Launch launch;
  for (const auto& [buffer, access] : uses) {
    launch.arguments.push_back(BufferArgument{.buffer = buffer, .access = access});
  }
  return launch;
}
Repeat repeat(uint64_t times, std::vector<Step> steps, uint32_t until = kNoFlag) {
  return {.times = times, .until = until, .steps = std::move(steps)};
}

using Lists = std::vector<std::vector<uint32_t>>;

TEST(StepOrder, ReadersWaitForTheWriterAndTheNextWriterForThem) {
  const std::vector<Step> steps = {launch({{0, kW}}), launch({{0, kR}, {1, kW}}),
                                   launch({{0, kR}, {2, kW}}), launch({{0, kW}}),
                                   launch({{0, kR}})};
  EXPECT_EQ(order_of(steps).after, (Lists{{}, {0}, {0}, {1, 2}, {3}}));
}

TEST(StepOrder, WritersOfTheSameBufferFollowEachOther) {
  EXPECT_EQ(order_of({launch({{0, kW}}), launch({{0, kW}}), launch({{0, kRW}})}).after,
            (Lists{{}, {0}, {1}}));
}

TEST(StepOrder, StepsOnDifferentBuffersAndReadersAreFree) {
  EXPECT_EQ(
      order_of({launch({{0, kR}, {1, kW}}), launch({{0, kR}, {2, kW}}), launch({{3, kW}})}).after,
      (Lists{{}, {}, {}}));
}

TEST(StepOrder, WhatFollowsFromOthersIsNotSaid) {
  // The last step reads what the first wrote too, and waits for it through the second.
  EXPECT_EQ(
      order_of({launch({{0, kW}}), launch({{0, kR}, {1, kW}}), launch({{0, kR}, {1, kR}})}).after,
      (Lists{{}, {0}, {1}}));
}

TEST(StepOrder, ARepeatIsOneStepOutsideAndHasAnOrderWithin) {
  const std::vector<Step> steps = {
      launch({{0, kW}}),
      repeat(3, {launch({{0, kR}, {1, kW}}), launch({{2, kW}}), launch({{1, kR}, {2, kRW}})}),
      launch({{2, kR}, {3, kW}}), launch({{4, kW}})};
  const StepOrder order = order_of(steps);
  EXPECT_EQ(order.after, (Lists{{}, {0}, {1}, {}}));
  ASSERT_EQ(order.inside.size(), 4u);
  EXPECT_EQ(order.inside[1].after, (Lists{{}, {}, {0, 1}}));
  EXPECT_EQ(order.inside[0], StepOrder{});
}

TEST(StepOrder, ARepeatWritesItsFlagBeforeItsFirstRound) {
  const std::vector<Step> steps = {launch({{0, kW}}), launch({{0, kR}, {1, kW}}),
                                   repeat(3, {launch({{0, kW}})}, 0)};
  EXPECT_EQ(order_of(steps).after, (Lists{{}, {0}, {1}}));
}

KernelGraph graph_of(const std::vector<std::pair<BufferRole, uint64_t>>& buffers,
                     std::vector<Step> steps) {
  KernelGraph graph;
  for (const auto& [role, bytes] : buffers) {
    graph.buffers.push_back({.role = role, .type = {DataType::kBytes, {bytes}}});
  }
  graph.steps = std::move(steps);
  return graph;
}
MemoryPlan plan_of(const KernelGraph& graph) { return plan_memory(graph, order_of(graph.steps)); }

constexpr BufferRole kIn = BufferRole::kInput;
constexpr BufferRole kTemp = BufferRole::kTemporary;
constexpr BufferRole kOut = BufferRole::kOutput;

TEST(MemoryPlan, CountsEachRoleRoundedToTheAlignment) {
  const MemoryPlan plan =
      plan_of(graph_of({{kIn, 1},
                        {BufferRole::kConstant, 257},
                        {kTemp, 100},
                        {kOut, 256},
                        {BufferRole::kInOut, 300}},
                       {launch({{0, kR}, {1, kR}, {2, kW}, {3, kW}, {4, kRW}})}));
  EXPECT_EQ(plan.inputs, Bytes(256));
  EXPECT_EQ(plan.constants, Bytes(512));
  EXPECT_EQ(plan.temporaries, Bytes(256));
  EXPECT_EQ(plan.outputs, Bytes(256 + 512));
  EXPECT_EQ(plan.footprint, Bytes(7 * 256));
  EXPECT_EQ(plan.sizes[1], Bytes(257));
}

TEST(MemoryPlan, AChainNeedsTheMemoryOfTwoLinks) {
  std::vector<Step> steps = {launch({{0, kR}, {1, kW}})};
  std::vector<std::pair<BufferRole, uint64_t>> buffers = {{kIn, 1000}, {kTemp, 1000}};
  for (uint32_t i = 1; i < 10; ++i) {
    buffers.emplace_back(kTemp, 1000);
    steps.push_back(launch({{i, kR}, {i + 1, kW}}));
  }
  buffers.emplace_back(kOut, 4);
  steps.push_back(launch({{10, kR}, {11, kW}}));
  EXPECT_EQ(plan_of(graph_of(buffers, steps)).temporaries, Bytes(2048));
}

TEST(MemoryPlan, WhatMayRunAtTheSameTimeSharesNothing) {
  // Two chains through a temporary each: one after the other as they stand, but not ordered.
  const auto chains = [](uint32_t first_out, uint32_t second_in) {
    return graph_of({{kIn, 4}, {kIn, 4}, {kTemp, 256}, {kTemp, 256}, {kOut, 4}, {kOut, 4}},
                    {launch({{0, kR}, {2, kW}}), launch({{2, kR}, {first_out, kW}}),
                     launch({{second_in, kR}, {3, kW}}), launch({{3, kR}, {5, kW}})});
  };
  EXPECT_EQ(plan_of(chains(4, 1)).temporaries, Bytes(512));
  // With the second waiting for the first they take turns.
  EXPECT_EQ(plan_of(chains(4, 4)).temporaries, Bytes(256));
}

TEST(MemoryPlan, ABufferOfALoopIsKeptForAllOfItsRounds) {
  // In one round 1 and 2 could share; but the second round finds in 1 what the first left there.
  const auto graph = graph_of({{kIn, 4}, {kTemp, 256}, {kTemp, 256}, {kTemp, 256}, {kOut, 4}},
                              {launch({{0, kR}, {1, kW}}),
                               repeat(2, {launch({{1, kR}, {3, kW}}), launch({{3, kR}, {2, kW}}),
                                          launch({{2, kR}, {1, kW}})}),
                               launch({{1, kR}, {4, kW}})});
  EXPECT_EQ(plan_of(graph).temporaries, Bytes(768));
}

TEST(MemoryPlan, SmallBuffersFillTheGapsBetweenLargeOnes) {
  // 1 lives through; 2 and then 3 and 4 together take turns beside it.
  const auto graph = graph_of(
      {{kIn, 4}, {kTemp, 1024}, {kTemp, 512}, {kTemp, 256}, {kTemp, 256}, {kOut, 4}},
      {launch({{0, kR}, {1, kW}}), launch({{1, kRW}, {2, kW}}), launch({{1, kRW}, {2, kR}}),
       launch({{1, kRW}, {3, kW}, {4, kW}}), launch({{1, kR}, {3, kR}, {4, kR}, {5, kW}})});
  EXPECT_EQ(plan_of(graph).temporaries, Bytes(1024 + 512));
}

// --- Any graph ---

using Random = std::mt19937_64;

uint64_t below(Random& random, uint64_t bound) { return random() % bound; }

// A graph in which nothing is read before it is written; each launch's shared_bytes is its number.
class RandomGraph {
 public:
  explicit RandomGraph(uint64_t seed) : random_(seed) {}

  KernelGraph make() {
    constexpr BufferRole kRoles[] = {
        kIn, BufferRole::kConstant, kOut, BufferRole::kInOut, kTemp, kTemp, kTemp, kTemp};
    const size_t count = 3 + below(random_, 12);
    for (size_t i = 0; i < count; ++i) {
      Buffer buffer;
      buffer.role = kRoles[i < 2 ? i : below(random_, std::size(kRoles))];
      buffer.type = {DataType::kUint64, {1 + below(random_, 100)}};
      graph_.buffers.push_back(buffer);
      written_.push_back(is_input(buffer.role) || buffer.role == BufferRole::kConstant);
    }
    graph_.steps = steps(1 + below(random_, 14), 0);
    return graph_;
  }

 private:
  std::vector<Step> steps(size_t count, int depth) {
    std::vector<Step> steps;
    for (size_t i = 0; i < count; ++i) {
      if (depth < 2 && below(random_, 6) == 0) {
        const uint64_t times = 1 + below(random_, 3);
        steps.push_back(repeat(times, this->steps(1 + below(random_, 4), depth + 1)));
      } else {
        steps.push_back(one());
      }
    }
    return steps;
  }

  Launch one() {
    std::map<uint32_t, Access> uses;
    for (size_t i = 0; i < 1 + below(random_, 3); ++i) {
      const auto buffer = static_cast<uint32_t>(below(random_, graph_.buffers.size()));
      const BufferRole role = graph_.buffers[buffer].role;
      if (role == kIn || role == BufferRole::kConstant) {
        uses[buffer] = kR;
      } else if (!written_[buffer]) {
        uses[buffer] = kW;
      } else {
        uses[buffer] = static_cast<Access>(below(random_, 3));
      }
    }
    for (const auto& [buffer, access] : uses) {
      if (access != kR) written_[buffer] = true;
    }
    Launch result = launch({uses.begin(), uses.end()});
    result.shared_bytes = ++launches_;
    return result;
  }

  Random random_;
  KernelGraph graph_;
  std::vector<bool> written_;
  uint32_t launches_ = 0;
};

// Runs a graph on memory of its own: each launch makes what it writes from its number and all that
// it reads. With a plan, temporaries lie where it says, and steps run in any order that it allows.
class Interpreter {
 public:
  Interpreter(const KernelGraph& graph, const MemoryPlan* plan, uint64_t seed)
      : graph_(graph), random_(seed) {
    Random same(1);  // the initial content; the rest differs from run to run
    uint64_t end = plan == nullptr ? 0 : plan->temporaries.count / 8;
    for (size_t i = 0; i < graph.buffers.size(); ++i) {
      const bool planned = plan != nullptr && graph.buffers[i].role == kTemp;
      begins_.push_back(planned ? plan->offsets[i].count / 8 : end);
      if (!planned) end += size(i);
    }
    for (uint64_t i = 0; i < end; ++i) memory_.push_back(random_());
    for (size_t i = 0; i < graph.buffers.size(); ++i) {
      const BufferRole role = graph.buffers[i].role;
      if (!is_input(role) && role != BufferRole::kConstant) continue;
      for (uint64_t word = 0; word < size(i); ++word) memory_[begins_[i] + word] = same();
    }
  }

  // Once, in the order in which they stand or in one that `order` allows.
  void run(const std::vector<Step>& steps, const StepOrder* order, bool top = true) {
    std::vector<uint32_t> left(steps.size());
    std::iota(left.begin(), left.end(), 0);
    std::vector<bool> done(steps.size(), false);
    while (!left.empty()) {
      const auto ready = [&](uint32_t step) {
        return order == nullptr ? step == left.front()
                                : std::all_of(order->after[step].begin(), order->after[step].end(),
                                              [&](uint32_t earlier) { return done[earlier]; });
      };
      std::vector<uint32_t> choice;
      std::copy_if(left.begin(), left.end(), std::back_inserter(choice), ready);
      const uint32_t step = choice[below(random_, choice.size())];
      run_one(steps[step], order == nullptr ? nullptr : &order->inside[step]);
      if (top) sequence_.push_back(step);
      done[step] = true;
      left.erase(std::find(left.begin(), left.end(), step));
    }
  }

  std::vector<uint64_t> results() const {
    std::vector<uint64_t> results;
    for (size_t i = 0; i < graph_.buffers.size(); ++i) {
      if (!written_.contains(i) || !is_output(graph_.buffers[i].role)) continue;
      results.insert(results.end(), &memory_[begins_[i]], &memory_[begins_[i]] + size(i));
    }
    return results;
  }
  // The order in which the outermost steps ran.
  const std::vector<uint32_t>& sequence() const { return sequence_; }

 private:
  uint64_t size(size_t buffer) const { return graph_.buffers[buffer].type.shape[0]; }

  void run_one(const Step& step, const StepOrder* inside) {
    if (const auto* repeat = std::get_if<Repeat>(&step)) {
      for (uint64_t i = 0; i < repeat->times; ++i) run(repeat->steps, inside, false);
      return;
    }
    const auto& launch = std::get<Launch>(step);
    uint64_t hash = launch.shared_bytes;
    const auto each = [&](const auto& act) {
      for (const Argument& argument : launch.arguments) {
        const auto& use = std::get<BufferArgument>(argument);
        for (uint64_t word = 0; word < size(use.buffer); ++word) {
          act(use, memory_[begins_[use.buffer] + word]);
        }
      }
    };
    each([&](const BufferArgument& use, uint64_t& word) {
      if (use.access != kW) hash = (hash ^ word) * 0x9e3779b97f4a7c15 + (hash >> 29);
    });
    each([&](const BufferArgument& use, uint64_t& word) {
      if (use.access == kR) return;
      word = hash = hash * 0xbf58476d1ce4e5b9 + 1;
      written_[use.buffer] = true;
    });
  }

  const KernelGraph& graph_;
  Random random_;
  std::vector<uint64_t> begins_;  // of each buffer, in words
  std::vector<uint64_t> memory_;
  std::map<size_t, bool> written_;
  std::vector<uint32_t> sequence_;
};

void add_uses(const Step& step, uint32_t at, std::map<uint32_t, std::vector<uint32_t>>& uses) {
  if (const auto* repeat = std::get_if<Repeat>(&step)) {
    for (const Step& inner : repeat->steps) add_uses(inner, at, uses);
    return;
  }
  for (const Argument& argument : std::get<Launch>(step).arguments) {
    uses[std::get<BufferArgument>(argument).buffer].push_back(at);
  }
}

// No two temporaries that overlap are alive at the same time in this sequence of the steps.
void expect_no_overlap(const KernelGraph& graph, const MemoryPlan& plan,
                       const std::vector<uint32_t>& sequence) {
  std::map<uint32_t, std::vector<uint32_t>> uses;
  for (uint32_t at = 0; at < sequence.size(); ++at) add_uses(graph.steps[sequence[at]], at, uses);
  for (const auto& [a, when_a] : uses) {
    for (const auto& [b, when_b] : uses) {
      if (a >= b || graph.buffers[a].role != kTemp || graph.buffers[b].role != kTemp) continue;
      const bool apart = plan.offsets[a] + plan.sizes[a] <= plan.offsets[b] ||
                         plan.offsets[b] + plan.sizes[b] <= plan.offsets[a];
      const bool in_turn = when_a.back() < when_b.front() || when_b.back() < when_a.front();
      ASSERT_TRUE(apart || in_turn) << "buffers " << a << " and " << b;
    }
  }
}

TEST(AnyGraph, GivesTheSameResultInEveryOrderThatIsAllowedAndInThePlannedMemory) {
  size_t shared = 0;
  for (uint64_t seed = 1; seed <= 1500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const KernelGraph graph = RandomGraph(seed).make();
    Interpreter reference(graph, nullptr, seed);
    reference.run(graph.steps, nullptr);
    const StepOrder order = order_of(graph.steps);
    const MemoryPlan plan = plan_memory(graph, order);
    Bytes apart;
    for (size_t i = 0; i < graph.buffers.size(); ++i) {
      if (graph.buffers[i].role == kTemp) apart += plan.sizes[i];
      ASSERT_EQ(plan.offsets[i].count % kBufferAlignment.count, 0u);
    }
    if (plan.temporaries < apart) ++shared;
    for (uint64_t attempt = 0; attempt < 4; ++attempt) {
      Interpreter any(graph, &plan, seed * 100 + attempt);
      any.run(graph.steps, &order);
      ASSERT_EQ(any.results(), reference.results());
      expect_no_overlap(graph, plan, any.sequence());
    }
  }
  EXPECT_GT(shared, 100u);  // or the graphs would show nothing about shared memory
}

TEST(MemoryPlan, VariantsArePlannedOverTheSameMemory) {
  KernelGraph graph;
  const auto add = [&](BufferRole role, uint64_t elements) {
    graph.buffers.push_back({.name = "b" + std::to_string(graph.buffers.size()),
                             .role = role,
                             .type = {DataType::kFp32, {elements, 64}}});
  };
  add(BufferRole::kInput, 4);
  add(BufferRole::kOutput, 4);
  for (const uint64_t elements : {1, 1, 1, 4, 4, 4}) add(BufferRole::kTemporary, elements);
  // Of three temporaries in a row two live at a time.
  const auto variant = [&](uint64_t batch, uint32_t first) {
    Repeat made;
    made.batch = batch;
    made.steps = {launch({{0, kR}, {first, kW}}), launch({{first, kR}, {first + 1, kW}}),
                  launch({{first + 1, kR}, {first + 2, kW}}), launch({{first + 2, kR}, {1, kW}})};
    return made;
  };
  graph.steps = {variant(1, 2), variant(4, 5)};
  const MemoryPlan plan = plan_memory(graph, order_of(graph.steps));
  EXPECT_EQ(plan.temporaries, Bytes(2 * 4 * 64 * 4)) << "of the largest variant";
  EXPECT_NE(plan.offsets[2], plan.offsets[3]);
  EXPECT_NE(plan.offsets[5], plan.offsets[6]);
  EXPECT_EQ(plan.offsets[5], plan.offsets[7]);
}

}  // namespace
}  // namespace lambent::kernel_graph
