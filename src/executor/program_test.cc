#include "executor/program.h"

#include <gmock/gmock.h>

#include "base/fd.h"
#include "executor/testing.h"

namespace lambent::executor {
namespace {

using kernel_graph::Access;
using kernel_graph::Argument;
using kernel_graph::BufferArgument;
using kernel_graph::KernelGraph;
using kernel_graph::Launch;
using kernel_graph::LiteralArgument;
using kernel_graph::Repeat;
using kernel_graph::Step;
using testing::ElementsAre;
using Kind = Instruction::Kind;

class ProgramTest : public EmulatedDevice {
 protected:
  void SetUp() override {
    EmulatedDevice::SetUp();
    if (IsSkipped()) return;
    auto image = read_file(LAMBENT_BINARY_DIR "/kernels/tested/gxx/steps/host-x86_64.so", 1 << 28);
    ASSERT_TRUE(image.ok()) << to_string(image.error());
    auto module = cuda::Module::load(*driver_, *image);
    ASSERT_TRUE(module.ok()) << to_string(module.error());
    module_.emplace(std::move(*module));
    for (const char* name : {"a", "b", "done"}) {
      graph_.buffers.push_back({name, {}, {DataType::kInt32, {1}}, {}, {}});
    }
  }
  static LiteralArgument number(int value) {
    return {DataType::kInt32, {reinterpret_cast<const char*>(&value), sizeof(value)}};
  }
  static Launch increment(uint32_t buffer) {
    return {"steps", "increment", {},
            {},      0,           {BufferArgument{buffer, 0, Access::kReadWrite}, number(1)}};
  }
  static Repeat repeat(uint64_t times, std::vector<Step> steps,
                       uint32_t until = kernel_graph::kNoFlag) {
    return {times, until, std::move(steps)};
  }
  void compile(std::vector<Step> steps) {
    program_.reset();
    graph_.steps = std::move(steps);
    auto compiled =
        Program::compile(*driver_, graph_, kernel_graph::order_of(graph_.steps),
                         [&](const Launch& launch) { return module_->function(launch.kernel); });
    ASSERT_TRUE(compiled.ok()) << to_string(compiled.error());
    program_ = std::move(*compiled);
  }
  std::vector<std::pair<Kind, uint64_t>> instructions() const {
    std::vector<std::pair<Kind, uint64_t>> seen;
    for (const auto& each : program_->instructions()) seen.emplace_back(each.kind, each.times);
    return seen;
  }

  std::optional<cuda::Module> module_;
  KernelGraph graph_;
  std::unique_ptr<Program> program_;
};

TEST_F(ProgramTest, ShortRepeatsAreWrittenOutInOneGraph) {
  compile({increment(0), repeat(5, {increment(0), repeat(3, {increment(1)})}), increment(1)});
  EXPECT_THAT(instructions(), ElementsAre(std::pair(Kind::kLaunch, 1)));
  EXPECT_EQ(program_->node_count(), 1u + 5 * 4 + 1);
  EXPECT_EQ(program_->uses(0), 6u);
  EXPECT_EQ(program_->uses(1), 16u);
  EXPECT_EQ(program_->uses(2), 0u);
}

TEST_F(ProgramTest, LongRepeatsLaunchAGraphSeveralTimesAndThenTheRest) {
  compile({increment(0), repeat(1000, {increment(0)}), increment(0)});
  EXPECT_THAT(instructions(),
              ElementsAre(std::pair(Kind::kLaunch, 1), std::pair(Kind::kLaunch, 1000 / kMostNodes),
                          std::pair(Kind::kLaunch, 1), std::pair(Kind::kLaunch, 1)));
  EXPECT_EQ(program_->node_count(), 2 + kMostNodes + 1000 % kMostNodes);
}

TEST_F(ProgramTest, ALoopWithAFlagIsTheHosts) {
  compile({repeat(9, {increment(0), increment(2)}, 2), increment(1)});
  EXPECT_THAT(instructions(), ElementsAre(std::pair(Kind::kZeroFlag, 1), std::pair(Kind::kBegin, 9),
                                          std::pair(Kind::kLaunch, 1), std::pair(Kind::kCheck, 1),
                                          std::pair(Kind::kEnd, 1), std::pair(Kind::kLaunch, 1)));
  EXPECT_EQ(program_->instructions()[3].target, 5u);
  EXPECT_EQ(program_->instructions()[4].target, 2u);
}

TEST_F(ProgramTest, BuffersThatMoveAreFoundWhereTheyAre) {
  compile({increment(0), increment(1), repeat(2, {increment(0)})});
  auto memory = cuda::DeviceBuffer::allocate(*driver_, Bytes(64));
  const auto stream = cuda::Stream::create(*driver_);
  ASSERT_TRUE(memory.ok() && stream.ok());
  ASSERT_TRUE(memory->fill(0).ok());
  ASSERT_TRUE(driver_->check((*driver_)->ctx_synchronize(), "cuCtxSynchronize").ok());
  const auto run = [&](uint64_t a, uint64_t b) {
    const CUdeviceptr addresses[] = {memory->pointer() + a, memory->pointer() + b, 0};
    ASSERT_TRUE(program_->bind(addresses).ok());
    ASSERT_TRUE(program_->launch(0, stream->get()).ok());
    ASSERT_TRUE(stream->synchronize().ok());
  };
  run(0, 4);
  run(0, 8);
  run(12, 8);
  int values[4] = {};
  ASSERT_TRUE(memory->read(std::as_writable_bytes(std::span(values))).ok());
  EXPECT_THAT(values, ElementsAre(6, 1, 2, 3));
}

TEST_F(ProgramTest, AKernelThatIsNotThereIsAnError) {
  graph_.steps = {increment(0)};
  std::get<Launch>(graph_.steps[0]).kernel = "cube";
  const auto compiled =
      Program::compile(*driver_, graph_, kernel_graph::order_of(graph_.steps),
                       [&](const Launch& launch) { return module_->function(launch.kernel); });
  ASSERT_FALSE(compiled.ok());
  EXPECT_EQ(compiled.error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace lambent::executor
