// Requests of a real lambent-executor whose temporaries have memory layer by layer; what it holds
// of the device is seen by another process on the same one, which is the test.
#include <random>

#include "gpu/executor/testing/function_testing.h"
#include "gpu/executor/testing/testing.h"

namespace lambent::executor {
namespace {

using protocol::Finished;

constexpr size_t kMib = (size_t{1} << 20) / sizeof(int);  // values in a MiB
constexpr size_t kCount = 16;                             // of inputs and outputs

// y = x by way of temporaries of so many MiB, each made of the one before, which pass on the first
// values.
Files chain(const std::vector<size_t>& mib, const std::vector<std::string>& more = {}) {
  std::vector<std::string> buffers = {buffer("x", "input", kCount), buffer("y", "output", kCount)};
  std::vector<std::string> steps;
  std::string last = "x";
  for (size_t i = 0; i < mib.size(); ++i) {
    const std::string name = "t" + std::to_string(i);
    buffers.push_back(buffer(name, "temporary", mib[i] * kMib));
    steps.push_back(scale(last, name, 1, 0, kCount));
    last = name;
  }
  steps.insert(steps.end(), more.begin(), more.end());
  steps.push_back(scale(last, "y", 1, 0, kCount));
  return function(buffers, steps);
}

class ExecutorLayersTest : public EmulatedDevice {
 protected:
  void SetUp() override {
    EmulatedDevice::SetUp();
    if (!IsSkipped()) before_ = free_memory();
  }

  struct Executor {
    ExecutorProcess process;
    uint64_t invocations = 0;

    explicit Executor(const std::string& node, std::vector<std::string> words)
        : process({{"EMULATED_CUDA_NODE", node}}, words) {
      EXPECT_TRUE(process.expect<protocol::ExecutorHello>().has_value());
    }
    void add(uint64_t instance, const std::string& package, Bytes memory = Bytes::mib(256)) {
      process.add_instance(instance, package, memory);
      EXPECT_TRUE(process.expect<protocol::InstanceReady>().has_value());
    }
    uint64_t start(uint64_t instance, int value) {
      process.run(++invocations, instance, bytes_of(std::vector<int>(kCount, value)));
      return invocations;
    }
    // Of whichever ends next.
    std::optional<Finished> answer(std::vector<int>* values) {
      std::vector<OwnedFd> fds;
      auto finished = process.expect<Finished>(&fds);
      if (finished && !finished->error) {
        *values = ints_of(ExecutorProcess::payload_of(*finished, fds));
      }
      return finished;
    }
    Finished run(uint64_t instance, int value) {
      start(instance, value);
      std::vector<int> values;
      const auto finished = answer(&values);
      if (!finished) return {};
      EXPECT_FALSE(finished->error.has_value()) << to_string(*finished->error);
      EXPECT_EQ(values, std::vector<int>(kCount, value));
      return *finished;
    }
  };
  std::unique_ptr<Executor> executor(std::vector<std::string> words = {}) const {
    words.insert(words.end(), {"--pool-hold-ms", "0"});
    if (words.front() != "--pool-rule") words.insert(words.end(), {"--pool-rule", "layered"});
    return std::make_unique<Executor>(*folder_ / "node", std::move(words));
  }

  Bytes free_memory() const {
    size_t free = 0, total = 0;
    EXPECT_EQ((*driver_)->mem_get_info(&free, &total), CUDA_SUCCESS);
    return Bytes(free);
  }
  Bytes taken() const { return before_ - free_memory(); }
  // Waits until what others have taken lies in these bounds; that needs nothing from here.
  bool comes_to(Bytes least, Bytes most) const {
    const SystemClock clock;
    const Instant end = clock.now() + seconds(60);
    const auto is_there = [&] { return taken() >= least && taken() <= most; };
    while (!is_there() && clock.now() < end) poll(nullptr, 0, 1);
    return is_there();
  }

  Bytes before_;
};

TEST_F(ExecutorLayersTest, AnswersAreRightAndMemoryGoesWithTheRequest) {
  const auto layered = executor();
  const std::string package = layered->process.package(chain({64, 32, 16, 8, 4, 2, 16, 64}));
  layered->add(1, package);
  ASSERT_TRUE(comes_to(Bytes(0), Bytes::mib(20))) << "what was measured has gone";
  const Bytes idle = taken();
  for (int i = 0; i < 3; ++i) {
    const Finished finished = layered->run(1, i);
    EXPECT_GE(finished.device_memory_peak, Bytes::mib(96)) << "two layers";
    EXPECT_LE(finished.device_memory_peak, Bytes::mib(100));
    EXPECT_GT(finished.copy_out_time, Duration(0)) << "the loop answers, which takes layers away";
    EXPECT_LE(finished.device_memory, Bytes::mib(2)) << "inputs and outputs stay for a while";
    ASSERT_TRUE(comes_to(Bytes(0), idle));
  }
}

// A loop that never ends by itself keeps the request in its last layer.
TEST_F(ExecutorLayersTest, ARunningRequestHasTheMemoryOfItsLayerAlone) {
  const auto layered = executor();
  layered->add(1, layered->process.package(chain({2, 2})));
  ASSERT_TRUE(comes_to(Bytes(0), Bytes::mib(20)));
  const Bytes idle = taken();
  const std::string rounds = R"({"repeat": 100000000, "steps": [)" + increment("t4", kCount) + "]}";
  layered->add(2, layered->process.package(chain({64, 64, 32, 2, 2}, {rounds})));
  layered->start(2, 5);
  EXPECT_TRUE(comes_to(idle + Bytes::mib(1), idle + Bytes::mib(8)))
      << "the loop's layer has " << to_string(taken() - idle);
  // Others run meanwhile.
  layered->run(1, 3);
  layered->process.send(protocol::RemoveInstance{SandboxId(2)});
}

TEST_F(ExecutorLayersTest, TheSecondRuleKeepsWhatItHasHad) {
  const auto kept = executor({"--pool-rule", "layered-fine-grained", "--pool-interval-ms", "1"});
  kept->add(1, kept->process.package(chain({32, 16, 8, 4})));
  const Bytes idle = taken();
  kept->run(1, 1);
  const Bytes full = taken();
  EXPECT_GE(full, idle + Bytes::mib(48));
  for (int i = 0; i < 5; ++i) kept->run(1, i);
  EXPECT_EQ(taken(), full);
  kept->process.send(protocol::RemoveInstance{SandboxId(1)});
  EXPECT_TRUE(comes_to(Bytes(0), idle + Bytes::mib(2))) << "but for inputs and outputs";
}

// More of a temporary is read than was written: there is what the function itself left, or zeros.
TEST_F(ExecutorLayersTest, NobodySeesWhatOthersLeft) {
  const auto layered = executor({"--pool-rule", "layered-fine-grained"});
  const std::string looks = layered->process.package(function(
      {buffer("x", "input", kCount), buffer("t", "temporary", 16 * kMib),
       buffer("u", "temporary", 2 * kMib), buffer("v", "temporary", 2 * kMib),
       buffer("y", "output", 2 * kCount)},
      {scale("x", "t", 1, 0, kCount), scale("t", "y", 1, 0, 2 * kCount), increment("t", 16 * kMib),
       scale("t", "u", 1, 0, kCount), scale("u", "v", 1, 0, kCount)}));
  std::vector<int> expected(2 * kCount, 0);
  std::fill_n(expected.begin(), kCount, 5);
  const auto run = [&](uint64_t instance) {
    std::vector<int> values;
    layered->start(instance, 5);
    ASSERT_TRUE(layered->answer(&values).has_value());
    EXPECT_EQ(values, expected) << "of instance " << instance;
  };
  layered->add(1, looks);
  layered->add(2, looks);
  run(1);
  // The other has to do with what the first has given back.
  auto rest = cuda::DeviceBuffer::allocate(*driver_, free_memory() - Bytes::mib(6));
  ASSERT_TRUE(rest.ok());
  run(2);
}

TEST_F(ExecutorLayersTest, AFunctionThatFindsNoMemoryFailsAndOthersGoOn) {
  const auto layered = executor();
  layered->add(1, layered->process.package(chain({64, 32, 16, 8})));
  layered->run(1, 1);
  ASSERT_TRUE(comes_to(Bytes(0), Bytes::mib(20)));
  const Bytes left = free_memory();
  auto rest = cuda::DeviceBuffer::allocate(*driver_, left - Bytes::mib(8));
  ASSERT_TRUE(rest.ok());
  layered->start(1, 2);
  std::vector<int> values;
  const auto finished = layered->answer(&values);
  ASSERT_TRUE(finished && finished->error);
  EXPECT_EQ(finished->error->code, ErrorCode::kResourceExhausted);
  { const auto gone = std::move(rest); }
  layered->run(1, 3);
}

// As where the default pool finds none.
TEST_F(ExecutorLayersTest, ConstantsThatNobodyUsesGoForALayer) {
  const auto layered = executor({"--pool-interval-ms", "1"});
  layered->add(1, layered->process.package(chain({16, 8, 4, 2})));
  layered->add(2, layered->process.package(
                      function({buffer("x", "input", kCount), buffer("y", "output", kCount),
                                buffer("w", "constant", 32 * kMib, R"(, "fill": 5)"),
                                buffer("z", "temporary", kCount)},
                               {scale("w", "z", 1, 0, kCount), scale("x", "y", 1, 0, kCount)})));
  layered->run(1, 1);
  layered->run(2, 1);
  ASSERT_TRUE(comes_to(Bytes::mib(32), Bytes::mib(52))) << "pages have gone, constants not";
  auto rest = cuda::DeviceBuffer::allocate(*driver_, free_memory() - Bytes::mib(8));
  ASSERT_TRUE(rest.ok());
  layered->run(1, 2);
  { const auto gone = std::move(rest); }
  layered->run(2, 2);
}

TEST_F(ExecutorLayersTest, FreePagesGoForTheBuffersOfOthers) {
  const auto layered = executor({"--pool-rule", "layered-fine-grained"});
  const size_t count = 2 * kMib;  // three such buffers
  layered->add(1, layered->process.package(chain({32, 16, 8})));
  layered->add(2, layered->process.package(affine(count)));
  layered->run(1, 1);
  auto rest = cuda::DeviceBuffer::allocate(*driver_, free_memory() - Bytes::mib(2));
  ASSERT_TRUE(rest.ok());
  layered->process.run(++layered->invocations, 2, bytes_of(std::vector<int>(count, 5)));
  std::vector<int> values;
  const auto finished = layered->answer(&values);
  ASSERT_TRUE(finished.has_value());
  EXPECT_FALSE(finished->error.has_value()) << to_string(*finished->error);
  EXPECT_EQ(values, std::vector<int>(count, 16));
}

// Where the driver unmaps only what nothing runs beside, the loop that is to be stopped runs.
TEST_F(ExecutorLayersTest, ALoopCanBeStoppedWhileALayerWaitsForMemory) {
  const auto layered = executor({"--pool-interval-ms", "1"});
  layered->add(1, layered->process.package(chain({16, 8, 4, 2})));
  const std::string set_at =
      R"({"kernel": "set_at", "bundle": "bundles/steps", "grid": [1], "block": [1], "arguments":
         [{"buffer": "x", "access": "read"}, {"literal": 10, "datatype": "INT32"},
          {"buffer": "done", "access": "write"}]})";
  Files endless = function({buffer("x", "in_out", kCount), buffer("done", "temporary", 1)},
                           {R"({"repeat": 1000000000, "until": "done", "steps": [)" +
                            increment("x", kCount) + "," + set_at + "]}"});
  add_bundle(endless, LAMBENT_BINARY_DIR "/share/lambent/kernels/loops", "lambent:loops");
  layered->add(2, layered->process.package(endless));
  layered->add(3, layered->process.package(
                      function({buffer("x", "input", kCount), buffer("y", "output", kCount),
                                buffer("w", "constant", 32 * kMib, R"(, "fill": 5)"),
                                buffer("z", "temporary", kCount)},
                               {scale("w", "z", 1, 0, kCount), scale("x", "y", 1, 0, kCount)})));
  layered->run(1, 1);
  layered->run(3, 1);
  ASSERT_TRUE(comes_to(Bytes::mib(32), Bytes::mib(52)));
  const uint64_t loop = layered->start(2, -2'000'000'000);
  auto rest = cuda::DeviceBuffer::allocate(*driver_, free_memory() - Bytes::mib(8));
  ASSERT_TRUE(rest.ok());
  const uint64_t short_of = layered->start(1, 2);
  layered->process.send(protocol::RemoveInstance{SandboxId(2)});
  for (int i = 0; i < 2; ++i) {
    std::vector<int> values;
    const auto finished = layered->answer(&values);
    ASSERT_TRUE(finished.has_value());
    EXPECT_EQ(finished->error.has_value(), finished->invocation.low == loop);
    if (finished->invocation.low == short_of) {
      EXPECT_EQ(values, std::vector<int>(kCount, 2));
    }
  }
}

TEST_F(ExecutorLayersTest, InstancesComeAndGoAndEveryAnswerIsRight) {
  const auto layered = executor({"--pool-interval-ms", "1"});
  const std::vector<std::string> packages = {layered->process.package(chain({32, 16, 8, 4, 2, 16})),
                                             layered->process.package(chain({2, 24, 2, 24, 2})),
                                             layered->process.package(chain({12, 2, 2, 12, 2})),
                                             layered->process.package(chain({1}))};
  std::mt19937 random(23);
  struct Instance {
    bool is_in = true, runs = false;
    int value = 0;
  };
  std::map<uint64_t, Instance> instances;
  std::map<uint64_t, uint64_t> running;
  uint64_t next = 0;
  const auto settle = [&] {
    std::vector<int> values;
    std::optional<Finished> finished;
    do {  // what was removed may have been answered before
      finished = layered->answer(&values);
      ASSERT_TRUE(finished.has_value());
    } while (!running.contains(finished->invocation.low));
    ASSERT_FALSE(finished->error.has_value()) << to_string(*finished->error);
    Instance& instance = instances.at(running[finished->invocation.low]);
    running.erase(finished->invocation.low);
    ASSERT_EQ(values, std::vector<int>(kCount, instance.value));
    instance.runs = false;
  };
  for (int step = 0; step < 200 && !HasFatalFailure(); ++step) {
    auto at = instances.begin();
    if (!instances.empty()) std::advance(at, random() % instances.size());
    const unsigned what = random() % 10;
    if (instances.size() < 2 || (what == 0 && instances.size() < 5)) {
      layered->add(++next, packages[random() % packages.size()], Bytes::mib(100));
      instances[next] = {};
    } else if (what == 1) {  // also while it runs
      layered->process.send(protocol::RemoveInstance{SandboxId(at->first)});
      std::erase_if(running, [&](const auto& each) { return each.second == at->first; });
      instances.erase(at);
    } else if (what == 2 && !at->second.runs) {
      const bool out = at->second.is_in;
      layered->process.send(protocol::MoveInstance{SandboxId(at->first), out});
      const auto moved = layered->process.expect<protocol::InstanceMoved>();
      ASSERT_TRUE(moved && moved->done);
      at->second.is_in = !out;
    } else if (at->second.is_in && !at->second.runs) {
      at->second.runs = true;
      at->second.value = static_cast<int>(random() % 1000);
      running[layered->start(at->first, at->second.value)] = at->first;
    } else if (!running.empty()) {
      settle();
    }
  }
  while (!running.empty() && !HasFatalFailure()) settle();
}

}  // namespace
}  // namespace lambent::executor
