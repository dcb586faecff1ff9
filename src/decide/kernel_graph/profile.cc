#include "decide/kernel_graph/profile.h"

#include <algorithm>

#include "core/base/check.h"
#include "decide/kernel_graph/plan.h"

namespace lambent::kernel_graph {
namespace {

uint64_t saturating_product(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}
uint64_t saturating_sum(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

// How often a step runs in a request; none if that is decided while it runs.
using Rounds = std::optional<uint64_t>;

class Uses {
 public:
  explicit Uses(size_t buffers) : uses_(buffers), touched_(buffers) {}

  void add(const Step& step, uint32_t at, Rounds rounds) {
    if (const auto* repeat = std::get_if<Repeat>(&step)) {
      if (repeat->until != kNoFlag) {
        // What asks the flag touches it too, in between the launches.
        add(repeat->until, at, std::nullopt);
        rounds = std::nullopt;
      } else if (rounds) {
        rounds = saturating_product(*rounds, repeat->times);
      }
      for (const Step& inner : repeat->steps) add(inner, at, rounds);
      return;
    }
    std::vector<uint32_t> once;  // a launch that has a buffer twice touches it once
    for (const Argument& argument : std::get<Launch>(step).arguments) {
      const auto* used = std::get_if<BufferArgument>(&argument);
      if (used == nullptr || std::ranges::count(once, used->buffer) != 0) continue;
      once.push_back(used->buffer);
      add(used->buffer, at, rounds);
    }
  }

  std::vector<BufferUse> take() { return std::move(uses_); }

 private:
  void add(uint32_t buffer, uint32_t at, Rounds rounds) {
    BufferUse& use = uses_[buffer];
    if (!touched_[buffer]) use.first = at;
    touched_[buffer] = true;
    use.last = at;
    if (!rounds || !use.accesses) {
      use.accesses = std::nullopt;
    } else {
      use.accesses = saturating_sum(*use.accesses, *rounds);
    }
  }

  std::vector<BufferUse> uses_;
  std::vector<bool> touched_;
};

Bytes rounded(const TensorType& type) {
  const auto size = byte_size(type);
  CHECK(size.ok(), "a valid graph has no buffer without a size");
  const uint64_t alignment = kBufferAlignment.count;
  return Bytes((size->count + alignment - 1) / alignment * alignment);
}

}  // namespace

std::vector<BufferUse> uses_of(const KernelGraph& graph) {
  Uses uses(graph.buffers.size());
  for (uint32_t at = 0; at < graph.steps.size(); ++at) uses.add(graph.steps[at], at, 1);
  return uses.take();
}

MemoryProfile profile_of(const KernelGraph& graph, std::span<const Duration> step_durations,
                         CountConstants constants) {
  CHECK(step_durations.size() == graph.steps.size(), "every step has a duration");
  MemoryProfile profile;
  for (const Duration duration : step_durations) profile.kernels.push_back({duration, Bytes()});
  if (graph.steps.empty()) return profile;
  const std::vector<BufferUse> uses = uses_of(graph);
  // What is added and what is taken away before each step, one more for the end.
  std::vector<Bytes> comes(graph.steps.size() + 1), goes(graph.steps.size() + 1);
  for (size_t i = 0; i < graph.buffers.size(); ++i) {
    const Buffer& buffer = graph.buffers[i];
    BufferUse use = uses[i];
    if (use.accesses == uint64_t{0}) continue;
    if (buffer.role == BufferRole::kConstant && constants == CountConstants::kNo) continue;
    const uint32_t end = static_cast<uint32_t>(graph.steps.size()) - 1;
    if (is_output(buffer.role)) use.last = end;
    if (buffer.role == BufferRole::kConstant && constants == CountConstants::kAllTheTime) {
      use.first = 0;
      use.last = end;
    }
    const Bytes size = rounded(buffer.type);
    profile.whole += size;
    comes[use.first] += size;
    goes[use.last + 1] += size;
  }
  Bytes live;
  for (size_t at = 0; at < profile.kernels.size(); ++at) {
    live = live + comes[at] - goes[at];
    profile.kernels[at].live = live;
  }
  return profile;
}

}  // namespace lambent::kernel_graph
