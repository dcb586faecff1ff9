// Shares of the multiprocessors on an emulated V100, whose modelled kernels take as much longer as
// they have fewer.
#include <gmock/gmock.h>

#include "gpu/executor/testing/function_testing.h"

namespace lambent::executor {
namespace {

using protocol::Finished;

// On the whole device; long beside what a busy machine adds.
constexpr Duration kKernel = milliseconds(100);

class SharesTest : public ExecutorTest {
 protected:
  void SetUp() override { start({{"EMULATED_CUDA_CONFIG", "v100-16gb"}}); }

  // A kernel that fills the device.
  std::string occupying() {
    Files files;
    add_bundle(files, LAMBENT_BINARY_DIR "/share/lambent/kernels/occupy", "bundles/occupy");
    files["graph.json"] = R"({"buffers": [], "steps": [{"kernel": "occupy",
      "bundle": "bundles/occupy", "grid": [100000], "block": [256], "arguments": [
      {"literal": )" + std::to_string(kKernel.count()) +
                          R"(, "datatype": "UINT64"}]}]})";
    return process_->package(files);
  }
  void add_with_share(uint64_t instance, const std::string& package, uint32_t share) {
    process_->add_instance(instance, package, Bytes::mib(1), true, share);
    EXPECT_TRUE(process_->expect<protocol::InstanceReady>().has_value());
  }
  Duration run_time(uint64_t instance) {
    process_->run(++invocations_, instance, "");
    const auto finished = process_->expect<Finished>();
    if (!finished) return {};
    EXPECT_FALSE(finished->error.has_value()) << to_string(*finished->error);
    return finished->run_time;
  }
  // Until a request has run in less: a busy machine only makes them longer.
  bool runs_in_less_than(uint64_t instance, Duration time) {
    for (int i = 0; i < 50; ++i) {
      if (run_time(instance) < time) return true;
    }
    return false;
  }

  uint64_t invocations_ = 0;
};

TEST_F(SharesTest, AFunctionKeepsToItsShareFromItsFirstRequestOn) {
  const std::string package = occupying();
  add_with_share(1, package, 25);
  EXPECT_GE(run_time(1), kKernel * 7 / 2);
  add_with_share(2, package, 100);
  EXPECT_TRUE(runs_in_less_than(2, kKernel * 3));
}

TEST_F(SharesTest, AShareIsChangedBetweenRequestsWithoutARestart) {
  add_with_share(1, occupying(), 100);
  EXPECT_TRUE(runs_in_less_than(1, kKernel * 3));
  process_->send(protocol::SetShare{SandboxId(1), 10});
  // Made on another thread; requests go on meanwhile.
  bool is_slower = false;
  for (int i = 0; i < 50 && !is_slower; ++i) is_slower = run_time(1) >= kKernel * 9;
  EXPECT_TRUE(is_slower);
  process_->send(protocol::SetShare{SandboxId(1), 50});
  EXPECT_TRUE(runs_in_less_than(1, kKernel * 8));
  EXPECT_GE(run_time(1), kKernel * 3 / 2);
  process_->send(protocol::SetShare{SandboxId(1), 100});
  EXPECT_TRUE(runs_in_less_than(1, kKernel * 2));
}

TEST_F(SharesTest, DataGoesWithTheFunctionWhenItsShareChanges) {
  add(1, process_->package(affine(2)));
  process_->send(protocol::SetShare{SandboxId(99), 10});  // no function's
  for (const uint32_t share : {10, 30, 1, 100, 60}) {
    works(1);
    process_->send(protocol::SetShare{SandboxId(1), share});
    process_->run(998, 1, bytes_of({1, 2}));
    EXPECT_EQ(answer(), (std::vector<int>{4, 7}));
  }
  process_->send(protocol::SetShare{SandboxId(1), 20});
  process_->send(protocol::RemoveInstance{SandboxId(1)});
  add(2, process_->package(affine(2)));
  works(2);
}

TEST_F(SharesTest, WhereTheDeviceCannotBeSplitAShareIsNotApplied) {
  start({{"EMULATED_CUDA_CONFIG", "tiny"}});  // one group of eight
  process_->add_instance(1, process_->package(affine(2)), Bytes::mib(64), false, 10);
  EXPECT_TRUE(process_->expect<protocol::InstanceReady>().has_value());
  works(1);
}

}  // namespace
}  // namespace lambent::executor
