// What a real lambent-executor holds of its device's memory between requests; seen by another
// process on the same emulated device, which is the test.
#include "gpu/executor/testing/function_testing.h"
#include "gpu/executor/testing/testing.h"

namespace lambent::executor {
namespace {

using protocol::Finished;

constexpr size_t kCount = 1 << 18;  // 1 MiB: a buffer has memory of its own, of 2 MiB
constexpr Bytes kBuffers = Bytes::mib(6);

class ExecutorMemoryTest : public EmulatedDevice {
 protected:
  void SetUp() override {
    EmulatedDevice::SetUp();
    if (!IsSkipped()) before_ = free_memory();
  }

  struct Executor {
    ExecutorProcess process;
    std::string package;
    uint64_t invocations = 0;

    Executor(const std::string& node, const std::vector<std::string>& words)
        : process({{"EMULATED_CUDA_NODE", node}}, words), package(process.package(affine(kCount))) {
      EXPECT_TRUE(process.expect<protocol::ExecutorHello>().has_value());
    }
    void add(uint64_t instance) {
      process.add_instance(instance, package, Bytes::mib(64));
      EXPECT_TRUE(process.expect<protocol::InstanceReady>().has_value());
    }
    void start(uint64_t instance, int value) {
      process.run(++invocations, instance, bytes_of(std::vector<int>(kCount, value)));
    }
    // The value of the next answer, which is 3x + 1 throughout.
    int answer() {
      std::vector<OwnedFd> fds;
      const auto finished = process.expect<Finished>(&fds);
      if (!finished) return -1;
      EXPECT_FALSE(finished->error.has_value()) << to_string(*finished->error);
      const auto values = ints_of(ExecutorProcess::payload_of(*finished, fds));
      EXPECT_EQ(values, std::vector<int>(kCount, values.at(0)));
      return values.at(0);
    }
    int run(uint64_t instance, int value) {
      start(instance, value);
      return answer();
    }
  };
  std::unique_ptr<Executor> executor(const std::vector<std::string>& words) const {
    return std::make_unique<Executor>(*folder_ / "node", words);
  }

  Bytes free_memory() const {
    size_t free = 0, total = 0;
    EXPECT_EQ((*driver_)->mem_get_info(&free, &total), CUDA_SUCCESS);
    return Bytes(free);
  }
  // What has gone since; contexts of executors too.
  Bytes taken() const { return before_ - free_memory(); }
  // Waits for the memory to come back; an executor does that by itself.
  bool comes_down_to(Bytes most) const {
    const SystemClock clock;
    const Instant end = clock.now() + seconds(60);
    while (taken() > most && clock.now() < end) poll(nullptr, 0, 1);
    return taken() <= most;
  }

  Bytes before_;
};

TEST_F(ExecutorMemoryTest, GoesToTheDeviceAfterTheHoldAndComesBackWithTheNextRequest) {
  const auto elastic = executor({"--pool-hold-ms", "50"});
  elastic->add(1);
  const Bytes idle = taken();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(elastic->run(1, i), 3 * i + 1);
    ASSERT_TRUE(comes_down_to(idle)) << to_string(taken() - idle) << " is still held";
  }
}

TEST_F(ExecutorMemoryTest, IsHeldUnderTheOtherRulesWhichDifferInWhenItIsTaken) {
  const auto fine = executor({"--pool-rule", "fine-grained", "--pool-hold-ms", "0"});
  const auto fixed = executor({"--pool-rule", "static", "--pool-hold-ms", "0"});
  const auto elastic = executor({"--pool-hold-ms", "0"});
  elastic->add(1);
  const Bytes idle = taken();
  fine->add(1);
  const Bytes module = taken() - idle;  // its kernels
  EXPECT_LT(module, Bytes::mib(1));
  fixed->add(1);
  const Bytes first = idle + module + module + kBuffers;
  EXPECT_EQ(taken(), first);
  fixed->add(2);
  EXPECT_EQ(taken(), first + kBuffers);
  EXPECT_EQ(fixed->run(1, 6), 19);
  EXPECT_EQ(fixed->run(2, 7), 22);
  EXPECT_EQ(taken(), first + kBuffers) << "requests take the buffers of the pool";
  EXPECT_EQ(fine->run(1, 5), 16);
  const Bytes both = first + kBuffers + kBuffers;
  EXPECT_EQ(taken(), both);
  // Until one that holds nothing has released its own, the others have had time to.
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(elastic->run(1, i), 3 * i + 1);
    ASSERT_TRUE(comes_down_to(both));
    ASSERT_EQ(taken(), both);
  }
}

TEST_F(ExecutorMemoryTest, OfABusyInstanceStaysWhileThatOfAnIdleOneGoes) {
  const auto elastic = executor({"--pool-hold-ms", "2000"});
  elastic->add(1);
  elastic->add(2);
  const Bytes idle = taken();
  EXPECT_EQ(elastic->run(1, 1), 4);
  int value = 0;
  const SystemClock clock;
  const Instant end = clock.now() + seconds(60);
  do {
    EXPECT_EQ(elastic->run(2, value), 3 * value + 1);
    ++value;
    for (int i = 0; i < 100; ++i) {  // most looks at the memory fall into this time
      ASSERT_GE(taken(), idle + kBuffers) << "after " << value << " requests";
      poll(nullptr, 0, 1);
    }
  } while (taken() > idle + kBuffers && clock.now() < end);
  EXPECT_EQ(taken(), idle + kBuffers);
  EXPECT_GT(value, 1);
  EXPECT_TRUE(comes_down_to(idle));
}

TEST_F(ExecutorMemoryTest, GoesAndComesBesideRequestsThatRun) {
  const auto elastic = executor({"--pool-hold-ms", "0"});
  for (uint64_t instance = 1; instance <= 3; ++instance) elastic->add(instance);
  const Bytes idle = taken();
  for (int round = 0; round < 20; ++round) {
    // The same input for all: they answer in any order.
    for (uint64_t instance = 1; instance <= 3; ++instance) elastic->start(instance, round);
    for (int i = 0; i < 3; ++i) ASSERT_EQ(elastic->answer(), 3 * round + 1);
  }
  EXPECT_TRUE(comes_down_to(idle));
  for (uint64_t instance = 1; instance <= 3; ++instance) EXPECT_EQ(elastic->run(instance, 9), 28);
}

TEST_F(ExecutorMemoryTest, OfConstantsStays) {
  const auto elastic = executor({"--pool-hold-ms", "0"});
  Files files = function({buffer("w", "constant", kCount, R"(, "fill": 7)"),
                          buffer("x", "in_out", kCount), buffer("y", "output", kCount)},
                         {scale("w", "y", 2, 0, kCount), increment("x", kCount)});
  const Bytes empty = taken();
  elastic->package = elastic->process.package(files);
  elastic->add(1);
  const Bytes idle = taken();
  EXPECT_GE(idle, empty + Bytes::mib(2));
  for (int i = 0; i < 3; ++i) {
    elastic->start(1, i);
    const auto finished = elastic->process.expect<Finished>();
    ASSERT_TRUE(finished && !finished->error);
    ASSERT_TRUE(comes_down_to(idle));
    ASSERT_EQ(taken(), idle);
  }
}

}  // namespace
}  // namespace lambent::executor
