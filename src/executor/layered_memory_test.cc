#include "executor/layered_memory.h"

#include "executor/testing.h"

namespace lambent::executor {
namespace {

class LayeredMemoryTest : public EmulatedDevice {
 protected:
  void start(LayeredMemory::Hooks hooks = {}) {
    if (hooks.progress == nullptr) hooks.progress = [](SandboxId) {};
    // It does not look at its size by itself.
    auto memory = LayeredMemory::create(loop_, *driver_, *context_, 0, {.interval = seconds(3600)},
                                        std::move(hooks));
    ASSERT_TRUE(memory.ok()) << to_string(memory.error());
    memory_ = std::move(*memory);
  }
  // With a layer for each of these lists of pages.
  void add(uint64_t seat, uint32_t pages, std::vector<std::vector<uint32_t>> layers) {
    auto plan = std::make_unique<kernel_graph::LayerPlan>();
    plan->page = memory_->pages().page();
    plan->pages = pages;
    for (auto& each : layers) plan->layers.push_back({.begin = 0, .pages = std::move(each)});
    const auto window = memory_->pages().open(pages);
    ASSERT_TRUE(window.ok());
    memory_->add(SandboxId(seat), *window, *plan);
    plans_.push_back(std::move(plan));
  }
  Result<bool> await(uint64_t seat, uint32_t layer) {
    for (;;) {
      auto there = memory_->is_there(SandboxId(seat), layer);
      if (!there.ok() || *there) return there;
      loop_.run_once(seconds(30));
    }
  }
  // Of this layer, which comes, what is foreign.
  Bytes foreign(uint64_t seat, uint32_t layer, bool cleans) {
    const auto there = await(seat, layer);
    EXPECT_TRUE(there.ok());
    if (!there.ok()) return Bytes(0);
    auto runs = memory_->begin_layer(SandboxId(seat), layer);
    Bytes sum;
    for (const auto& run : runs) sum += run.size;
    if (cleans) memory_->clean(SandboxId(seat), std::move(runs));
    return sum;
  }

  SystemClock clock_;
  loop::EventLoop loop_{clock_};
  std::vector<std::unique_ptr<kernel_graph::LayerPlan>> plans_;
  std::unique_ptr<LayeredMemory> memory_;
};

// A request that ends before its first layer begins, or before what came for it was zeroed.
TEST_F(LayeredMemoryTest, WhatARequestDidNotCleanIsForeignToTheNext) {
  ASSERT_NO_FATAL_FAILURE(start());
  const Bytes page = memory_->pages().page();
  add(1, 4, {{0, 1, 2}});
  memory_->begin(SandboxId(1));
  ASSERT_TRUE(await(1, 0).ok());
  memory_->end(SandboxId(1));
  memory_->begin(SandboxId(1));
  EXPECT_EQ(foreign(1, 0, false), page * 3);
  memory_->end(SandboxId(1));
  memory_->begin(SandboxId(1));
  EXPECT_EQ(foreign(1, 0, true), page * 3);
  memory_->end(SandboxId(1));
  memory_->begin(SandboxId(1));
  EXPECT_EQ(foreign(1, 0, true), Bytes(0)) << "it is its own";
  memory_->end(SandboxId(1));
}

}  // namespace
}  // namespace lambent::executor
