// Instances of a real lambent-executor: how many there may be, what they may hold of the device,
// and how they move out, come back and go.
#include <gmock/gmock.h>

#include <random>
#include <set>

#include "gpu/executor/limits.h"
#include "gpu/executor/testing/function_testing.h"

namespace lambent::executor {
namespace {

using protocol::Finished;
using protocol::InstanceFailed;
using protocol::InstanceMoved;
using protocol::InstanceReady;

TEST_F(ExecutorTest, ADeviceWithoutRoomIsAnErrorAndTheExecutorLivesOn) {
  // The device has 1 GiB; dispatch would not promise more, but others may hold some of it.
  const size_t count = 200 << 20;
  Files large = function({buffer("x", "in_out", 2), buffer("t", "temporary", count)},
                         {scale("x", "t", 1, 0, 2), scale("t", "x", 1, 1, 2)});
  const std::string package = process_->package(large);
  add(1, process_->package(affine(2)));
  add(2, package, Bytes::gib(1));
  add(3, package, Bytes::gib(1));
  EXPECT_EQ(run(1, 2, {1, 2}), (std::vector<int>{2, 3}));
  // The limit would allow both at once, the device does not: the first, idle, goes.
  EXPECT_EQ(run(2, 3, {3, 4}), (std::vector<int>{4, 5}));
  Files too_large =
      function({buffer("x", "in_out", 2), buffer("t", "temporary", size_t{300} << 20)},
               {scale("x", "t", 1, 0, 2), scale("t", "x", 1, 1, 2)});
  add(4, process_->package(too_large), Bytes::gib(2));
  EXPECT_EQ(failure(3, 4, bytes_of({1, 2})).code, ErrorCode::kResourceExhausted);
  works(1);
}

TEST_F(ExecutorTest, ThereAreNoMoreInstancesThanTheLimit) {
  const std::string package = process_->package(affine(2));
  for (uint64_t instance = 1; instance <= limits::kExecutorInstances; ++instance) {
    process_->add_instance(instance, package, Bytes::kib(4));
    ASSERT_TRUE(process_->expect<InstanceReady>().has_value());
  }
  process_->add_instance(5000, package, Bytes::kib(4));
  const auto failed = process_->expect<InstanceFailed>();
  ASSERT_TRUE(failed.has_value());
  EXPECT_EQ(failed->error.code, ErrorCode::kResourceExhausted);
  process_->send(protocol::RemoveInstance{SandboxId(1)});
  add(5001, package, Bytes::kib(4));
  works(5001);
}

TEST_F(ExecutorTest, AnInstanceMovesOutAndInAgain) {
  Files files = function(
      {buffer("w", "constant", 1'000'000, R"(, "file": "w.bin")"), buffer("y", "output", 2)},
      {scale("w", "y", 1, 1, 2)});
  files["w.bin"] = bytes_of(std::vector<int>(1'000'000, 8));
  add(1, process_->package(files), Bytes::mib(4));
  EXPECT_EQ(run(1, 1, {}), (std::vector<int>{9, 9}));
  process_->send(protocol::MoveInstance{SandboxId(1), true});
  auto moved = process_->expect<InstanceMoved>();
  ASSERT_TRUE(moved.has_value());
  EXPECT_TRUE(moved->out);
  EXPECT_TRUE(moved->done);
  EXPECT_EQ(moved->left, Bytes(0));
  EXPECT_GE(moved->moved, Bytes(4'000'000));
  EXPECT_EQ(failure(2, 1, "").code, ErrorCode::kFailedPrecondition);
  process_->send(protocol::MoveInstance{SandboxId(1), false});
  moved = process_->expect<InstanceMoved>();
  ASSERT_TRUE(moved.has_value());
  EXPECT_FALSE(moved->out);
  EXPECT_TRUE(moved->done);
  EXPECT_EQ(moved->moved, Bytes(4'000'000));
  EXPECT_EQ(run(3, 1, {}), (std::vector<int>{9, 9}));
}

// A loop that never ends by itself; ends with its instance.
const std::string kHold =
    R"({"repeat": 100000000, "until": "done", "steps": [{"kernel": "set_at", "bundle":
        "bundles/steps", "grid": [1], "block": [1], "arguments": [{"buffer": "n", "access": "read"},
        {"literal": 10, "datatype": "INT32"}, {"buffer": "done", "access": "write"}]}]})";

TEST_F(ExecutorTest, ARequestTakesNoMoreThanItsInstanceWhileItRuns) {
  const size_t count = 1 << 20;  // 4 MiB: whole units of the pool
  const TensorType type{DataType::kInt32, {count}};
  const std::string content = bytes_of(std::vector<int>(count, 0));
  const Bytes share = Bytes::mib(4) + Bytes::kib(8);
  const std::string maker = process_->package(function(
      {buffer("x", "input", 2), buffer("y", "output", count)}, {scale("x", "y", 1, 0, 2)}));
  // One copies the object to a place of its own, as it changes it; the other might, as many of its
  // kernels use it.
  const std::vector<std::string> few = {buffer("n", "temporary", 1), buffer("done", "temporary", 1),
                                        buffer("z", "output", 2)};
  std::vector<std::string> changes = few, uses = few;
  changes.push_back(buffer("x", "in_out", count));
  uses.push_back(buffer("x", "input", count));
  std::vector<std::string> many(9, scale("x", "z", 1, 0, 2));
  many.push_back(scale("x", "n", 0, 0, 1));
  many.push_back(kHold);
  add(1, maker, share);
  uint64_t instance = 1;
  for (const std::string& package :
       {process_->package(function(changes, {increment("x", 2), scale("x", "z", 1, 0, 2),
                                             scale("x", "n", 0, 0, 1), kHold})),
        process_->package(function(uses, many))}) {
    process_->run(instance * 10, 1,
                  R"({"inputs": [{"name": "x", "data": [1, 2]}],
                      "outputs": [{"name": "y", "parameters": {"object": true}}]})",
                  "application/json");
    auto made = process_->expect<Finished>();
    ASSERT_TRUE(made.has_value());
    ASSERT_EQ(made->objects.size(), 1u);
    add(++instance, package, share);
    process_->run(instance * 10 + 1, instance,
                  R"({"inputs": [{"name": "x", "parameters": {"object": ")" +
                      to_string(made->objects[0].object) + R"("}}], "outputs": [{"name": "z"}]})",
                  "application/json");
    if (instance == 2) process_->give_object(type, content);
    // While that holds what it has, the first instance has all of its own.
    process_->run(instance * 10 + 2, 1,
                  R"({"inputs": [{"name": "x", "data": [1, 2]}],
                      "outputs": [{"name": "y", "parameters": {"object": true}}]})",
                  "application/json");
    made = process_->expect<Finished>();
    ASSERT_TRUE(made.has_value());
    EXPECT_EQ(made->invocation.low, instance * 10 + 2);
    EXPECT_FALSE(made->error.has_value()) << to_string(*made->error);
    process_->send(protocol::RemoveInstance{SandboxId(instance)});
    made = process_->expect<Finished>();
    ASSERT_TRUE(made.has_value());
    EXPECT_EQ(made->error->code, ErrorCode::kUnavailable) << "it was held until now";
  }
}

TEST_F(ExecutorTest, AnOutputIsNotCopiedOnTheDeviceWhereTheInstanceHasNoRoomForBoth) {
  const size_t count = 1 << 20;
  const auto make = [&](uint64_t instance) {
    process_->run(instance, instance,
                  R"({"inputs": [{"name": "x", "data": [1, 2]}],
                      "outputs": [{"name": "y", "parameters": {"object": true}}]})",
                  "application/json");
    const auto made = process_->expect<Finished>();
    return made && !made->error ? made->device_memory_peak : Bytes(0);
  };
  const std::string package =
      process_->package(function({buffer("x", "input", 2), buffer("y", "output", count)},
                                 std::vector<std::string>(9, scale("x", "y", 1, 0, 2))));
  add(1, package, Bytes::mib(4) + Bytes::kib(8));
  add(2, package, Bytes::mib(16));
  EXPECT_EQ(make(1), Bytes::mib(4) + Bytes(512));
  EXPECT_EQ(make(2), Bytes::mib(8) + Bytes(512));
}

TEST_F(ExecutorTest, InstancesWithTheSameConstantsShareTheirFiles) {
  constexpr size_t kConstants = 40;
  std::vector<std::string> buffers = {buffer("y", "output", 2)}, steps;
  Files files = function({}, {});
  for (size_t i = 0; i < kConstants; ++i) {
    const std::string name = "c" + std::to_string(i);
    buffers.push_back(buffer(name, "constant", 2, R"(, "file": ")" + name + R"(.bin")"));
    steps.push_back(scale(name, "y", 2, 0, 2));
    files[name + ".bin"] = bytes_of({static_cast<int>(i), 1});
  }
  files["graph.json"] = function(buffers, steps)["graph.json"];
  const std::string package = process_->package(files);
  add(1, package);
  const size_t before = process_->open_files();
  add(2, package);
  EXPECT_LT(process_->open_files(), before + kConstants / 2);
  process_->send(protocol::RemoveInstance{SandboxId(1)});
  EXPECT_EQ(run(1, 2, {}), (std::vector<int>{78, 2}));
  process_->send(protocol::RemoveInstance{SandboxId(2)});
  add(3, package);
  EXPECT_EQ(run(2, 3, {}), (std::vector<int>{78, 2}));
}

// With a function whose constant is read no more when its memory is brought back.
class CutConstant : public ExecutorTest {
 protected:
  void move_in_again() {
    const size_t count = 2'000'000;  // several blocks
    Files files =
        function({buffer("w", "constant", count, R"(, "file": "w.bin")"), buffer("y", "output", 2)},
                 {scale("w", "y", 1, 1, 2)});
    files["w.bin"] = bytes_of(std::vector<int>(count, 8));
    const std::string package = process_->package(files);
    add(1, package, Bytes::mib(16));
    add(2, process_->package(affine(2)), Bytes::mib(1));
    process_->send(protocol::MoveInstance{SandboxId(1), true});
    ASSERT_TRUE(process_->expect<InstanceMoved>().has_value());
    std::filesystem::resize_file(package + "/w.bin", 3 << 20);
    process_->send(protocol::MoveInstance{SandboxId(1), false});
    moved_ = process_->expect<InstanceMoved>();
    ASSERT_TRUE(moved_.has_value());
  }
  std::optional<InstanceMoved> moved_;
};

TEST_F(CutConstant, FailsTheMoveInWhereInstancesWaitForTheirConstants) {
  start({}, {"--no-pipelining"});
  move_in_again();
  EXPECT_FALSE(moved_->done);
  works(2);
  process_->send(protocol::RemoveInstance{SandboxId(1)});
  works(2);
}

TEST_F(CutConstant, FailsTheRequestsThatNeedItAndNoOthers) {
  move_in_again();
  EXPECT_TRUE(moved_->done);
  for (uint64_t i = 1; i <= 3; ++i) EXPECT_EQ(failure(i, 1, "").code, ErrorCode::kDataLoss);
  works(2);
  process_->send(protocol::MoveInstance{SandboxId(1), true});
  EXPECT_TRUE(process_->expect<InstanceMoved>()->done);
  process_->send(protocol::MoveInstance{SandboxId(1), false});
  EXPECT_TRUE(process_->expect<InstanceMoved>()->done);
  process_->send(protocol::RemoveInstance{SandboxId(1)});
  works(2);
}

class RandomInstances : public ExecutorTest, public testing::WithParamInterface<std::string> {};

TEST_P(RandomInstances, ComeAndGoAndEveryAnswerIsRight) {
  if (!GetParam().empty()) start({}, {GetParam()});
  const unsigned seed = 4711;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const size_t count = 70'000;  // its buffers take much of what a few instances may have
  Files files = function({buffer("w", "constant", count, R"(, "file": "w.bin")"),
                          buffer("x", "input", count), buffer("y", "output", count)},
                         {scale("w", "y", 2, 0, count), scale("x", "y", 3, 1, count)});
  files["w.bin"] = bytes_of(std::vector<int>(count, 5));
  const std::string shared = process_->package(files), other = process_->package(affine(2));
  struct Model {
    bool is_large = false, is_in = true, runs = false;
    int value = 0;
  };
  std::map<uint64_t, Model> instances;
  std::map<uint64_t, uint64_t> running;  // instance by invocation
  std::set<uint64_t> forgotten;  // whose instance was removed; may have been answered before that
  uint64_t next_instance = 0, next_invocation = 0;
  const auto settle = [&] {
    std::vector<OwnedFd> fds;
    std::optional<Finished> finished;
    do {
      finished = process_->expect<Finished>(&fds);
      ASSERT_TRUE(finished.has_value());
    } while (forgotten.contains(finished->invocation.low));
    ASSERT_TRUE(running.contains(finished->invocation.low));
    Model& instance = instances.at(running[finished->invocation.low]);
    running.erase(finished->invocation.low);
    instance.runs = false;
    ASSERT_FALSE(finished->error.has_value()) << to_string(*finished->error);
    const auto values = ints_of(ExecutorProcess::payload_of(*finished, fds));
    ASSERT_EQ(values.size(), instance.is_large ? count : 2);
    for (const int value : values) ASSERT_EQ(value, 3 * instance.value + 1);
  };
  for (int step = 0; step < 300 && !HasFatalFailure(); ++step) {
    auto at = instances.begin();
    if (!instances.empty()) std::advance(at, random() % instances.size());
    const unsigned what = random() % 10;
    if (instances.size() < 2 || (what == 0 && instances.size() < 8)) {
      const bool is_large = random() % 2 == 0;
      add(++next_instance, is_large ? shared : other, is_large ? Bytes(3 * 280'064) : Bytes(1024));
      instances[next_instance] = {.is_large = is_large};
    } else if (what == 1) {
      // Also while it runs: then nothing comes of that.
      process_->send(protocol::RemoveInstance{SandboxId(at->first)});
      if (!at->second.runs) {
        instances.erase(at);
      } else {
        const uint64_t gone = at->first;
        const uint64_t invocation = std::find_if(running.begin(), running.end(), [&](auto& each) {
                                      return each.second == gone;
                                    })->first;
        forgotten.insert(invocation);
        running.erase(invocation);
        instances.erase(gone);
      }
    } else if (what == 2 && !at->second.runs) {
      const bool out = at->second.is_in;
      process_->send(protocol::MoveInstance{SandboxId(at->first), out});
      const auto moved = process_->expect<InstanceMoved>();
      ASSERT_TRUE(moved && moved->done);
      at->second.is_in = !out;
    } else if (at->second.is_in && !at->second.runs) {
      at->second.runs = true;
      at->second.value = static_cast<int>(random() % 1000);
      running[++next_invocation] = at->first;
      process_->run(next_invocation, at->first,
                    bytes_of(std::vector<int>(at->second.is_large ? count : 2, at->second.value)));
    } else if (!running.empty()) {
      settle();
    }
  }
  while (!running.empty() && !HasFatalFailure()) settle();
}

std::string name_of_way(const testing::TestParamInfo<std::string>& test) {
  constexpr const char* kNames[] = {"Pipelined", "Whole", "Trimmed", "Static"};
  return kNames[test.index];
}
INSTANTIATE_TEST_SUITE_P(Ways, RandomInstances,
                         testing::Values("", "--no-pipelining", "--pool-hold-ms=0",
                                         "--pool-rule=static"),
                         name_of_way);

}  // namespace
}  // namespace lambent::executor
