#include "decide/kernel_graph/graph_json.h"

#include "core/domain/limits.h"
#include "decide/kernel_graph/limits.h"
#include "decide/kernel_graph/testing/testing.h"

namespace lambent::kernel_graph {
namespace {

// The graph is refused, and the message says exactly this.
void expect_refused(const std::string& text, const std::string& message) {
  const auto graph = parse_graph(text);
  ASSERT_FALSE(graph.ok()) << text;
  EXPECT_EQ(graph.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(graph.error().message, message);
}

TEST(GraphJson, SaysWhatTheAuthorWrote) {
  const KernelGraph graph = graph_of(kSmallGraph);
  ASSERT_EQ(graph.buffers.size(), 5u);
  EXPECT_EQ(graph.buffers[1], (Buffer{.name = "w",
                                      .role = BufferRole::kConstant,
                                      .type = {DataType::kFp32, {2, 2}},
                                      .file = "data/w.bin"}));
  ASSERT_EQ(graph.steps.size(), 2u);
  const auto& add = std::get<Launch>(graph.steps[0]);
  EXPECT_EQ(add.kernel, "add");
  EXPECT_EQ(add.grid, (Extent{4, 1, 1}));
  EXPECT_EQ(std::get<BufferArgument>(add.arguments[2]), (BufferArgument{2, 0, Access::kWrite}));
  EXPECT_EQ(std::get<LiteralArgument>(add.arguments[3]),
            (LiteralArgument{DataType::kUint32, std::string("\4\0\0\0", 4)}));
  const auto& repeat = std::get<Repeat>(graph.steps[1]);
  EXPECT_EQ(repeat.times, 10u);
  EXPECT_EQ(repeat.until, 4u);
  const auto& scale = std::get<Launch>(repeat.steps[0]);
  EXPECT_EQ(scale.shared_bytes, 64u);
  EXPECT_EQ(std::get<LiteralArgument>(scale.arguments[3]).bytes,
            std::string("\0\0\xc0\x3f\0\0\0\xc0", 8));
}

TEST(GraphJson, AccessFollowsFromTheRoleUnlessItIsSaid) {
  const KernelGraph graph = graph_of(kSmallGraph);
  const auto access = [&](size_t step, size_t argument) {
    const auto& launch = step == 0 ? std::get<Launch>(graph.steps[0])
                                   : std::get<Launch>(std::get<Repeat>(graph.steps[1]).steps[0]);
    return std::get<BufferArgument>(launch.arguments[argument]).access;
  };
  EXPECT_EQ(access(0, 0), Access::kRead);       // an input
  EXPECT_EQ(access(0, 1), Access::kRead);       // a constant
  EXPECT_EQ(access(1, 1), Access::kWrite);      // an output
  EXPECT_EQ(access(1, 2), Access::kReadWrite);  // a temporary
}

TEST(GraphJson, ComesBackFromItsOwnText) {
  KernelGraph graph = graph_of(kSmallGraph);
  // Numbers that are hard to write, and such as have no text.
  auto& arguments = std::get<Launch>(graph.steps[0]).arguments;
  for (const auto& [type, bytes] : std::initializer_list<std::pair<DataType, std::string>>{
           {DataType::kFp32, std::string("\xcd\xcc\xcc\x3d", 4)},  // 0.1
           {DataType::kFp32, std::string("\0\0\0\x80", 4)},        // -0
           {DataType::kFp32, std::string("\0\0\x80\x7f", 4)},      // infinity
           {DataType::kFp32, std::string("\1\0\xc0\x7f", 4)},      // a NaN of its own
           {DataType::kFp64, std::string("\xff\xff\xff\xff\xff\xff\xef\x7f", 8)},
           {DataType::kUint64, std::string(8, '\xff')},
           {DataType::kInt64, std::string("\0\0\0\0\0\0\0\x80", 8)},
           {DataType::kBool, std::string("\1", 1)},
           {DataType::kFp16, std::string("\0\x3c", 2)},
           {DataType::kBytes, std::string("three", 5)}}) {
    arguments.push_back(LiteralArgument{type, bytes});
  }
  graph.buffers[1].file = "";
  graph.buffers[1].fill = std::string("\0\0\0\x3f", 4);
  EXPECT_EQ(graph_of(to_json(graph)), graph) << to_json(graph);
}

TEST(GraphJson, AnUnknownWordIsRefusedWithTheOneThatWasMeant) {
  expect_refused(changed("{\"buffer\": \"x\"}", "{\"buffer\": \"x\", \"ofset_bytes\": 4}"),
                 "steps[0].arguments[0]: there is no 'ofset_bytes' here; did you mean "
                 "'offset_bytes'?");
  expect_refused(changed("\"role\": \"constant\"", "\"role\": \"constnt\""),
                 "buffers[1].role: 'constnt' is not known; did you mean 'constant'?");
  expect_refused(changed("\"FP32\"", "\"FP23\""),
                 "buffers[0].datatype: 'FP23' is not known; did you mean 'FP32'?");
  expect_refused(changed("{\"buffer\": \"done\"}", "{\"buffer\": \"don\"}"),
                 "steps[1].steps[0].arguments[2].buffer: there is no buffer 'don'; did you mean "
                 "'done'?");
}

TEST(GraphJson, WrongTypesAndMissingWordsAreNamedWithTheirPlace) {
  expect_refused("[]", "the graph: an object is expected");
  expect_refused("{", "the graph is no JSON, at byte 2");
  expect_refused(std::string("{}\0more", 7), "the graph is no JSON: a zero byte at byte 3");
  expect_refused("{\"buffers\": []}", "the graph: 'steps' is missing");
  expect_refused(changed("\"kernel\": \"add\", ", ""), "steps[0]: 'kernel' is missing");
  expect_refused(changed("[4]", "[]"), "steps[0].grid: one to three numbers are expected");
  expect_refused(changed("[4]", "4"), "steps[0].grid: a list is expected");
  expect_refused(changed("[4]", "[-4]"),
                 "steps[0].grid[0]: a whole number from 0 to 4294967295 is expected");
  expect_refused(changed("[2, 2]", "[2, 2.5]"),
                 "buffers[0].shape[1]: a whole number from 0 to 9223372036854775807 is expected");
  expect_refused(changed("[2, 2]", "[4611686018427387904, 2]"),
                 "buffers[0].shape: FP32 [4611686018427387904, 2] is too large to be counted");
  expect_refused(changed("\"w\"", "\"x\""), "buffers[1].name: there are two buffers 'x'");
  expect_refused(changed("\"w\"", "\"\""), "buffers[1].name: is empty");
}

TEST(GraphJson, NothingOutsideOfThePackageIsNamed) {
  for (const std::string bundle : {"../math", "/math", "bundles//math", "./math", "lambent:../blas",
                                   "lambent:..", "lambent:", "lambent:a/b"}) {
    expect_refused(changed("bundles/math", bundle),
                   "steps[0].bundle: '" + bundle + "' is not in the package");
  }
  expect_refused(changed("data/w.bin", "data/../../w.bin"),
                 "buffers[1].file: 'data/../../w.bin' is neither in the package nor in a mount");
}

TEST(GraphJson, AConstantMayLieInAMount) {
  const auto graph = parse_graph(changed("data/w.bin", "/weights/v1/w.bin"));
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  EXPECT_EQ(graph->buffers[1].file, "/weights/v1/w.bin");
  EXPECT_EQ(*parse_graph(to_json(*graph)), *graph);
  for (const std::string path : {"/", "/weights/", "/weights/../w.bin", "//w.bin"}) {
    expect_refused(changed("data/w.bin", path),
                   "buffers[1].file: '" + path + "' is neither in the package nor in a mount");
  }
}

TEST(GraphJson, AKeyThatStandsThereTwiceIsRefused) {
  expect_refused(changed("\"kernel\": \"add\"", "\"kernel\": \"add\", \"kernel\": \"sub\""),
                 "steps[0]: an object has 'kernel' twice");
  expect_refused("{\"steps\": [], \"steps\": []}", "the graph: an object has 'steps' twice");
}

// Building such an object would take minutes.
TEST(GraphJson, AnObjectOfVeryManyKeysIsRefusedBeforeItIsBuilt) {
  std::string keys;
  for (int i = 0; i < 200'000; ++i) {
    keys += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":0";
  }
  expect_refused("{" + keys + "}", "the graph: an object has more than 16 keys");
  expect_refused("{\"buffers\":[[],{},{\"fill\":{" + keys + "}}]}",
                 "buffers[2].fill: an object has more than 16 keys");
}

TEST(GraphJson, AListOfVeryManyObjectsIsRefusedForItsLength) {
  std::string objects = "{}";
  for (int i = 1; i < 1'000'000; ++i) objects += ",{}";
  expect_refused("{\"buffers\":[" + objects + "]}",
                 "buffers: has 1000000 entries; at most 4096 are taken");
}

TEST(GraphJson, WhatIsNestedTooDeepIsRefused) {
  const std::string brackets(100'000, '[');
  expect_refused(
      "{\"buffers\":" + brackets + std::string(brackets.size(), ']') + "}", "buffers" + [] {
        std::string place;
        for (size_t i = 2; i < limits::kJsonDepth; ++i) place += "[0]";
        return place;
      }() + ": it is nested more than 32 deep");
}

TEST(GraphJson, ALiteralThatItsDatatypeCannotHoldIsRefused) {
  expect_refused(changed("\"literal\": 4", "\"literal\": -4"),
                 "steps[0].arguments[3].literal: -4 is out of range of UINT32");
  expect_refused(changed("\"literal\": 4", "\"literal\": 4.5"),
                 "steps[0].arguments[3].literal: 4.5 is no value of UINT32");
  expect_refused(changed("[1.5, -2]", "[1.5, true]"),
                 "steps[1].steps[0].arguments[3].literal[1]: true is no value of FP32");
  expect_refused(changed("[1.5, -2]", "[]"),
                 "steps[1].steps[0].arguments[3].literal: 0 bytes are no FP32");
  expect_refused(changed("[1.5, -2], \"datatype\": \"FP32\"", "1, \"datatype\": \"FP16\""),
                 "steps[1].steps[0].arguments[3].literal: FP16 has no JSON form; give its bytes in "
                 "base64");
  expect_refused(changed("[1.5, -2]", "{\"base64\": \"AAA=\"}"),
                 "steps[1].steps[0].arguments[3].literal: 2 bytes are no FP32");
}

TEST(GraphJson, WhatIsTooMuchIsRefusedByName) {
  expect_refused(std::string(limits::kGraphJson.count + 1, ' '), "the graph: is larger than 4 MiB");
  expect_refused(changed("\"x\"", "\"" + std::string(257, 'x') + "\""),
                 "buffers[0].name: has more than 256 characters");

  std::string step =
      "{\"kernel\":\"k\",\"bundle\":\"b\",\"grid\":[1],\"block\":[1],\"arguments\":[]}";
  std::string deep = step;
  for (size_t i = 0; i <= limits::kGraphDepth; ++i)
    deep = "{\"repeat\":1,\"steps\":[" + deep + "]}";
  expect_refused("{\"buffers\":[],\"steps\":[" + deep + "]}",
                 "steps[0].steps[0].steps[0].steps[0].steps[0]: more than 4 repeats lie in each "
                 "other");

  std::string half;
  for (size_t i = 0; i < limits::kGraphSteps / 2; ++i) half += (i > 0 ? "," : "") + step;
  const std::string loop = "{\"repeat\":1,\"steps\":[" + half + "]}";
  expect_refused("{\"buffers\":[],\"steps\":[" + loop + "," + loop + "]}",
                 "steps[1].steps[2046]: more than 4096 steps, with those in repeats");

  std::string arguments;
  for (size_t i = 0; i <= limits::kGraphArguments; ++i) {
    arguments += std::string(i > 0 ? "," : "") + "{\"literal\":1,\"datatype\":\"INT8\"}";
  }
  step.replace(step.find("[]"), 2, "[" + arguments + "]");
  expect_refused("{\"buffers\":[],\"steps\":[" + step + "]}",
                 "steps[0].arguments: has 257 entries; at most 256 are taken");
}

TEST(GraphJson, VariantsAreReadAndWritten) {
  const KernelGraph graph = graph_of(kVariants);
  EXPECT_EQ(variants_of(graph), (std::vector<uint64_t>{1, 4}));
  ASSERT_TRUE(graph.batches.has_value());
  EXPECT_EQ(graph.batches->most_wait, microseconds(1500));
  EXPECT_EQ(graph.batches->slo, Duration::zero());
  EXPECT_EQ(graph_of(to_json(graph)), graph) << to_json(graph);
}

TEST(GraphJson, AVariantStandsByItself) {
  const auto with = [](const std::string& from, const std::string& to) {
    return changed(from, to, kVariants);
  };
  expect_refused(with("\"batch\": 1", "\"batch\": 0"),
                 "steps[0]: a variant has 1 element at least");
  expect_refused(with("\"batch\": 1", "\"batch\": 65537"),
                 "steps[0].batch: a whole number from 0 to 65536 is expected");
  expect_refused(with("\"batch\": 1", "\"batch\": 1, \"repeat\": 2"),
                 "steps[0]: there is no 'repeat' here");
  expect_refused(with("\"batch\": 1, \"steps\": [",
                      "\"batch\": 1, \"steps\": [{\"batch\": 1, \"steps\": []},"),
                 "steps[0].steps[0]: a variant is no part of another step");
  expect_refused(with("1500", "-1"),
                 "batches.wait_us: a whole number from 0 to 3600000000 is expected");
}

}  // namespace
}  // namespace lambent::kernel_graph
