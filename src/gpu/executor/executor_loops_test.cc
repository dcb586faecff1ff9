// Loops with a flag, done by the device or by the host: both give the same answers, and none has to
// wait for one that does not end.
#include <gmock/gmock.h>

#include "gpu/executor/testing/function_testing.h"

namespace lambent::executor {
namespace {

using protocol::Finished;
using testing::HasSubstr;

// A plan of faults: whose loops these are shows in what the executor asks the driver for.
std::pair<std::string, std::string> plan(const std::string& fault) {
  return {"EMULATED_CUDA_FAULTS", fault};
}
const std::string kNoConditionals =
    "fail cuGraphConditionalHandleCreate from 1 with CUDA_ERROR_NOT_SUPPORTED";
// Flags that the host reads are copied like the answers, of which there are so many.
std::pair<std::string, std::string> no_flags_but(int answers) {
  return plan("fail cuMemcpyDtoHAsync from " + std::to_string(answers + 1) +
              " with CUDA_ERROR_INVALID_VALUE");
}
const std::string kNoGraphs = "fail cuGraphLaunch from 1 with CUDA_ERROR_INVALID_VALUE";

class LoopsTest : public ExecutorTest {
 protected:
  void SetUp() override {}

  static Files with_loops(Files files) {
    add_bundle(files, LAMBENT_BINARY_DIR "/share/lambent/kernels/loops", "lambent:loops");
    return files;
  }
  static std::string set_at(int limit, const std::string& flag = "done") {
    return R"({"kernel": "set_at", "bundle": "bundles/steps", "grid": [1], "block": [1], "arguments":
         [{"buffer": "x", "access": "read"}, {"literal": )" +
           std::to_string(limit) + R"(, "datatype": "INT32"}, {"buffer": ")" + flag +
           R"(", "access": "write"}]})";
  }
  static std::string until(const std::string& flag, uint64_t times,
                           const std::vector<std::string>& steps) {
    return R"({"repeat": )" + std::to_string(times) +
           (flag.empty() ? "" : R"(, "until": ")" + flag + "\"") + R"(, "steps": [)" +
           joined(steps) + "]}";
  }
  static std::vector<std::string> buffers() {
    return {buffer("x", "in_out", 2), buffer("done", "temporary", 1)};
  }
  static Files count_to_ten() {
    return with_loops(function(buffers(), {until("done", 50, {increment("x", 2), set_at(10)})}));
  }
  void counts_to_ten(uint64_t instance = 1) {
    EXPECT_EQ(run(1, instance, {3, 0}), (std::vector<int>{10, 7}));
    EXPECT_EQ(run(2, instance, {9, 0}), (std::vector<int>{10, 1}));
    EXPECT_EQ(run(3, instance, {-1000, 0}), (std::vector<int>{-950, 50})) << "never set";
    EXPECT_EQ(run(4, instance, {20, 0}), (std::vector<int>{21, 1}));
  }
};

TEST_F(LoopsTest, TheDeviceEndsALoopWithoutTheHost) {
  start({no_flags_but(4)});
  add(1, process_->package(count_to_ten()));
  counts_to_ten();
}

TEST_F(LoopsTest, TheHostEndsALoopWhereTheDriverHasNoConditionalNodes) {
  start({plan(kNoConditionals)});
  add(1, process_->package(count_to_ten()));
  counts_to_ten();
}

TEST_F(LoopsTest, TheHostEndsALoopIfItIsToldTo) {
  start({plan("fail cuMemcpyDtoHAsync call 5 with CUDA_ERROR_INVALID_VALUE")},
        {"--no-device-loops"});
  add(1, process_->package(count_to_ten()));
  EXPECT_THAT(failure(1, 1, bytes_of({3, 0})).message, HasSubstr("cuMemcpyDtoHAsync"))
      << "of the seven looks at its flag the fifth";
  counts_to_ten();
}

TEST_F(LoopsTest, AFunctionWithAShareHasItsLoopsDoneKernelByKernel) {
  start({{"EMULATED_CUDA_CONFIG", "v100-16gb"}, plan(kNoGraphs)});
  process_->add_instance(1, process_->package(count_to_ten()), Bytes::mib(64), false, 50);
  ASSERT_TRUE(process_->expect<protocol::InstanceReady>().has_value());
  counts_to_ten();
}

TEST_F(LoopsTest, LoopsInLoopsBeginAnewInEveryRound) {
  const std::vector<std::string> all = {buffer("x", "in_out", 2), buffer("done", "temporary", 1),
                                        buffer("inner", "temporary", 1)};
  const std::string innermost = until("inner", 4, {increment("x", 2), set_at(6, "inner")});
  const std::vector<std::string> steps[] = {
      // Rounds of up to four: 1 to 4, 5 and 6, and from then on one each.
      {until("done", 100, {innermost, set_at(9)})},
      {until("", 3, {innermost}), set_at(9)},
      {increment("x", 2), until("done", 100, {until("", 3, {innermost}), set_at(9)})},
      // Too large to be one graph: the outer loop is the host's, the inner one is not.
      {until("done", 2, {until("", 300, {increment("x", 2)}), innermost, set_at(9)})}};
  const std::vector<std::vector<int>> expected = {{9, 9}, {7, 7}, {10, 10}, {301, 301}};
  // Eight answers, and the flag of the outer loop that is the host's twice.
  for (const auto& settings : {std::vector{no_flags_but(10)}, std::vector{plan(kNoConditionals)}}) {
    start(settings);
    for (uint64_t i = 0; i < std::size(steps); ++i) {
      add(i + 1, process_->package(with_loops(function(all, steps[i]))));
      EXPECT_EQ(run(1, i + 1, {0, 0}), expected[i]) << i;
      EXPECT_EQ(run(2, i + 1, {0, 0}), expected[i]) << i << ", once more";
    }
  }
}

TEST_F(LoopsTest, ALoopWaitsForTheConstantsOfItsSteps) {
  start({no_flags_but(4)});
  const size_t count = 4 << 20;
  add(1, process_->package(with_loops(function(
             {buffer("x", "in_out", 2), buffer("w", "constant", count, R"(, "fill": 5)"),
              buffer("y", "output", 2), buffer("done", "temporary", 1)},
             {until("done", 50, {increment("x", 2), scale("w", "y", 1, 0, 2), set_at(3)})}))));
  EXPECT_EQ(run(1, 1, {0, 0}), (std::vector<int>{3, 3, 5, 5}));
  EXPECT_EQ(run(2, 1, {1, 0}), (std::vector<int>{3, 2, 5, 5}));
}

TEST_F(LoopsTest, AFaultInALoopIsAnsweredAndEndsTheExecutor) {
  start({no_flags_but(2)});
  const std::string fault =
      R"({"kernel": "fault_below_zero", "bundle": "bundles/steps", "grid": [1], "block": [1],
          "arguments": [{"buffer": "x", "access": "read"}, {"buffer": "y", "access": "write"}]})";
  const std::vector<std::string> buffers = {buffer("x", "in_out", 2), buffer("y", "output", 1),
                                            buffer("done", "temporary", 1)};
  add(1, process_->package(with_loops(
             function(buffers, {until("done", 50, {increment("x", 2), fault, set_at(10)})}))));
  EXPECT_EQ(run(1, 1, {8, 0}), (std::vector<int>{10, 2, 10}));
  const Error error = failure(2, 1, bytes_of({-30, 0}));
  EXPECT_EQ(error.code, ErrorCode::kInternal);
  EXPECT_THAT(error.message, HasSubstr("fault_below_zero"));
  EXPECT_THAT(error.message, HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"));
  ASSERT_TRUE(process_->expect<protocol::Broken>().has_value());
  EXPECT_EQ(WEXITSTATUS(process_->wait_for_exit()), 1);
}

TEST_F(LoopsTest, ALoopThatWouldNotEndEndsWithItsInstanceAndLeavesTheOthersAlone) {
  // Four answers: that of the loop which is stopped is on its way before it begins.
  for (const auto& settings : {std::vector{no_flags_but(4)}, std::vector{plan(kNoConditionals)}}) {
    start(settings);
    const std::string package = process_->package(with_loops(
        function(buffers(), {until("done", 1'000'000'000, {increment("x", 2), set_at(10)})})));
    add(1, package);
    add(2, process_->package(affine(2)));
    process_->run(1, 1, bytes_of({-2'000'000'000, 0}));
    works(2);
    process_->send(protocol::RemoveInstance{SandboxId(1)});
    const auto finished = process_->expect<Finished>();
    ASSERT_TRUE(finished.has_value());
    EXPECT_EQ(finished->invocation.low, 1u);
    ASSERT_TRUE(finished->error.has_value());
    EXPECT_EQ(finished->error->code, ErrorCode::kUnavailable);
    works(2);
    add(1, package);
    EXPECT_EQ(run(2, 1, {3, 0}), (std::vector<int>{10, 7})) << "its memory is as good as new";
  }
}

}  // namespace
}  // namespace lambent::executor
