// Built-in linear algebra by cuBLAS, or rather by its stand-in, in a real lambent-executor:
// whatever way it is launched, the answers are those of our own kernels.
#include <gmock/gmock.h>

#include <fstream>

#include "decide/kernel_graph/graph_json.h"
#include "decide/kernel_graph/plan.h"
#include "gpu/cublas/testing/testing.h"
#include "gpu/executor/testing/function_testing.h"

namespace lambent::executor {
namespace {

using cublas::RandomLaunch;
using cublas::Wide;
using kernel_graph::BufferRole;
using kernel_graph::KernelGraph;
using kernel_graph::Repeat;
using protocol::Finished;

const std::string kDouble = LAMBENT_BINARY_DIR "/lib/testing/libcublas_double.so";

using Settings = std::vector<std::pair<std::string, std::string>>;

std::string floats(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

RandomLaunch sum_of(int count) {
  RandomLaunch made;
  made.routine = "axpy";
  made.n = count;
  made.size_b = made.size_c = static_cast<size_t>(count);
  made.alpha = made.beta = 1;
  return made;
}
// Of square matrices of floats without gaps.
RandomLaunch product_of(int edge) {
  RandomLaunch made;
  made.routine = "gemm";
  made.m = made.n = made.k = made.stride_a = made.stride_b = made.stride_c = edge;
  made.size_a = made.size_b = made.size_c = static_cast<size_t>(edge) * edge;
  made.alpha = 1;
  return made;
}

class BlasTest : public ExecutorTest {
 protected:
  void SetUp() override {}
  void begin(Settings settings = {}, std::vector<std::string> more = {},
             const std::string& library = kDouble) {
    log_ = folder_ / ("log-" + std::to_string(logs_++));
    settings.emplace_back("CUBLAS_DOUBLE_LOG", log_);
    more.insert(more.end(), {"--cublas", library});
    start(settings, more);
  }
  // Routines that cuBLAS was asked for: captured, and at once.
  struct Asked {
    int captured = 0, at_once = 0;
  };
  Asked asked() const {
    Asked seen;
    std::ifstream lines(log_);
    for (std::string line; std::getline(lines, line);) {
      ++(line.ends_with(" captured") ? seen.captured : seen.at_once);
    }
    return seen;
  }

  static TensorType numbers(const RandomLaunch& made, size_t count) {
    if (made.letter == 'c') return {DataType::kFp32, {count, 2}};
    return {made.letter == 'd' ? DataType::kFp64 : DataType::kFp32, {count}};
  }
  // The first buffers are a launch's: a constant, an input, and one that comes and goes.
  static KernelGraph graph_of(const RandomLaunch& made, std::vector<kernel_graph::Step> steps) {
    KernelGraph graph;
    graph.buffers = {{"a", BufferRole::kConstant, numbers(made, made.size_a), "a.bin", ""},
                     {"b", BufferRole::kInput, numbers(made, made.size_b), "", ""},
                     {"c", BufferRole::kInOut, numbers(made, made.size_c), "", ""}};
    if (!made.has_a()) graph.buffers.erase(graph.buffers.begin());
    graph.steps = std::move(steps);
    return graph;
  }
  std::string package_of(const KernelGraph& graph, const std::string& a = "") {
    Files files;
    for (const char* name : {"blas", "loops"}) {
      add_bundle(files, LAMBENT_BINARY_DIR "/share/lambent/kernels/" + std::string(name),
                 "lambent:" + std::string(name));
    }
    if (!a.empty()) files["a.bin"] = a;
    files["graph.json"] = to_json(graph);
    return process_->package(files);
  }
  static Bytes footprint_of(const KernelGraph& graph) {
    return plan_memory(graph, order_of(graph.steps)).footprint;
  }
  std::string answer_of(uint64_t instance, const std::string& input) {
    process_->run(++invocations_, instance, input);
    std::vector<OwnedFd> fds;
    const auto finished = process_->expect<Finished>(&fds);
    if (!finished) return {};
    EXPECT_FALSE(finished->error.has_value()) << to_string(*finished->error);
    return ExecutorProcess::payload_of(*finished, fds);
  }
  // c + b as often as it takes.
  void adds(uint64_t instance, float times = 1) {
    for (float i = 1; i < 4; ++i) {
      EXPECT_EQ(answer_of(instance, floats({1, i, 10 * i, 0})),
                floats({10 * i + times, times * i}));
    }
  }
  void add_sums(uint64_t instance, std::vector<kernel_graph::Step> steps) {
    add(instance, package_of(graph_of(sum_of(2), std::move(steps))));
  }

  TemporaryFolder folder_;
  std::string log_;
  int logs_ = 0;
  uint64_t invocations_ = 0;
};

TEST_F(BlasTest, AnswersAreThoseOfOurKernelsWithinTheTolerance) {
  constexpr unsigned kLaunches = 24;
  std::vector<std::string> ours, theirs;
  for (auto* answers : {&ours, &theirs}) {
    answers == &ours ? start() : begin();
    for (unsigned seed = 0; seed < kLaunches; ++seed) {
      std::mt19937 random(seed);
      const RandomLaunch made = cublas::random_launch(random, 40);
      const std::string a = cublas::random_numbers(made.letter, made.size_a, random);
      const std::string b = cublas::random_numbers(made.letter, made.size_b, random);
      const std::string c = cublas::random_numbers(made.letter, made.size_c, random);
      add(seed, package_of(graph_of(made, {cublas::launch_of(made)}), a));
      const auto expected = cublas::expected_of(made, a, b, c);
      answers->push_back(answer_of(seed, b + c));
      EXPECT_EQ(answer_of(seed, b + c), answers->back()) << "the same twice, bit by bit";
      for (size_t i = 0; i < made.size_c; ++i) {
        const auto at = [&](const std::string& bytes) {
          return cublas::number_at(made.letter, bytes.data() + i * made.number_bytes());
        };
        ASSERT_LE(std::abs(at(answers->back()) - expected.values[i]), expected.tolerances[i])
            << "seed " << seed << ", element " << i;
        if (answers == &ours) continue;
        ASSERT_LE(std::abs(at(ours[seed]) - at(theirs[seed])), 2 * expected.tolerances[i])
            << "seed " << seed << ", element " << i;
      }
    }
  }
  EXPECT_GE(asked().captured, static_cast<int>(kLaunches));
}

TEST_F(BlasTest, BuffersThatMoveAreFoundWhereTheyAre) {
  begin();
  const auto graph = graph_of(sum_of(2), {cublas::launch_of(sum_of(2))});
  // No room for copies of objects: they are used where they lie.
  add(1, package_of(graph), footprint_of(graph));
  const int before = asked().captured;
  EXPECT_EQ(before, 1) << "when it was loaded";
  for (int i = 1; i < 5; ++i) {
    process_->run(
        static_cast<uint64_t>(i), 1,
        R"({"inputs": [{"name": "b", "parameters": {"object": "00000000-0000-0001-0000-000000000002.)" +
            std::to_string(i) +
            R"("}}, {"name": "c", "datatype": "FP32", "shape": [2], "data": [1, 2]}]})",
        "application/json");
    const auto value = static_cast<float>(i);
    process_->give_object({DataType::kFp32, {2}}, floats({value, 10 * value}));
    const auto finished = process_->expect<Finished>();
    ASSERT_TRUE(finished.has_value());
    ASSERT_FALSE(finished->error.has_value()) << to_string(*finished->error);
    EXPECT_THAT(finished->payload,
                testing::HasSubstr("[" + std::to_string(1 + i) + "," + std::to_string(2 + 10 * i)));
  }
  EXPECT_EQ(asked().captured, before + 4) << "once for each place";
  EXPECT_EQ(asked().at_once, 0);
}

TEST_F(BlasTest, OperandsAtAnOffsetAreCapturedAsTheyAreAligned) {
  begin();
  RandomLaunch made = sum_of(2);
  auto launch = cublas::launch_of(made);
  std::get<kernel_graph::BufferArgument>(launch.arguments[2]).offset_bytes = 4;
  made.size_b = 3;
  add(1, package_of(graph_of(made, {launch})));
  EXPECT_EQ(answer_of(1, floats({7, 1, 2, 10, 20})), floats({11, 22}));
  EXPECT_EQ(asked().at_once, 0) << "the graph of other operands has the same shape";
}

TEST_F(BlasTest, CallsThatShareNothingButTheWorkspaceDoNotRunAtTheSameTime) {
  begin();
  constexpr uint32_t kEdge = 16, kProducts = 6;
  constexpr size_t kSize = kEdge * kEdge;
  RandomLaunch made = product_of(kEdge);
  made.size_b *= kProducts;
  KernelGraph graph = graph_of(made, {});
  graph.buffers.pop_back();
  // One by one in b.
  for (uint32_t i = 0; i < kProducts; ++i) {
    graph.buffers.push_back(
        {"d" + std::to_string(i), BufferRole::kOutput, {DataType::kFp32, {kSize}}});
    auto launch = cublas::launch_of(made);
    std::get<kernel_graph::BufferArgument>(launch.arguments[1]).offset_bytes = i * kSize * 4;
    std::get<kernel_graph::BufferArgument>(launch.arguments[2]).buffer = 2 + i;
    graph.steps.emplace_back(launch);
  }
  std::vector<float> unit(kSize, 0);
  for (size_t i = 0; i < kEdge; ++i) unit[i * kEdge + i] = 1;
  std::vector<float> values(kSize * kProducts);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  add(1, package_of(graph, floats(unit)));
  for (int round = 0; round < 3; ++round) {
    EXPECT_TRUE(answer_of(1, floats(values)) == floats(values));
  }
}

TEST_F(BlasTest, AFunctionWithAShareHasAHandleOfItsOwn) {
  begin({{"EMULATED_CUDA_CONFIG", "v100-16gb"}});
  const std::string package = package_of(graph_of(sum_of(2), {cublas::launch_of(sum_of(2))}));
  process_->add_instance(1, package, Bytes::mib(64), false, 50);
  ASSERT_TRUE(process_->expect<protocol::InstanceReady>().has_value());
  adds(1);
  EXPECT_EQ(asked().at_once, 3);
  for (const uint32_t share : {100, 20, 60}) {
    process_->send(protocol::SetShare{SandboxId(1), share});
    adds(1);
  }
  process_->send(protocol::RemoveInstance{SandboxId(1)});
  add(2, package);
  adds(2);
}

TEST_F(BlasTest, RoundsOfTheHostsLoopsAreCallsAndThoseOfTheDeviceAreOurKernels) {
  RandomLaunch sum = sum_of(2);
  KernelGraph graph = graph_of(sum, {});
  graph.buffers.push_back({"done", BufferRole::kTemporary, {DataType::kFp32, {1}}});
  // The flag is set, to a float that is not zero, once all of b is in it.
  RandomLaunch one = sum_of(1);
  auto flag = cublas::launch_of(one);
  std::get<kernel_graph::BufferArgument>(flag.arguments[3]).buffer = 2;
  graph.steps = {Repeat{5, 2, {cublas::launch_of(sum), flag}}};
  for (const bool of_host : {false, true}) {
    begin({}, of_host ? std::vector<std::string>{"--no-device-loops"} : std::vector<std::string>());
    add(1, package_of(graph));
    EXPECT_EQ(answer_of(1, floats({0, 3, 1, 2})), floats({1, 17})) << "five rounds";
    EXPECT_EQ(answer_of(1, floats({2, 3, 1, 2})), floats({3, 5})) << "one";
    EXPECT_EQ(asked().captured, of_host ? 4 : 2) << "when it was loaded, and where its buffers are";
  }
}

TEST_F(BlasTest, LongRepeatsAreCallsInGraphsThatAreLaunchedSeveralTimes) {
  begin();
  add_sums(1, {Repeat{600, kernel_graph::kNoFlag, {cublas::launch_of(sum_of(2))}}});
  adds(1, 600);
  EXPECT_EQ(asked().at_once, 0);
}

TEST_F(BlasTest, WithoutAWorkingLibraryOurKernelsRun) {
  const Settings no_start = {{"CUBLAS_DOUBLE_FAIL", "cublasCreate_v2 1 1"}};
  const Settings no_second_start = {{"CUBLAS_DOUBLE_FAIL", "cublasCreate_v2 2 3"}};
  const Settings no_calls = {{"CUBLAS_DOUBLE_FAIL", "cublasSaxpy_v2 1 15"}};
  const std::string no_cublas = LAMBENT_BINARY_DIR "/lib/emulated/libcuda.so.1";
  const std::pair<Settings, std::string> all[] = {{no_start, kDouble},
                                                  {no_second_start, kDouble},
                                                  {no_calls, kDouble},
                                                  {{}, "/nowhere/libcublas.so"},
                                                  {{}, no_cublas}};
  for (const auto& [settings, library] : all) {
    begin(settings, {}, library);
    add_sums(1, {cublas::launch_of(sum_of(2))});
    adds(1);
    EXPECT_EQ(asked().captured + asked().at_once, 0);
  }
}

TEST_F(BlasTest, OfSeveralLibrariesTheFirstThatWorksIsTaken) {
  begin({}, {"--cublas", "/nowhere/libcublas.so"});
  add_sums(1, {cublas::launch_of(sum_of(2))});
  adds(1);
  EXPECT_GT(asked().captured, 0);
}

TEST_F(BlasTest, AFunctionWithAShareHasOurKernelsIfItsContextHasNoHandle) {
  begin({{"EMULATED_CUDA_CONFIG", "v100-16gb"}, {"CUBLAS_DOUBLE_FAIL", "cublasCreate_v2 3 3"}});
  process_->add_instance(1, package_of(graph_of(sum_of(2), {cublas::launch_of(sum_of(2))})),
                         Bytes::mib(64), false, 50);
  ASSERT_TRUE(process_->expect<protocol::InstanceReady>().has_value());
  adds(1);
  EXPECT_EQ(asked().at_once, 0);
}

TEST_F(BlasTest, ACallThatIsRefusedLaterIsDoneByOurKernel) {
  // Captured when it was loaded; then neither captured again nor called.
  begin({{"CUBLAS_DOUBLE_FAIL", "cublasSaxpy_v2 2 15"}});
  add_sums(1, {cublas::launch_of(sum_of(2))});
  adds(1);
  EXPECT_EQ(asked().captured, 1);
  EXPECT_EQ(asked().at_once, 0);
}

TEST_F(BlasTest, GraphsThatCannotBeChangedAreLaunchedCallByCall) {
  begin({{"EMULATED_CUDA_FAULTS",
          "fail cuGraphExecChildGraphNodeSetParams from 1 with CUDA_ERROR_INVALID_VALUE"}});
  add_sums(1, {cublas::launch_of(sum_of(2))});
  adds(1);
  EXPECT_EQ(asked().at_once, 3);
  // More than may be queued at a time.
  add_sums(2, {Repeat{600, kernel_graph::kNoFlag, {cublas::launch_of(sum_of(2))}}});
  adds(2, 600);
  EXPECT_EQ(asked().at_once, 3 + 3 * 600);
}

TEST_F(BlasTest, ACallThatFailsHalfwayFailsItsRequest) {
  begin({{"EMULATED_CUDA_CONFIG", "v100-16gb"}, {"CUBLAS_DOUBLE_FAIL", "cublasSaxpy_v2 3 14"}});
  process_->add_instance(1, package_of(graph_of(sum_of(2), {cublas::launch_of(sum_of(2))})),
                         Bytes::mib(64), false, 50);
  ASSERT_TRUE(process_->expect<protocol::InstanceReady>().has_value());
  EXPECT_EQ(answer_of(1, floats({1, 1, 2, 2})), floats({3, 3}));
  const Error error = failure(9, 1, floats({1, 1, 2, 2}));
  EXPECT_THAT(error.message, testing::HasSubstr("CUBLAS_STATUS_INTERNAL_ERROR"));
}

// Whatever of what a call takes fails once, the answer is the same.
TEST_F(BlasTest, FailuresOfTheDriverWhileACallIsCapturedCostNoAnswer) {
  for (const char* call : {"cuStreamBeginCapture", "cuStreamEndCapture", "cuGraphAddChildGraphNode",
                           "cuGraphExecChildGraphNodeSetParams"}) {
    for (const int time : {1, 2, 3}) {
      SCOPED_TRACE(std::string(call) + " " + std::to_string(time));
      begin(
          {{"EMULATED_CUDA_FAULTS", std::string("fail ") + call + " call " + std::to_string(time) +
                                        " with CUDA_ERROR_INVALID_VALUE"}});
      add_sums(1, {cublas::launch_of(sum_of(2)), cublas::launch_of(sum_of(2))});
      adds(1, 2);
    }
  }
}

}  // namespace
}  // namespace lambent::executor
