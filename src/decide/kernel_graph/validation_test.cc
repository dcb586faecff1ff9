#include "decide/kernel_graph/validation.h"
#include "decide/kernel_graph/limits.h"

#include "decide/kernel_graph/testing/testing.h"

namespace lambent::kernel_graph {
namespace {

void expect_refused(const KernelGraph& graph, const std::string& message) {
  const auto result = validate(graph, small_kernels());
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(result.error().message, message);
}
void expect_refused(const std::string& from, const std::string& to, const std::string& message) {
  expect_refused(graph_of(changed(from, to)), message);
}

TEST(Validation, AGraphThatMakesSensePasses) {
  const auto result = validate(graph_of(kSmallGraph), small_kernels());
  EXPECT_TRUE(result.ok()) << to_string(result.error());
  EXPECT_EQ(bundles_of(graph_of(kSmallGraph)),
            (std::vector<std::string>{"bundles/math", "lambent:blas"}));
}

TEST(Validation, FlagsAreFoundInLoopsOfLoops) {
  const Step launch = Launch{};
  const Step counted = Repeat{3, kNoFlag, {launch}};
  EXPECT_FALSE(has_flags({launch, counted}));
  EXPECT_TRUE(has_flags({launch, Repeat{3, 0, {launch}}}));
  EXPECT_TRUE(has_flags({counted, Repeat{3, kNoFlag, {launch, Repeat{3, 0, {launch}}}}}));
}

TEST(Validation, KernelsAndBundlesMustBeThere) {
  expect_refused("\"add\"", "\"ad\"",
                 "steps[0].kernel: the bundle 'bundles/math' has no kernel 'ad'; did you mean "
                 "'add'?");
  expect_refused("bundles/math", "bundles/maths",
                 "steps[0].bundle: there is no bundle 'bundles/maths'; did you mean "
                 "'bundles/math'?");
  KernelGraph graph = graph_of(kSmallGraph);
  std::get<Launch>(graph.steps[0]).bundle = "../math";
  expect_refused(graph, "steps[0].bundle: '../math' is not in the package");
}

TEST(Validation, ArgumentsMustFitTheCompiledKernel) {
  expect_refused("{\"buffer\": \"y\"}, ", "",
                 "steps[1].steps[0].arguments: 3 are given, the kernel 'scale' has 4 parameters");
  expect_refused("[1.5, -2]", "1.5",
                 "steps[1].steps[0].arguments[3]: the literal has 4 bytes, the kernel's parameter "
                 "8");
  expect_refused("{\"literal\": 4, \"datatype\": \"UINT32\"}", "{\"buffer\": \"x\"}",
                 "steps[0].arguments[3] ('x'): the kernel's parameter has 4 bytes, which is not a "
                 "pointer; give a literal");
}

TEST(Validation, BlocksAndGridsMustBeSuchAsDevicesTake) {
  expect_refused("\"grid\": [4]", "\"grid\": [0]", "steps[0].grid[0]: 0 is not in 1 to 2147483647");
  expect_refused("\"grid\": [1, 2, 3]", "\"grid\": [1, 65536]",
                 "steps[1].steps[0].grid[1]: 65536 is not in 1 to 65535");
  expect_refused("\"block\": [8, 8]", "\"block\": [1, 1, 65]",
                 "steps[1].steps[0].block[2]: 65 is not in 1 to 64");
  expect_refused("\"block\": [8, 8]", "\"block\": [64, 32]",
                 "steps[1].steps[0].block: 2048 threads, the kernel 'scale' takes at most 1024");
  expect_refused("\"block\": [256]", "\"block\": [513]",
                 "steps[0].block: 513 threads, the kernel 'add' takes at most 512");
  expect_refused("\"block\": [256]", "\"block\": [256], \"shared_bytes\": 231425",
                 "steps[0].shared_bytes: 232449 bytes, with the kernel's own 1024; a block has at "
                 "most 232448");
}

TEST(Validation, OffsetsMustBeElementsOfTheBuffer) {
  expect_refused("{\"buffer\": \"x\"}", "{\"buffer\": \"x\", \"offset_bytes\": 16}",
                 "steps[0].arguments[0] ('x'): begins at byte 16, the buffer has 16");
  expect_refused("{\"buffer\": \"x\"}", "{\"buffer\": \"x\", \"offset_bytes\": 6}",
                 "steps[0].arguments[0] ('x'): begins at byte 6, in the middle of an element of "
                 "FP32");
}

TEST(Validation, InputsAndConstantsAreNeverWritten) {
  expect_refused("{\"buffer\": \"x\"}", "{\"buffer\": \"x\", \"access\": \"read_write\"}",
                 "steps[0].arguments[0] ('x'): a buffer of role input is never written");
  expect_refused("{\"buffer\": \"w\"}", "{\"buffer\": \"w\", \"access\": \"write\"}",
                 "steps[0].arguments[1] ('w'): a buffer of role constant is never written");
}

TEST(Validation, NothingIsReadBeforeItIsWritten) {
  expect_refused("{\"buffer\": \"x\"}", "{\"buffer\": \"y\", \"access\": \"read\"}",
                 "steps[0].arguments[0] ('y'): it is read, but no step before has written it");
  // What the same launch writes does not count as there.
  expect_refused("{\"buffer\": \"x\"}", "{\"buffer\": \"z\", \"access\": \"read\"}",
                 "steps[0].arguments[0] ('z'): it is read, but no step before has written it");
}

TEST(Validation, AFlagMustBeWritableLargeEnoughAndWrittenInItsLoop) {
  expect_refused("\"until\": \"done\"", "\"until\": \"w\"",
                 "steps[1].until ('w'): a flag is written, but this is of role constant");
  expect_refused("\"INT32\", \"shape\": [1]", "\"INT8\", \"shape\": [3]",
                 "steps[1].until ('done'): a flag has at least 4 bytes, this buffer has 3");
  expect_refused("{\"buffer\": \"done\"}", "{\"buffer\": \"done\", \"access\": \"read\"}",
                 "steps[1].until ('done'): no step of the loop writes it, so it would never end "
                 "the loop");
}

TEST(Validation, AFlagMayBeReadInItsLoopForItIsZeroBefore) {
  // The first of the two steps in the loop reads the flag.
  const KernelGraph graph = graph_of(changed("\"steps\": [\n      {", R"("steps": [
      {"kernel": "negate", "bundle": "bundles/math", "grid": [1], "block": [1],
       "arguments": [{"buffer": "done", "access": "read"}, {"buffer": "y"}]},
      {)"));
  EXPECT_TRUE(validate(graph, small_kernels()).ok());
}

TEST(Validation, LoopsHaveStepsAndRounds) {
  expect_refused("\"repeat\": 10", "\"repeat\": 0",
                 "steps[1]: it is repeated 0 times; 1 to 1000000000 are possible");
  KernelGraph graph = graph_of(kSmallGraph);
  std::get<Repeat>(graph.steps[1]).until = kNoFlag;
  std::get<Repeat>(graph.steps[1]).steps.clear();
  expect_refused(graph, "steps[1]: nothing is repeated: it has no steps");
  graph.steps.clear();
  expect_refused(graph, "steps: a graph needs a step at least");
}

TEST(Validation, BuffersAreUsedAndOutputsWritten) {
  const std::string unused =
      ",\n    {\"name\": \"spare\", \"role\": \"temporary\", \"datatype\": \"INT8\", \"shape\": "
      "[1]}";
  expect_refused("\"INT32\", \"shape\": [1]}", "\"INT32\", \"shape\": [1]}" + unused,
                 "buffers[5] ('spare'): no step uses this buffer");
  expect_refused("\"buffer\": \"y\"", "\"buffer\": \"z\"",
                 "buffers[3] ('y'): no step writes this output");
}

TEST(Validation, AConstantHasAFileInThePackageOrAFill) {
  expect_refused(", \"file\": \"data/w.bin\"", "",
                 "buffers[1] ('w'): a constant has either a file or a fill");
  expect_refused("\"file\": \"data/w.bin\"", "\"file\": \"data/w.bin\", \"fill\": 1",
                 "buffers[1] ('w'): a constant has either a file or a fill");
  KernelGraph graph = graph_of(kSmallGraph);
  graph.buffers[1].file = "data/../../w.bin";
  expect_refused(
      graph,
      "buffers[1] ('w'): the file 'data/../../w.bin' is neither in the package nor in a mount");
  graph.buffers[1].file = "/weights/w.bin";
  EXPECT_TRUE(validate(graph, small_kernels()).ok());
  expect_refused("\"shape\": [1]", "\"shape\": [1], \"fill\": 0",
                 "buffers[4] ('done'): only a constant has a file or a fill; this is of role "
                 "temporary");
  EXPECT_TRUE(
      validate(graph_of(changed("\"file\": \"data/w.bin\"", "\"fill\": 0.5")), small_kernels())
          .ok());
}

TEST(Validation, MemoryIsCountedWithoutWrappingAround) {
  expect_refused("[2, 2]", "[0, 2]", "buffers[0] ('x'): it has no elements");
  expect_refused("[2, 2]", "[274877906944]",
                 "buffers[1] ('w'): the buffers up to here take more than 1 TiB");
  KernelGraph graph = graph_of(kSmallGraph);
  for (Buffer& buffer : graph.buffers) buffer.type.shape = {uint64_t{1} << 60};
  expect_refused(graph, "buffers[0] ('x'): the buffers up to here take more than 1 TiB");
  graph.buffers[0].type.shape = {uint64_t{1} << 61};
  expect_refused(graph, "buffers[0] ('x'): FP32 [2305843009213693952] is too large to be counted");
}

TEST(Validation, FilesOfConstantsAreThereInFull) {
  const KernelGraph graph = graph_of(kSmallGraph);
  EXPECT_TRUE(validate_files(graph, {{"data/w.bin", 16}}).ok());
  EXPECT_EQ(validate_files(graph, {{"data/W.bin", 16}}).error().message,
            "buffers[1] ('w').file: the package has no file 'data/w.bin'; did you mean "
            "'data/W.bin'?");
  EXPECT_EQ(validate_files(graph, {{"data/w.bin", 12}}).error().message,
            "buffers[1] ('w').file: 'data/w.bin' has 12 bytes, FP32 [2, 2] has 16");
}

TEST(Validation, BundlesAndFilesAreFoundWhereTheGraphNamesThemFirst) {
  const KernelGraph graph = graph_of(kSmallGraph);
  EXPECT_EQ(place_of_file(graph, 1), "buffers[1] ('w').file");
  EXPECT_EQ(place_of_bundle(graph, "bundles/math"), "steps[0].bundle");
  EXPECT_EQ(place_of_bundle(graph, "bundles/none"), "");
  EXPECT_EQ(place_of_bundle(graph, "lambent:blas"), "steps[1].steps[0].bundle");
}

TEST(Validation, HoldsForGraphsThatDidNotComeFromJson) {
  KernelGraph graph = graph_of(kSmallGraph);
  std::get<BufferArgument>(std::get<Launch>(graph.steps[0]).arguments[0]).buffer = 99;
  expect_refused(graph, "steps[0].arguments[0]: is no buffer");
  graph = graph_of(kSmallGraph);
  std::get<Repeat>(graph.steps[1]).until = 99;
  expect_refused(graph, "steps[1].until: is no buffer");
  graph = graph_of(kSmallGraph);
  for (size_t i = 0; i < limits::kGraphDepth; ++i) {
    graph.steps = {graph.steps[0], Repeat{.times = 1, .until = kNoFlag, .steps = graph.steps}};
  }
  EXPECT_FALSE(validate(graph, small_kernels()).ok());
}

TEST(Validation, VariantsAreCheckedEachByItself) {
  const auto refused = [](const std::string& from, const std::string& to,
                          const std::string& message) {
    expect_refused(graph_of(changed(from, to, kVariants)), message);
  };
  EXPECT_TRUE(validate(graph_of(kVariants), small_kernels()).ok());
  refused("\"batch\": 1", "\"batch\": 4",
          "steps[1].batch: 4 follows 4; variants stand in the order of their sizes");
  refused("\"batch\": 4", "\"batch\": 8",
          "buffers[0] ('x'): its first dimension is that of the largest variant, 8");
  refused("{\"buffer\": \"four\", \"access\": \"read\"}",
          "{\"buffer\": \"one\", \"access\": \"read\"}",
          "steps[1].steps[1].arguments[0] ('one'): it is read, but no step before has written it");
  refused("{\"buffer\": \"one\", \"access\": \"read\"}, {\"buffer\": \"y\"}",
          "{\"buffer\": \"one\", \"access\": \"read\"}, {\"buffer\": \"one\"}",
          "buffers[1] ('y'): no step of steps[0] writes this output");
  KernelGraph graph = graph_of(kVariants);
  graph.steps.push_back(std::get<Repeat>(graph.steps[0]).steps[0]);
  expect_refused(graph, "steps[2]: it is no variant, and other steps are");
  graph = graph_of(kVariants);
  std::get<Repeat>(graph.steps[0]).steps.clear();
  expect_refused(graph, "steps[0]: the variant has no steps");
  graph = graph_of(kVariants);
  std::get<Repeat>(graph.steps[1]).until = 3;
  expect_refused(graph, "steps[1]: a variant is not repeated");
  graph = graph_of(kSmallGraph);
  graph.batches.emplace();
  expect_refused(graph, "batches: they are for graphs whose steps are variants");
}

}  // namespace
}  // namespace lambent::kernel_graph
