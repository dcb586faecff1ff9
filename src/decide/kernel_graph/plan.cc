#include "decide/kernel_graph/plan.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "core/base/check.h"

namespace lambent::kernel_graph {
namespace {

// Sets of the steps of one list, each as a row of bits.
class StepSets {
 public:
  StepSets(size_t rows, size_t steps, bool full = false)
      : words_((steps + 63) / 64), bits_(words_ * rows, full ? ~uint64_t{0} : 0) {}

  bool has(uint32_t row, uint32_t step) const {
    return (bits_[row * words_ + step / 64] >> step % 64 & 1) != 0;
  }
  void insert(uint32_t row, uint32_t step) {
    bits_[row * words_ + step / 64] |= uint64_t{1} << step % 64;
  }
  void insert_all(uint32_t row, uint32_t other) {
    for (size_t i = 0; i < words_; ++i) bits_[row * words_ + i] |= bits_[other * words_ + i];
  }
  void keep_only(uint32_t row, const StepSets& sets, uint32_t other) {
    for (size_t i = 0; i < words_; ++i) bits_[row * words_ + i] &= sets.bits_[other * words_ + i];
  }
  bool contains(uint32_t row, const StepSets& sets, uint32_t other) const {
    for (size_t i = 0; i < words_; ++i) {
      if ((sets.bits_[other * words_ + i] & ~bits_[row * words_ + i]) != 0) return false;
    }
    return true;
  }

 private:
  size_t words_;
  std::vector<uint64_t> bits_;
};

// What each step waits for, directly or through others.
StepSets everything_before(const std::vector<std::vector<uint32_t>>& after) {
  StepSets before(after.size(), after.size());
  for (uint32_t step = 0; step < after.size(); ++step) {
    for (const uint32_t earlier : after[step]) {
      before.insert(step, earlier);
      before.insert_all(step, earlier);
    }
  }
  return before;
}

// The buffers that a step touches, and whether it writes them.
using Touched = std::map<uint32_t, bool>;

void add_touched(const Step& step, Touched& touched) {
  if (const auto* repeat = std::get_if<Repeat>(&step)) {
    if (repeat->until != kNoFlag) touched[repeat->until] = true;
    for (const Step& inner : repeat->steps) add_touched(inner, touched);
    return;
  }
  for (const Argument& argument : std::get<Launch>(step).arguments) {
    if (const auto* used = std::get_if<BufferArgument>(&argument)) {
      touched[used->buffer] |= used->access != Access::kRead;
    }
  }
}

Touched touched_by(const Step& step) {
  Touched touched;
  add_touched(step, touched);
  return touched;
}

constexpr uint32_t kNobody = UINT32_MAX;

// Who touched a buffer last: a reader waits for the writer, a writer for the readers too.
struct LastTouch {
  uint32_t writer = kNobody;
  std::vector<uint32_t> readers;  // since then
};

Bytes aligned(Bytes size) {
  const uint64_t alignment = kBufferAlignment.count;
  return Bytes((size.count + alignment - 1) / alignment * alignment);
}

// The steps that are planned: those of the graph, or those of all its variants, one variant behind
// the other. Never two of these run in one request, and what one has is free for the next.
struct PlannedSteps {
  std::vector<const Step*> steps;
  std::vector<std::vector<uint32_t>> after;  // as StepOrder has it
};

PlannedSteps planned_steps(const KernelGraph& graph, const StepOrder& order) {
  PlannedSteps planned;
  if (variants_of(graph).empty()) {
    for (const Step& step : graph.steps) planned.steps.push_back(&step);
    planned.after = order.after;
    return planned;
  }
  uint32_t previous = 0;  // where the variant before begins
  for (size_t i = 0; i < graph.steps.size(); ++i) {
    const auto begin = static_cast<uint32_t>(planned.steps.size());
    const auto& variant = std::get<Repeat>(graph.steps[i]);
    for (uint32_t inner = 0; inner < variant.steps.size(); ++inner) {
      planned.steps.push_back(&variant.steps[inner]);
      auto& after = planned.after.emplace_back();
      for (const uint32_t step : order.inside[i].after[inner]) after.push_back(begin + step);
      if (!after.empty()) continue;  // it waits for the variant before through one of these
      for (uint32_t step = previous; step < begin; ++step) after.push_back(step);
    }
    previous = begin;
  }
  return planned;
}

// Where the temporaries lie: the largest first, each at the lowest place where nothing is that is
// needed at the same time.
class TemporaryPlacer {
 public:
  TemporaryPlacer(const KernelGraph& graph, const PlannedSteps& planned, MemoryPlan& plan)
      : plan_(plan),
        used_(graph.buffers.size(), false),
        users_(graph.buffers.size(), planned.steps.size()),
        before_(graph.buffers.size(), planned.steps.size(), /*full=*/true) {
    const StepSets before = everything_before(planned.after);
    for (uint32_t step = 0; step < planned.steps.size(); ++step) {
      for (const auto& [buffer, written] : touched_by(*planned.steps[step])) {
        if (graph.buffers[buffer].role != BufferRole::kTemporary) continue;
        used_[buffer] = true;
        users_.insert(buffer, step);
        before_.keep_only(buffer, before, step);
      }
    }
  }

  // Returns the size of the block.
  Bytes place_all() {
    std::vector<uint32_t> buffers;
    for (uint32_t i = 0; i < used_.size(); ++i) {
      if (used_[i]) buffers.push_back(i);
    }
    std::stable_sort(buffers.begin(), buffers.end(),
                     [this](uint32_t a, uint32_t b) { return plan_.sizes[a] > plan_.sizes[b]; });
    Bytes end;
    for (const uint32_t buffer : buffers) end = std::max(end, place(buffer));
    return end;
  }

 private:
  // Returns where the buffer ends.
  Bytes place(uint32_t buffer) {
    const Bytes size = aligned(plan_.sizes[buffer]);
    Bytes offset;
    // In the order of their places, so that the first gap that is large enough is the lowest.
    for (const auto& [begin, other] : placed_) {
      if (begin >= offset + size) break;
      if (!share(buffer, other)) offset = std::max(offset, begin + aligned(plan_.sizes[other]));
    }
    plan_.offsets[buffer] = offset;
    placed_.emplace(offset, buffer);
    return offset + size;
  }

  // Whether all steps that use one have ended before the first that uses the other begins.
  bool share(uint32_t a, uint32_t b) const {
    return before_.contains(b, users_, a) || before_.contains(a, users_, b);
  }

  MemoryPlan& plan_;
  // Of each temporary: whether any step uses it, which do, and which come before all of those.
  std::vector<bool> used_;
  StepSets users_;
  StepSets before_;
  std::multimap<Bytes, uint32_t> placed_;
};

}  // namespace

StepOrder order_of(const std::vector<Step>& steps) {
  StepOrder order;
  StepSets before(steps.size(), steps.size());
  std::map<uint32_t, LastTouch> last;  // by buffer
  for (uint32_t step = 0; step < steps.size(); ++step) {
    std::vector<uint32_t> candidates;
    for (const auto& [buffer, written] : touched_by(steps[step])) {
      LastTouch& touch = last[buffer];
      if (touch.writer != kNobody) candidates.push_back(touch.writer);
      if (!written) {
        touch.readers.push_back(step);
        continue;
      }
      candidates.insert(candidates.end(), touch.readers.begin(), touch.readers.end());
      touch = {.writer = step, .readers = {}};
    }
    // The latest first: what it waits for needs no mention.
    std::sort(candidates.begin(), candidates.end(), std::greater<>());
    auto& after = order.after.emplace_back();
    for (const uint32_t candidate : candidates) {
      if (before.has(step, candidate)) continue;
      after.push_back(candidate);
      before.insert(step, candidate);
      before.insert_all(step, candidate);
    }
    std::reverse(after.begin(), after.end());
    const auto* repeat = std::get_if<Repeat>(&steps[step]);
    order.inside.push_back(repeat == nullptr ? StepOrder{} : order_of(repeat->steps));
  }
  return order;
}

MemoryPlan plan_memory(const KernelGraph& graph, const StepOrder& order) {
  MemoryPlan plan;
  plan.offsets.resize(graph.buffers.size());
  for (const Buffer& buffer : graph.buffers) {
    const auto size = byte_size(buffer.type);
    CHECK(size.ok(), "the memory of a valid graph can be counted");
    plan.sizes.push_back(*size);
    if (buffer.role == BufferRole::kConstant) plan.constants += aligned(*size);
    if (buffer.role == BufferRole::kInput) plan.inputs += aligned(*size);
    if (is_output(buffer.role)) plan.outputs += aligned(*size);
  }
  plan.temporaries = TemporaryPlacer(graph, planned_steps(graph, order), plan).place_all();
  plan.footprint = plan.constants + plan.inputs + plan.outputs + plan.temporaries;
  return plan;
}

}  // namespace lambent::kernel_graph
