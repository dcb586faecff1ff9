#include "gpu/executor/program_run.h"

#include "gpu/executor/testing/parts_testing.h"

namespace lambent::executor {
namespace {

using Next = ProgramRun::Next;

class ProgramRunTest : public ExecutorParts {
 protected:
  // The run of a program whose buffers, each of so many numbers, lie in memory of the test's.
  void begin(const Files& files, size_t count) {
    const RequestedInstance instance = load(1, files);
    const size_t buffers = instance.loaded.graph.buffers.size();
    auto memory = cuda::DeviceBuffer::allocate(*driver_, Bytes(buffers * count * sizeof(int)));
    ASSERT_TRUE(memory.ok()) << to_string(memory.error());
    memory_.emplace(std::move(*memory));
    ASSERT_TRUE(memory_->fill(0).ok());
    ASSERT_TRUE(context_->synchronize().ok());  // the stream of the run does not wait for it
    for (size_t i = 0; i < buffers; ++i) {
      addresses_.push_back(memory_->pointer() + i * count * sizeof(int));
    }
    for (const Constant& constant : instance.loaded.constants) {
      const auto content = contents_->pin_constant(constant, user_of(instance.id));
      ASSERT_TRUE(content.ok()) << to_string(content.error());
      addresses_[constant.buffer] = content->address;
    }
    stream_ = &instance.loaded.stream();
    run_.emplace(instance.id, instance.loaded, *contents_, nullptr, [](CUresult) {});
    run_->begin(addresses_);
  }
  // How often the device has to answer until the run's end.
  int answers_to_end() {
    int answers = 0;
    auto next = run_->advance();
    for (; next.ok() && *next == Next::kDevice; next = run_->advance()) {
      ++answers;
      EXPECT_TRUE(stream_->synchronize().ok());
      run_->device_answered();
    }
    EXPECT_TRUE(next.ok() && *next == Next::kEnd);
    EXPECT_TRUE(run_->has_ended());
    EXPECT_TRUE(stream_->synchronize().ok());
    return answers;
  }

  std::optional<cuda::DeviceBuffer> memory_;
  std::vector<CUdeviceptr> addresses_;
  cuda::Stream* stream_ = nullptr;
  std::optional<ProgramRun> run_;
};

TEST_F(ProgramRunTest, AShortProgramIsQueuedAtOnce) {
  ASSERT_NO_FATAL_FAILURE(begin(affine(2), 2));
  EXPECT_FALSE(run_->has_ended());
  EXPECT_EQ(answers_to_end(), 0);
  EXPECT_EQ(on_device(addresses_[2], 2), (std::vector<int>{1, 1}));
}

TEST_F(ProgramRunTest, ALongProgramRestsUntilTheDeviceHasDoneWhatIsQueued) {
  const std::string repeat =
      R"({"repeat": 40000, "steps": [)" + increment("x", 2) + "]}";  // some 160 graphs
  ASSERT_NO_FATAL_FAILURE(begin(function({buffer("x", "in_out", 2)}, {repeat}), 2));
  EXPECT_GE(answers_to_end(), 2);
  EXPECT_EQ(on_device(addresses_[0], 2), (std::vector<int>{40000, 40000}));
}

TEST_F(ProgramRunTest, ALoopOfTheHostReadsItsFlagAfterEachRoundAndEndsWithIt) {
  const std::string set_at =
      R"({"kernel": "set_at", "bundle": "bundles/steps", "grid": [1], "block": [1], "arguments":
          [{"buffer": "x", "access": "read"}, {"literal": 5, "datatype": "INT32"},
           {"buffer": "done", "access": "write"}]})";
  const std::string loop =
      R"({"repeat": 50, "until": "done", "steps": [)" + increment("x", 2) + "," + set_at + "]}";
  ASSERT_NO_FATAL_FAILURE(
      begin(function({buffer("x", "in_out", 2), buffer("done", "temporary", 2)}, {loop}), 2));
  EXPECT_EQ(answers_to_end(), 5);
  EXPECT_EQ(on_device(addresses_[0], 2), (std::vector<int>{5, 5}));
}

TEST_F(ProgramRunTest, AKernelWaitsForAConstantUntilThatIsOnItsWay) {
  Files files =
      function({buffer("w", "constant", 2, R"(, "file": "w.bin")"), buffer("y", "output", 2)},
               {scale("w", "y", 2, 0, 2)});
  files["w.bin"] = bytes_of({21, 22});
  ASSERT_NO_FATAL_FAILURE(begin(files, 2));
  const auto next = run_->advance();
  ASSERT_TRUE(next.ok());
  EXPECT_EQ(*next, Next::kConstant);
  EXPECT_TRUE(run_->awaits_constant());
  bool is_on_its_way = false;
  on_progress_ = [&] { is_on_its_way = true; };
  ASSERT_TRUE(turn_until([&] { return is_on_its_way; }));
  EXPECT_EQ(answers_to_end(), 0);
  EXPECT_FALSE(run_->awaits_constant());
  EXPECT_EQ(on_device(addresses_[1], 2), (std::vector<int>{42, 44}));
}

TEST_F(ProgramRunTest, ARunThatWaitsForNothingAnyMoreIsNotSaidToWait) {
  Files files =
      function({buffer("w", "constant", 2, R"(, "file": "w.bin")"), buffer("y", "output", 2)},
               {scale("w", "y", 2, 0, 2)});
  files["w.bin"] = bytes_of({21, 22});
  ASSERT_NO_FATAL_FAILURE(begin(files, 2));
  ASSERT_TRUE(run_->advance().ok());
  run_->stop_waiting();
  EXPECT_FALSE(run_->awaits_constant());
  EXPECT_FALSE(run_->is_withdrawn());
  run_->withdraw();
  EXPECT_TRUE(run_->is_withdrawn());
}

}  // namespace
}  // namespace lambent::executor
