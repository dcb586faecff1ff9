#include "edge/inference/run_queue.h"

#include <gmock/gmock.h>

#include <semaphore>

#include "core/base/testing/testing.h"
#include "edge/inference/batch.h"

namespace lambent::inference {
namespace {

using testing::ElementsAre;

// Gives back what it gets, one run for each permit; refuses a content with '!'.
class Echo final : public ModelEngine {
 public:
  const ModelDescription& description() const override { return description_; }
  Result<std::vector<Tensor>> run(std::span<const Tensor> inputs,
                                  std::span<const std::string> outputs) override {
    permits.acquire();
    sizes.push_back(inputs[0].shape.front());
    if (inputs[0].content.find('!') != std::string_view::npos) {
      return Error{ErrorCode::kInvalidArgument, "no '!'"};
    }
    std::vector<Tensor> made(1);
    made[0].name = outputs[0];
    made[0].type = inputs[0].type;
    made[0].shape = makes_batches ? inputs[0].shape : Shape{1, 1};
    made[0].own(std::string(makes_batches ? inputs[0].content : "s"));
    return made;
  }

  std::counting_semaphore<> permits{0};
  std::vector<int64_t> sizes;  // of runs; read when none goes on
  bool makes_batches = true;

 private:
  const ModelDescription description_{.platform = "echo",
                                      .inputs = {{"x", DataType::kInt8, {-1, -1}}},
                                      .outputs = {{"y", DataType::kInt8, {-1, -1}}}};
};

class RunQueueTest : public testing::Test {
 protected:
  ~RunQueueTest() override {
    engine.permits.release(2000);
    queue.reset();
  }

  void make(batching::BatchLimits limits) {
    queue = std::make_unique<RunQueue>(engine, loop, limits);
  }
  // A request of one row.
  std::shared_ptr<QueuedRun> submit(const std::string& row) {
    auto run = std::make_shared<QueuedRun>();
    run->request.inputs.resize(1);
    Tensor& input = run->request.inputs[0];
    input.name = "x";
    input.type = DataType::kInt8;
    input.shape = {1, static_cast<int64_t>(row.size())};
    input.own(row);
    run->request.outputs = {{"y"}};
    run->done = [this] { ++done; };
    was_taken = queue->submit(run);
    return run;
  }
  void wait_for(size_t count) {
    for (int i = 0; i < 5000 && done < count; ++i) loop.run_once(milliseconds(1));
    ASSERT_EQ(done, count);
  }
  static std::string output_of(const QueuedRun& run) {
    return run.outputs.ok() ? std::string((*run.outputs)[0].content) : run.outputs.error().message;
  }

  FakeClock clock;
  loop::EventLoop loop{clock};
  Echo engine;
  std::unique_ptr<RunQueue> queue;
  size_t done = 0;
  bool was_taken = false;
};

TEST_F(RunQueueTest, WhatCameDuringARunIsTheNextBatch) {
  make({.most_elements = 8});
  const auto first = submit("aa");
  const auto second = submit("bb"), other = submit("c"), third = submit("dd");
  engine.permits.release(3);
  wait_for(4);
  EXPECT_THAT(engine.sizes, ElementsAre(1, 2, 1)) << "the one of another shape by itself";
  EXPECT_EQ(output_of(*first), "aa");
  EXPECT_EQ(output_of(*second), "bb");
  EXPECT_EQ(output_of(*third), "dd");
  EXPECT_EQ(output_of(*other), "c");
  EXPECT_EQ(queue->counts().executions, 3u);
  EXPECT_EQ(queue->counts().batches.at(2).count, 1u);
}

TEST_F(RunQueueTest, WithoutBatchesEachRunsByItselfInOrder) {
  make({});
  for (const char* row : {"a", "b", "c"}) submit(row);
  engine.permits.release(3);
  wait_for(3);
  EXPECT_THAT(engine.sizes, ElementsAre(1, 1, 1));
  EXPECT_EQ(queue->counts().executions, 3u);
}

TEST_F(RunQueueTest, ARequestThatTheModelRefusesFailsAlone) {
  make({.most_elements = 8});
  submit("x");
  const auto good = submit("a"), bad = submit("!"), fine = submit("b");
  engine.permits.release(5);
  wait_for(4);
  EXPECT_EQ(output_of(*good), "a");
  EXPECT_EQ(output_of(*bad), "no '!'");
  EXPECT_EQ(output_of(*fine), "b");
  EXPECT_THAT(engine.sizes, ElementsAre(1, 3, 1, 1, 1));
}

TEST_F(RunQueueTest, AModelWhoseOutputsAreNoBatchesGetsNoMore) {
  engine.makes_batches = false;
  make({.most_elements = 8});
  submit("x");
  const auto a = submit("a"), b = submit("b");
  engine.permits.release(4);
  wait_for(3);
  EXPECT_EQ(output_of(*a), "s");
  EXPECT_EQ(output_of(*b), "s");
  for (const char* row : {"c", "d", "e"}) submit(row);
  engine.permits.release(3);
  wait_for(6);
  EXPECT_THAT(engine.sizes, ElementsAre(1, 2, 1, 1, 1, 1, 1));
}

TEST_F(RunQueueTest, AnIdleModelWaitsForOthersUntilItsTime) {
  make({.most_elements = 3, .most_wait = milliseconds(5)});
  engine.permits.release(10);
  submit("a");
  submit("b");
  loop.run_once(Duration::zero());
  EXPECT_EQ(done, 0u);
  clock.advance(milliseconds(5));
  wait_for(2);
  for (const char* row : {"c", "d", "e"}) submit(row);
  wait_for(5);
  EXPECT_THAT(engine.sizes, ElementsAre(2, 3)) << "a full batch waits for nothing";
}

TEST_F(RunQueueTest, MoreThanMayWaitAreRefused) {
  make({.most_elements = 2});
  submit("x");
  for (size_t i = 0; i < RunQueue::kMostWaiting; ++i) {
    submit("a");
    ASSERT_TRUE(was_taken);
  }
  submit("b");
  EXPECT_FALSE(was_taken);
}

}  // namespace
}  // namespace lambent::inference
