// Cold requests: what runs before all of a function's constants are on the device, and what shares
// their load.
#include <gmock/gmock.h>

#include "gpu/executor/testing/function_testing.h"
#include "gpu/executor/testing/link_testing.h"

namespace lambent::executor {
namespace {

// A function of layers, each of which adds its weights, which are as large as a turn on the link;
// the test gives these turns, and so says what has arrived.
class LayersTest : public ExecutorTest {
 protected:
  static constexpr size_t kLayer = (32 << 20) / sizeof(int);

  void SetUp() override {
    link_.emplace(folder_ / "link");
    start({}, {"--link", link_->path()});
  }
  static Files layers(int count, const std::vector<std::string>& last_steps) {
    std::vector<std::string> buffers = {buffer("x", "input", 2), buffer("y", "output", 2)}, steps;
    for (int i = 0; i < count; ++i) {
      const std::string name = "w" + std::to_string(i);
      buffers.push_back(buffer(name, "constant", kLayer, R"(, "fill": )" + std::to_string(i + 1)));
      buffers.push_back(buffer("t" + std::to_string(i), "output", 2));
      steps.push_back(scale(name, "t" + std::to_string(i), 1, 0, 2));
    }
    steps.insert(steps.end(), last_steps.begin(), last_steps.end());
    return function(buffers, steps);
  }
  void give_turn() { link_->grant(link_->expect_wish(Bytes::mib(32))); }

  TemporaryFolder folder_;
  std::optional<LinkUnderTest> link_;
};

TEST_F(LayersTest, AFunctionIsReadyBeforeItsConstantsAndItsRequestWaitsForThem) {
  add(1, process_->package(layers(2, {scale("x", "y", 3, 1, 2)})), Bytes::mib(128));
  process_->run(1, 1, bytes_of({1, 2}));
  give_turn();
  give_turn();
  EXPECT_EQ(answer(), (std::vector<int>{4, 7, 1, 1, 2, 2}));
  link_->expect_done(Bytes::mib(32));
  link_->expect_done(Bytes::mib(32));
  EXPECT_EQ(run(2, 1, {1, 2}), (std::vector<int>{4, 7, 1, 1, 2, 2})) << "warm: its graph, no turns";
  EXPECT_FALSE(link_->hear(Duration(0)).has_value());
}

TEST_F(LayersTest, KernelsRunAsSoonAsTheirOwnConstantsAreThere) {
  // The kernel behind the first layer faults, which is how the test sees that it ran.
  const std::string fault =
      R"({"kernel": "fault_below_zero", "bundle": "bundles/steps", "grid": [1], "block": [1],
          "arguments": [{"buffer": "x", "access": "read"}, {"buffer": "y", "access": "write"}]})";
  std::vector<std::string> buffers = {buffer("x", "input", 2), buffer("y", "output", 2),
                                      buffer("z", "output", 2)};
  for (const std::string name : {"v", "w"}) {
    buffers.push_back(buffer(name, "constant", kLayer, R"(, "fill": 1)"));
  }
  add(1,
      process_->package(
          function(buffers, {scale("v", "y", 1, 0, 2), fault, scale("w", "z", 1, 0, 2)})),
      Bytes::mib(128));
  process_->run(1, 1, bytes_of({-1, 0}));
  give_turn();
  EXPECT_TRUE(process_->expect<protocol::Broken>().has_value()) << "with the second layer away";
}

TEST_F(LayersTest, AnInstanceThatGoesWhileItsRequestWaitsForConstantsLeavesTheOthersAlone) {
  const std::string package = process_->package(layers(1, {scale("x", "y", 3, 1, 2)}));
  add(1, package, Bytes::mib(128));
  add(2, process_->package(affine(2)));
  process_->run(1, 1, bytes_of({1, 2}));
  process_->send(protocol::RemoveInstance{SandboxId(1)});
  const auto finished = process_->expect<protocol::Finished>();
  ASSERT_TRUE(finished.has_value());
  EXPECT_EQ(finished->error->code, ErrorCode::kUnavailable);
  works(2);
  give_turn();
  works(2);
}

TEST_F(LayersTest, InstancesThatShareConstantsShareTheirLoad) {
  Files files = function({buffer("w", "constant", kLayer, R"(, "file": "w.bin")"),
                          buffer("x", "in_out", 2), buffer("y", "output", 2)},
                         {increment("x", 2), scale("w", "y", 2, 1, 2)});
  files["w.bin"] = std::string(kLayer * sizeof(int), '\0');
  const std::string package = process_->package(files);
  for (const uint64_t instance : {1, 2}) add(instance, package, Bytes::mib(128));
  for (const uint64_t instance : {1, 2}) process_->run(instance, instance, bytes_of({5, 6}));
  give_turn();
  EXPECT_EQ(answer(), (std::vector<int>{6, 7, 1, 1}));
  EXPECT_EQ(answer(), (std::vector<int>{6, 7, 1, 1}));
  link_->expect_done(Bytes::mib(32));
  EXPECT_FALSE(link_->hear(Duration(0)).has_value()) << "no second turn for the same bytes";
}

TEST_F(LayersTest, FunctionsWithTheSameWeightsHaveOneCopyOfThem) {
  Files files = function({buffer("w", "constant", kLayer, R"(, "file": "w.bin")"),
                          buffer("x", "in_out", 2), buffer("y", "output", 2)},
                         {increment("x", 2), scale("w", "y", 2, 1, 2)});
  files["w.bin"] = std::string(kLayer * sizeof(int), '\0');
  // As for another batch size: another graph, and a package of its own.
  Files others = function({buffer("weights", "constant", kLayer, R"(, "file": "weights.bin")"),
                           buffer("y", "output", 3)},
                          {scale("weights", "y", 1, 7, 3)});
  others["weights.bin"] = files["w.bin"];
  add(1, process_->package(files), Bytes::mib(128));
  add(2, process_->package(others), Bytes::mib(128));
  process_->run(1, 1, bytes_of({5, 6}));
  give_turn();
  EXPECT_EQ(answer(), (std::vector<int>{6, 7, 1, 1}));
  link_->expect_done(Bytes::mib(32));
  EXPECT_EQ(run(2, 2, {}), (std::vector<int>{7, 7, 7}));
  EXPECT_FALSE(link_->hear(Duration(0)).has_value()) << "no second turn for the same bytes";
  // They stay for the second when the first goes.
  process_->send(protocol::RemoveInstance{SandboxId(1)});
  EXPECT_EQ(run(3, 2, {}), (std::vector<int>{7, 7, 7}));
  EXPECT_FALSE(link_->hear(Duration(0)).has_value());
}

TEST_F(LayersTest, InstancesOfOneFunctionShareWhatIsFilledWithAValueAndOthersDoNot) {
  const Files files = layers(1, {scale("x", "y", 3, 1, 2)});
  const std::string package = process_->package(files);
  for (const uint64_t instance : {1, 2}) add(instance, package, Bytes::mib(128));
  for (const uint64_t instance : {1, 2}) process_->run(instance, instance, bytes_of({1, 2}));
  give_turn();
  EXPECT_EQ(answer(), (std::vector<int>{4, 7, 1, 1}));
  EXPECT_EQ(answer(), (std::vector<int>{4, 7, 1, 1}));
  link_->expect_done(Bytes::mib(32));
  EXPECT_FALSE(link_->hear(Duration(0)).has_value()) << "no second turn for the same value";
  // It stays for the second when the first goes, and a function of the same looks has its own.
  process_->send(protocol::RemoveInstance{SandboxId(1)});
  EXPECT_EQ(run(3, 2, {1, 2}), (std::vector<int>{4, 7, 1, 1}));
  add(3, process_->package(files), Bytes::mib(128));
  process_->run(4, 3, bytes_of({1, 2}));
  give_turn();
  EXPECT_EQ(answer(), (std::vector<int>{4, 7, 1, 1}));
}

}  // namespace
}  // namespace lambent::executor
