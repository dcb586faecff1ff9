#include "decide/kernel_graph/profile.h"

#include <gtest/gtest.h>

#include "core/base/random.h"
#include "decide/kernel_graph/plan.h"

namespace lambent::kernel_graph {
namespace {

constexpr Access kR = Access::kRead;
constexpr Access kW = Access::kWrite;

Buffer buffer(BufferRole role, uint64_t bytes) {
  return {.name = {}, .role = role, .type = raw_tensor(Bytes(bytes)), .file = {}, .fill = {}};
}
Step launch(std::initializer_list<std::pair<uint32_t, Access>> uses) {
  Launch launch;
  for (const auto& [buffer, access] : uses) {
    launch.arguments.emplace_back(BufferArgument{buffer, 0, access});
  }
  return launch;
}

// x -> a -> b -> y, each layer with a constant of its own.
KernelGraph chain() {
  KernelGraph graph;
  graph.buffers = {buffer(BufferRole::kInput, 1000),       buffer(BufferRole::kConstant, 5120),
                   buffer(BufferRole::kTemporary, 2048),   buffer(BufferRole::kConstant, 10240),
                   buffer(BufferRole::kTemporary, 4096),   buffer(BufferRole::kOutput, 256),
                   buffer(BufferRole::kTemporary, 1 << 20)};
  graph.steps = {launch({{0, kR}, {1, kR}, {2, kW}}), launch({{2, kR}, {3, kR}, {4, kW}}),
                 launch({{4, kR}, {5, kW}})};
  return graph;
}

std::vector<uint64_t> live_of(const MemoryProfile& profile) {
  std::vector<uint64_t> live;
  for (const KernelMemory& kernel : profile.kernels) live.push_back(kernel.live.count);
  return live;
}

TEST(Profile, HasEachVariableFromItsFirstUseToItsLast) {
  const Duration times[] = {microseconds(1), microseconds(2), microseconds(3)};
  const MemoryProfile profile = profile_of(chain(), times, CountConstants::kNo);
  EXPECT_EQ(live_of(profile), (std::vector<uint64_t>{1024 + 2048, 2048 + 4096, 4096 + 256}));
  EXPECT_EQ(profile.whole, Bytes(1024 + 2048 + 4096 + 256));
  EXPECT_EQ(profile.peak(), Bytes(6144));
  EXPECT_EQ(profile.duration(), microseconds(6));
  EXPECT_EQ(live_of(profile_of(chain(), times, CountConstants::kWhileUsed)),
            (std::vector<uint64_t>{3072 + 5120, 6144 + 10240, 4352}));
  EXPECT_EQ(live_of(profile_of(chain(), times, CountConstants::kAllTheTime)),
            (std::vector<uint64_t>{3072 + 15360, 6144 + 15360, 4352 + 15360}));
}

TEST(Profile, KeepsOutputsToTheEnd) {
  KernelGraph graph = chain();
  graph.steps.push_back(launch({{4, kR}}));
  const Duration times[4] = {};
  EXPECT_EQ(live_of(profile_of(graph, times, CountConstants::kNo)).back(), 4096u + 256);
}

TEST(Uses, CountLaunchesOfARequest) {
  KernelGraph graph = chain();
  const auto uses = uses_of(graph);
  EXPECT_EQ(uses[2], (BufferUse{0, 1, 2}));
  EXPECT_EQ(uses[5], (BufferUse{2, 2, 1}));
  EXPECT_EQ(uses[6].accesses, 0u) << "no step touches it";
}

TEST(Uses, CountTheRoundsOfRepeatsAndTakeALaunchForOneTouch) {
  KernelGraph graph = chain();
  Repeat inner{.times = 5, .until = kNoFlag, .steps = {launch({{4, kR}, {4, kW}})}};
  graph.steps[1] = Repeat{3, kNoFlag, {launch({{2, kR}, {4, kW}}), inner}};
  const auto uses = uses_of(graph);
  EXPECT_EQ(uses[2], (BufferUse{0, 1, 1 + 3}));
  EXPECT_EQ(uses[4], (BufferUse{1, 2, 3 + 15 + 1}));
  std::get<Repeat>(graph.steps[1]).times = UINT64_MAX;
  EXPECT_EQ(uses_of(graph)[4].accesses, UINT64_MAX);
}

TEST(Uses, DoNotCountWhatAFlagDecides) {
  KernelGraph graph = chain();
  graph.steps[1] = Repeat{3, 6, {launch({{2, kR}, {4, kW}, {6, kW}})}};
  const auto uses = uses_of(graph);
  EXPECT_EQ(uses[2], (BufferUse{0, 1, std::nullopt}));
  EXPECT_EQ(uses[6], (BufferUse{1, 1, std::nullopt}));
  EXPECT_EQ(uses[0], (BufferUse{0, 0, 1}));
}

// Steps in a row, each touching some of the buffers.
TEST(AnyChain, NeedsNoMoreThanItsPlanAndEachStepHasItsBuffers) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SeededRandom random(seed);
    KernelGraph graph;
    graph.buffers.push_back(buffer(BufferRole::kTemporary, 256));  // which orders the steps
    for (uint64_t i = random.below(9); i > 0; --i) {
      const auto role = static_cast<BufferRole>(random.below(5));
      graph.buffers.push_back(buffer(role, 1 + random.below(5000)));
    }
    for (uint64_t i = 1 + random.below(9); i > 0; --i) {
      Launch one;
      one.arguments.emplace_back(BufferArgument{0, 0, Access::kReadWrite});
      for (uint64_t uses = random.below(4); uses > 0; --uses) {
        const auto which = static_cast<uint32_t>(random.below(graph.buffers.size()));
        const BufferRole role = graph.buffers[which].role;
        one.arguments.emplace_back(BufferArgument{which, 0, default_access(role)});
      }
      graph.steps.emplace_back(std::move(one));
    }
    const std::vector<Duration> times(graph.steps.size(), microseconds(1));
    const MemoryPlan plan = plan_memory(graph, order_of(graph.steps));
    const auto profile = profile_of(graph, times, CountConstants::kAllTheTime);
    ASSERT_LE(profile.peak(), plan.footprint);
    ASSERT_LE(profile.peak(), profile.whole);
    const auto uses = uses_of(graph);
    for (uint32_t at = 0; at < graph.steps.size(); ++at) {
      Bytes touched;
      for (size_t i = 0; i < uses.size(); ++i) {
        const bool used = uses[i].accesses != 0u && uses[i].first <= at && at <= uses[i].last;
        if (used) touched += plan.sizes[i];
      }
      ASSERT_GE(profile.kernels[at].live, touched) << "step " << at;
    }
  }
}

}  // namespace
}  // namespace lambent::kernel_graph
