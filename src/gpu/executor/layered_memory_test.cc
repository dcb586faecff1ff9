#include "gpu/executor/layered_memory.h"

#include <numeric>

#include "gpu/executor/testing/testing.h"

namespace lambent::executor {
namespace {

class LayeredMemoryTest : public EmulatedDevice {
 protected:
  explicit LayeredMemoryTest(const Clock& clock = system_) : loop_(clock) {}
  // Else it does not look at its size by itself.
  void start(LayeredMemory::Hooks hooks = {},
             LayeredMemory::Options options = {.interval = seconds(3600)}) {
    if (hooks.progress == nullptr) hooks.progress = [](SandboxId) {};
    auto memory = LayeredMemory::create(loop_, *driver_, *context_, 0, options, std::move(hooks));
    ASSERT_TRUE(memory.ok()) << to_string(memory.error());
    memory_ = std::move(*memory);
  }
  // With a layer for each of these lists of pages.
  void add(uint64_t instance, uint32_t pages, std::vector<std::vector<uint32_t>> layers) {
    auto plan = std::make_unique<kernel_graph::LayerPlan>();
    plan->page = memory_->pages().page();
    plan->pages = pages;
    for (auto& each : layers) plan->layers.push_back({.begin = 0, .pages = std::move(each)});
    const auto window = memory_->pages().open(pages);
    ASSERT_TRUE(window.ok());
    memory_->add(SandboxId(instance), *window, *plan);
    plans_.push_back(std::move(plan));
  }
  Result<bool> await(uint64_t instance, uint32_t layer) {
    for (;;) {
      auto there = memory_->is_there(SandboxId(instance), layer);
      if (!there.ok() || *there) return there;
      loop_.run_once(seconds(30));
    }
  }
  // Of this layer, which comes, what is foreign.
  Bytes foreign(uint64_t instance, uint32_t layer, bool cleans) {
    const auto there = await(instance, layer);
    EXPECT_TRUE(there.ok());
    if (!there.ok()) return Bytes(0);
    auto runs = memory_->begin_layer(SandboxId(instance), layer);
    Bytes sum;
    for (const auto& run : runs) sum += run.size;
    if (cleans) memory_->clean(SandboxId(instance), std::move(runs));
    return sum;
  }

  static inline SystemClock system_;
  loop::EventLoop loop_;
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

class RequestsThatFollow : public LayeredMemoryTest {
 protected:
  using LayeredMemoryTest::LayeredMemoryTest;
  void run(uint64_t instance, uint32_t layers) {
    memory_->begin(SandboxId(instance));
    for (uint32_t layer = 0; layer < layers; ++layer) {
      foreign(instance, layer, true);
      if (layer + 1 < layers) memory_->layer_ended(SandboxId(instance));
    }
    memory_->end(SandboxId(instance));
  }
  // Time for looks, which may come or not.
  void rest() {
    for (int turn = 0; turn < 5; ++turn) loop_.run_once(milliseconds(2));
  }
};

TEST_F(RequestsThatFollow, HaveTheirPagesWithoutTheDriver) {
  ASSERT_NO_FATAL_FAILURE(start({}, {.interval = milliseconds(1), .hold = std::chrono::hours(1)}));
  const Bytes page = memory_->pages().page();
  add(1, 8, {{0, 1, 2}, {2, 3}, {4, 5, 6, 7}});
  run(1, 3);
  rest();
  const uint64_t calls = memory_->pages().driver_calls();
  for (int i = 0; i < 5; ++i) {
    run(1, 3);
    rest();
  }
  EXPECT_EQ(memory_->pages().driver_calls(), calls);
  EXPECT_EQ(memory_->pages().size(), page * 8);
}

TEST_F(RequestsThatFollow, KeepAFewPagesAndNoMore) {
  ASSERT_NO_FATAL_FAILURE(start({}, {.interval = milliseconds(1), .hold = std::chrono::hours(1)}));
  std::vector<uint32_t> all(64);
  std::iota(all.begin(), all.end(), 0);
  add(1, 64, {all});
  run(1, 1);
  while (memory_->pages().size() > Bytes::mib(64)) loop_.run_once(seconds(30));
  EXPECT_EQ(memory_->pages().size(), Bytes::mib(64));
}

TEST_F(RequestsThatFollow, GiveAllBackWhenNoneHasComeForLong) {
  ASSERT_NO_FATAL_FAILURE(start({}, {.interval = milliseconds(1), .hold = milliseconds(20)}));
  add(1, 8, {{0, 1, 2, 3}});
  run(1, 1);
  while (memory_->pages().size() > Bytes(0)) loop_.run_once(seconds(30));
  run(1, 1);
  while (memory_->pages().size() > Bytes(0)) loop_.run_once(seconds(30));
}

class RequestsThatCrowd : public RequestsThatFollow {
 protected:
  RequestsThatCrowd() : RequestsThatFollow(turned_) {}
  static inline FakeClock turned_;
};

// They begin four times between two looks.
TEST_F(RequestsThatCrowd, DoNotPutOffWhatThePoolGivesBack) {
  constexpr Duration kInterval = seconds(8);
  ASSERT_NO_FATAL_FAILURE(start({}, {.interval = kInterval}));
  const Bytes page = memory_->pages().page();
  std::vector<uint32_t> all(64);
  std::iota(all.begin(), all.end(), 0);
  add(1, 64, {all});
  add(2, 1, {{0}});
  run(1, 1);
  ASSERT_EQ(memory_->pages().size(), page * 64);
  for (int i = 0; i < 5; ++i) {
    turned_.advance(scheduling::scaling_period(kInterval) / 4);
    run(2, 1);
    loop_.run_once(Duration(0));
  }
  // A look asked for it by then; it is given by another thread, which wakes the loop.
  for (int turn = 0; turn < 100 && memory_->pages().size() > page; ++turn) {
    loop_.run_once(milliseconds(100));
  }
  EXPECT_LE(memory_->pages().size(), page);
}

class ShortOfMemory : public LayeredMemoryTest {
 protected:
  void SetUp() override {
    LayeredMemoryTest::SetUp();
    if (IsSkipped()) return;
    LayeredMemory::Hooks hooks;
    hooks.make_room = [this](Bytes) -> LayeredMemory::Room {
      ++asked_;
      if (!more_) return {};
      auto going = std::make_shared<std::unique_ptr<cuda::DeviceBuffer>>(std::move(more_));
      return {.give = [going] { going->reset(); }};
    };
    hooks.waits = [this] { return waits_; };
    ASSERT_NO_FATAL_FAILURE(start(std::move(hooks)));
    page_ = memory_->pages().page();
  }
  // So many pages are left.
  void leave(uint32_t pages) {
    size_t free = 0, total = 0;
    ASSERT_EQ((*driver_)->mem_get_info(&free, &total), CUDA_SUCCESS);
    rest_ = allocate(Bytes(free - free % page_.count) - page_ * pages);
  }
  std::unique_ptr<cuda::DeviceBuffer> allocate(Bytes size) {
    auto memory = cuda::DeviceBuffer::allocate(*driver_, size);
    EXPECT_TRUE(memory.ok());
    if (!memory.ok()) return nullptr;
    return std::make_unique<cuda::DeviceBuffer>(std::move(*memory));
  }
  // Until the instance has found that there is no more elsewhere either.
  void await_shortage(int asked) {
    while (asked_ < asked) loop_.run_once(seconds(30));
  }

  Bytes page_;
  int asked_ = 0;
  bool waits_ = false;
  std::unique_ptr<cuda::DeviceBuffer> rest_, more_;  // the latter goes if it is asked for
};

TEST_F(ShortOfMemory, WaitsForThePagesOfAnotherRequest) {
  add(1, 4, {{0, 1, 2}, {3}});
  add(2, 4, {{0, 1, 2}});
  leave(4);
  memory_->begin(SandboxId(1));
  ASSERT_TRUE(await(1, 1).ok());
  EXPECT_EQ(foreign(1, 0, true), page_ * 4) << "and what the next layer needs";
  memory_->begin(SandboxId(2));
  await_shortage(1);
  EXPECT_FALSE(*memory_->is_there(SandboxId(2), 0));
  memory_->layer_ended(SandboxId(1));
  EXPECT_EQ(foreign(2, 0, true), page_ * 3);
  EXPECT_TRUE(await(1, 1).ok());
  memory_->end(SandboxId(1));
  memory_->end(SandboxId(2));
}

TEST_F(ShortOfMemory, ALayerWaitsForThatBeforeIt) {
  add(1, 5, {{0, 1, 2}, {3, 4}});
  leave(4);
  memory_->begin(SandboxId(1));
  EXPECT_EQ(foreign(1, 0, true), page_ * 3);
  await_shortage(1);
  memory_->layer_ended(SandboxId(1));
  const auto there = await(1, 1);
  EXPECT_TRUE(there.ok()) << to_string(there.error());
  memory_->end(SandboxId(1));
}

TEST_F(ShortOfMemory, HasWhatGoesElsewhere) {
  add(1, 4, {{0, 1, 2}});
  more_ = allocate(page_ * 2);
  leave(1);
  memory_->begin(SandboxId(1));
  EXPECT_EQ(foreign(1, 0, true), page_ * 3);
  EXPECT_EQ(asked_, 1);
  memory_->end(SandboxId(1));
}

TEST_F(ShortOfMemory, FailsWhereNobodyHasAnyAndWaitsWhileThereMayBeSome) {
  add(1, 4, {{0, 1, 2}});
  add(2, 4, {{0, 1, 2}});
  leave(2);
  memory_->begin(SandboxId(1));
  auto there = await(1, 0);
  ASSERT_FALSE(there.ok());
  EXPECT_EQ(there.error().code, ErrorCode::kResourceExhausted);
  memory_->end(SandboxId(1));

  waits_ = true;
  memory_->begin(SandboxId(1));
  memory_->begin(SandboxId(2));
  await_shortage(3);
  EXPECT_FALSE(*memory_->is_there(SandboxId(1), 0));
  waits_ = false;
  memory_->room_came();
  there = await(2, 0);
  EXPECT_FALSE(there.ok()) << "neither goes on: it is the younger";
  rest_.reset();
  memory_->end(SandboxId(2));
  EXPECT_TRUE(await(1, 0).ok());
  memory_->end(SandboxId(1));
}

}  // namespace
}  // namespace lambent::executor
