#include "gpu/executor/program.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "core/base/fd.h"
#include "gpu/executor/testing/testing.h"

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
    image = read_file(LAMBENT_BINARY_DIR "/kernels/tested/gxx/loops/host-x86_64.so", 1 << 28);
    ASSERT_TRUE(image.ok()) << to_string(image.error());
    auto loops = cuda::Module::load(*driver_, *image);
    ASSERT_TRUE(loops.ok()) << to_string(loops.error());
    loops_.emplace(std::move(*loops));
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
  // Sets the flag once `buffer` has come to the limit.
  static Launch set_at(uint32_t buffer, int limit, uint32_t flag = 2) {
    return {"steps",
            "set_at",
            {},
            {},
            0,
            {BufferArgument{buffer, 0, Access::kRead}, number(limit),
             BufferArgument{flag, 0, Access::kWrite}}};
  }
  void compile(std::vector<Step> steps, Program::Loops loops = Program::Loops::kOfHost,
               std::span<const uint32_t> layers = {}) {
    program_.reset();
    graph_.steps = std::move(steps);
    auto compiled = Program::compile(
        *driver_, graph_, kernel_graph::order_of(graph_.steps),
        [&](const Launch& launch) {
          const bool of_loops = launch.bundle == kernel_graph::kLoopBundle;
          return (of_loops ? loops_ : module_)->function(launch.kernel);
        },
        loops, nullptr, layers);
    ASSERT_TRUE(compiled.ok()) << to_string(compiled.error());
    program_ = std::move(*compiled);
  }
  std::vector<std::pair<Kind, uint64_t>> instructions() const {
    std::vector<std::pair<Kind, uint64_t>> seen;
    for (const auto& each : program_->instructions()) seen.emplace_back(each.kind, each.times);
    return seen;
  }

  // Launches graph 0 with the buffers at these words of the memory, and waits.
  void run(uint64_t a, uint64_t b, uint64_t done) {
    const CUdeviceptr base = memory_->pointer();
    program_->bind(std::vector<CUdeviceptr>{base + 4 * a, base + 4 * b, base + 4 * done});
    const auto launched = program_->launch(0, stream_->get());
    ASSERT_TRUE(launched.ok()) << to_string(launched.error());
    const auto ended = stream_->synchronize();
    ASSERT_TRUE(ended.ok()) << to_string(ended.error());
  }
  void make_memory() {
    auto memory = cuda::DeviceBuffer::allocate(*driver_, Bytes(64));
    auto stream = cuda::Stream::create(*driver_);
    ASSERT_TRUE(memory.ok() && stream.ok());
    ASSERT_TRUE(memory->fill(0).ok());
    ASSERT_TRUE(driver_->check((*driver_)->ctx_synchronize(), "cuCtxSynchronize").ok());
    memory_.emplace(std::move(*memory));
    stream_.emplace(std::move(*stream));
  }
  std::vector<int> values(size_t count) {
    std::vector<int> read(count);
    EXPECT_TRUE(memory_->read(std::as_writable_bytes(std::span(read))).ok());
    return read;
  }

  std::optional<cuda::Module> module_, loops_;
  std::optional<cuda::DeviceBuffer> memory_;
  std::optional<cuda::Stream> stream_;
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

TEST_F(ProgramTest, NoGraphReachesIntoTheNextLayer) {
  const uint32_t layers[] = {0, 2};
  compile({increment(0), increment(1), increment(0), repeat(1000, {increment(0)})},
          Program::Loops::kOfHost, layers);
  EXPECT_THAT(instructions(), ElementsAre(std::pair(Kind::kLayer, 1), std::pair(Kind::kLaunch, 1),
                                          std::pair(Kind::kLayer, 1), std::pair(Kind::kLaunch, 1),
                                          std::pair(Kind::kLaunch, 1000 / kMostNodes),
                                          std::pair(Kind::kLaunch, 1)));
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
  make_memory();
  run(0, 1, 15);
  run(0, 2, 15);
  run(3, 2, 15);
  EXPECT_THAT(values(4), ElementsAre(6, 1, 2, 3));
}

TEST_F(ProgramTest, ALoopOfTheDeviceHasTheHostsBehindItForThoseWhoCannotUseIt) {
  compile({repeat(9, {increment(0), increment(2)}, 2), increment(1)}, Program::Loops::kOfDevice);
  EXPECT_FALSE(program_->no_device_loops().has_value());
  EXPECT_THAT(instructions(), ElementsAre(std::pair(Kind::kLoop, 1), std::pair(Kind::kZeroFlag, 1),
                                          std::pair(Kind::kBegin, 9), std::pair(Kind::kLaunch, 1),
                                          std::pair(Kind::kCheck, 1), std::pair(Kind::kEnd, 1),
                                          std::pair(Kind::kLaunch, 1)));
  EXPECT_EQ(program_->instructions()[0].target, 6u);
  EXPECT_EQ(program_->instructions()[4].target, 6u);
  EXPECT_EQ(program_->uses(0), 1u) << "one of the two runs";
}

TEST_F(ProgramTest, LoopsOfTheDeviceFindBuffersThatMoveAndEndByTheirFlagOrTheirCount) {
  make_memory();
  compile({repeat(7, {increment(0), set_at(0, 3), repeat(2, {increment(1)})}, 2)},
          Program::Loops::kOfDevice);
  run(0, 1, 2);
  EXPECT_THAT(values(3), ElementsAre(3, 6, 1));
  run(3, 4, 5);
  run(3, 6, 7);
  EXPECT_THAT(values(8), ElementsAre(3, 6, 1, 4, 6, 1, 2, 1));
  compile({repeat(7, {increment(0), set_at(0, 30)}, 2)}, Program::Loops::kOfDevice);
  run(8, 9, 10);
  EXPECT_THAT(values(11)[8], 7);
}

TEST_F(ProgramTest, LoopsInLoopsAreTheDevicesAndBeginAnewInEveryRound) {
  make_memory();
  const Step inner = repeat(4, {increment(0), set_at(0, 6, 1)}, 1);
  // The outer rounds add four and two, and from then on one and one.
  compile({repeat(100, {repeat(2, {inner}), set_at(0, 9)}, 2)}, Program::Loops::kOfDevice);
  EXPECT_FALSE(program_->no_device_loops().has_value()) << to_string(*program_->no_device_loops());
  ASSERT_EQ(instructions().front().first, Kind::kLoop);
  EXPECT_EQ(program_->instructions().front().target, instructions().size())
      << "one graph does all of it";
  for (const uint64_t first : {0, 3}) {
    run(first, first + 1, first + 2);
    EXPECT_EQ(values(8)[first], 10);
    EXPECT_EQ(values(8)[first + 1], 1);
    EXPECT_EQ(values(8)[first + 2], 1);
  }
}

TEST_F(ProgramTest, ALoopThatWouldNotEndEndsWhenItIsStopped) {
  make_memory();
  compile({repeat(1'000'000'000, {increment(1), set_at(0, 1)}, 2)}, Program::Loops::kOfDevice);
  const CUdeviceptr base = memory_->pointer();
  program_->bind(std::vector<CUdeviceptr>{base, base + 4, base + 8});
  ASSERT_TRUE(program_->launch(0, stream_->get()).ok());
  program_->stop_loops();
  ASSERT_TRUE(stream_->synchronize().ok());
  const std::vector<int> seen = values(3);
  EXPECT_GT(seen[1], 0) << "the round under way was done";
  EXPECT_EQ(seen[2], 0) << "its flag was not set";
  run(0, 1, 2);
  EXPECT_EQ(values(3)[1], seen[1] + 1) << "one round of a later one";
}

TEST_F(ProgramTest, LoopsBeyondThoseThatHaveAWordAreTheHosts) {
  const size_t most = 4095, all = most + 5;
  compile(std::vector<Step>(all, repeat(9, {increment(2)}, 2)), Program::Loops::kOfDevice);
  const auto seen = instructions();
  const auto of_device = std::count_if(seen.begin(), seen.end(),
                                       [](const auto& each) { return each.first == Kind::kLoop; });
  EXPECT_GT(of_device, 4000);
  EXPECT_LE(static_cast<size_t>(of_device), most);
  EXPECT_FALSE(program_->no_device_loops().has_value());
}

TEST_F(ProgramTest, LoopsAreTheHostsWhereTheirKernelsAreNotThere) {
  loops_.emplace(std::move(*module_));
  auto image = read_file(LAMBENT_BINARY_DIR "/kernels/tested/gxx/steps/host-x86_64.so", 1 << 28);
  module_.emplace(std::move(*cuda::Module::load(*driver_, *image)));
  compile({repeat(9, {increment(0), increment(2)}, 2)}, Program::Loops::kOfDevice);
  ASSERT_TRUE(program_->no_device_loops().has_value());
  EXPECT_EQ(program_->no_device_loops()->code, ErrorCode::kNotFound);
  EXPECT_EQ(instructions().front().first, Kind::kZeroFlag);
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
