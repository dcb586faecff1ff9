#include "decide/kernel_graph/request.h"
#include "core/domain/tensor_content.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "core/base/base64.h"
#include "core/domain/limits.h"
#include "core/domain/tensor_limits.h"
#include "decide/kernel_graph/testing/testing.h"

namespace lambent::kernel_graph {
namespace {

Buffer buffer(const std::string& name, BufferRole role, DataType type,
              std::vector<uint64_t> shape) {
  return {.name = name, .role = role, .type = {type, std::move(shape)}};
}

// Two inputs, an output, one that is both, and a temporary, which no request may name.
RequestCodec codec() {
  KernelGraph graph;
  graph.buffers = {buffer("x", BufferRole::kInput, DataType::kFp32, {2, 2}),
                   buffer("scratch", BufferRole::kTemporary, DataType::kFp32, {2}),
                   buffer("count", BufferRole::kInOut, DataType::kUint8, {}),
                   buffer("y", BufferRole::kOutput, DataType::kFp64, {3})};
  return RequestCodec(graph);
}

RequestCodec codec_of(DataType type, std::vector<uint64_t> shape) {
  KernelGraph graph;
  graph.buffers = {buffer("x", BufferRole::kInput, type, shape),
                   buffer("y", BufferRole::kOutput, type, shape)};
  return RequestCodec(graph);
}

template <typename Number>
std::vector<Number> numbers(std::string_view bytes) {
  std::vector<Number> result(bytes.size() / sizeof(Number));
  std::memcpy(result.data(), bytes.data(), bytes.size());
  return result;
}
template <typename Number>
std::string bytes_of(std::vector<Number> values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Number));
}

Request decoded(const RequestCodec& codec, std::string_view payload) {
  auto request = codec.decode("", payload);
  EXPECT_TRUE(request.ok()) << (request.ok() ? "" : to_string(request.error()));
  return request.ok() ? *std::move(request) : Request{};
}

void expect_refused(const RequestCodec& codec, std::string_view payload,
                    const std::string& message) {
  const auto request = codec.decode(kJsonContentType, payload);
  ASSERT_FALSE(request.ok()) << payload;
  EXPECT_EQ(request.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(request.error().message, message);
}

std::string repeated(std::string_view text, size_t times) {
  std::string all;
  for (size_t i = 0; i < times; ++i) all += text;
  return all;
}

// A request to codec() whose x has this data.
std::string with_data(const std::string& data) {
  return R"({"inputs":[{"name":"x","data":)" + data + R"(},{"name":"count","data":[1]}]})";
}

TEST(Request, BringsItsInputsInTheOrderOfTheGraph) {
  const Request request = decoded(codec(), R"({"id": "mine", "inputs": [
      {"name": "count", "datatype": "UINT8", "shape": [], "data": [7]},
      {"name": "x", "datatype": "FP32", "shape": [2, 2], "data": [1, -2.5, 3e1, 4]}]})");
  EXPECT_EQ(request.id, "mine");
  ASSERT_EQ(request.inputs.size(), 2u);
  EXPECT_EQ(request.inputs[0].buffer, 0u);
  EXPECT_EQ(numbers<float>(request.inputs[0].bytes), (std::vector<float>{1, -2.5, 30, 4}));
  EXPECT_EQ(request.inputs[1].buffer, 2u);
  EXPECT_EQ(request.inputs[1].bytes, "\7");
  // All outputs, by value.
  ASSERT_EQ(request.outputs.size(), 2u);
  EXPECT_EQ(request.outputs[0].buffer, 2u);
  EXPECT_EQ(request.outputs[1].buffer, 3u);
  EXPECT_FALSE(request.outputs[0].as_object);
}

TEST(Request, KeysMayComeInAnyOrder) {
  const Request request = decoded(codec(), R"({"outputs": [], "inputs": [
      {"data": [[1, 2], [3, 4]], "shape": [2, 2], "name": "x", "datatype": "FP32"},
      {"data": [9], "name": "count"}]})");
  EXPECT_EQ(numbers<float>(request.inputs[0].bytes), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(request.inputs[1].bytes, "\11");
}

TEST(Request, ParametersOfTheRequestHoldForOutputsThatItDoesNotName) {
  const auto text = [](const std::string& rest) {
    return R"({"inputs": [{"name": "x", "data": [1, 2, 3, 4]}, {"name": "count", "data": [1]}], )" +
           rest + "}";
  };
  const Request request = decoded(codec(), text(R"("parameters": {"object": true})"));
  ASSERT_EQ(request.outputs.size(), 2u);
  EXPECT_TRUE(request.outputs[0].as_object);
  EXPECT_TRUE(request.outputs[1].as_object);
  EXPECT_NE(request.outputs[0].buffer, request.outputs[1].buffer);
  expect_refused(codec(), text(R"("parameters": {"object": true}, "outputs": [{"name": "y"}])"),
                 "parameters: they are for requests without 'outputs'; each of those has its own");
}

TEST(Request, ObjectsMayStayOnTheDevice) {
  const auto text = [](const std::string& parameters) {
    return R"({"inputs": [{"name": "x", "data": [1, 2, 3, 4]}, {"name": "count", "data": [1]}],
               "outputs": [{"name": "y", "parameters": {)" +
           parameters + "}}]}";
  };
  EXPECT_TRUE(decoded(codec(), text(R"("keep": "device", "object": true)")).outputs[0].on_device);
  EXPECT_FALSE(decoded(codec(), text(R"("object": true, "keep": "host")")).outputs[0].on_device);
  EXPECT_FALSE(decoded(codec(), text(R"("object": true)")).outputs[0].on_device);
  for (const char* parameters : {R"("keep": "device")", R"("keep": "device", "object": false)",
                                 R"("keep": "device", "base64": true)"}) {
    expect_refused(codec(), text(parameters),
                   "outputs[0].parameters.keep: it is for outputs that become objects "
                   "('object': true)");
  }
  for (const char* keep : {R"("disk")", R"("")", "true", "1", "null", R"(["device"])"}) {
    expect_refused(codec(), text(R"("object": true, "keep": )" + std::string(keep)),
                   "outputs[0].parameters.keep: 'device' or 'host' is expected");
  }
}

TEST(Request, ObjectsStandForInputsAndOutputs) {
  const ObjectId object{{0x1234, 0x5678}, 3};
  const Request request = decoded(
      codec(), R"({"inputs": [{"name": "x", "parameters": {"object": ")" + to_string(object) +
                   R"("}}, {"name": "count", "data": [1]}],
                   "outputs": [{"name": "y", "parameters": {"object": true}}]})");
  EXPECT_EQ(request.inputs[0].object, object);
  ASSERT_EQ(request.outputs.size(), 1u);
  EXPECT_EQ(request.outputs[0].buffer, 3u);
  EXPECT_TRUE(request.outputs[0].as_object);
  const AnswerOutput answer{.object = ObjectId{{1, 2}, 1}};
  EXPECT_EQ(*codec().encode(request, std::span(&answer, 1)),
            R"({"outputs":[{"name":"y","datatype":"FP64","shape":[3],"parameters":)"
            R"({"object":"00000000-0000-0001-0000-000000000002.1"}}]})");
}

TEST(Request, AnswersSayWhatTheyHold) {
  const Request request = decoded(codec(), with_data("[1,2,3,4]").insert(1, R"("id":"a\"b",)"));
  const std::string y = bytes_of<double>({0.1, -1e300, 5});
  const AnswerOutput answer[] = {{.bytes = "\x2a"}, {.bytes = y}};
  EXPECT_EQ(*codec().encode(request, answer),
            R"({"id":"a\"b","outputs":[{"name":"count","datatype":"UINT8","shape":[],"data":[42]},)"
            R"({"name":"y","datatype":"FP64","shape":[3],"data":[0.1,-1e+300,5]}]})");
  EXPECT_EQ(RequestCodec::content_type(request), kJsonContentType);
}

TEST(Request, RawBytesGoInAndOut) {
  const std::string payload = bytes_of<float>({1, 2, 3, 4}) + "\7";
  const RequestCodec codec = kernel_graph::codec();
  const auto request = codec.decode("Application/Octet-Stream; charset=binary", payload);
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(numbers<float>(request->inputs[0].bytes), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(request->inputs[1].bytes, "\7");
  const std::string y = bytes_of<double>({1, 2, 3});
  const AnswerOutput answer[] = {{.bytes = "\x2a"}, {.bytes = y}};
  EXPECT_EQ(*codec.encode(*request, answer), "\x2a" + y);
  EXPECT_EQ(RequestCodec::content_type(*request), kRawContentType);

  EXPECT_EQ(codec.decode(kRawContentType, "short").error().message,
            "the request: 5 bytes are given, the 2 inputs have 17");
}

TEST(Request, OtherContentTypesAreRefused) {
  EXPECT_EQ(codec().decode("text/plain", "{}").error().message,
            "content type 'text/plain' is not known; application/json and "
            "application/octet-stream are");
}

TEST(Request, AFunctionWithoutInputsNeedsNoPayload) {
  KernelGraph graph;
  graph.buffers = {buffer("y", BufferRole::kOutput, DataType::kInt8, {1})};
  EXPECT_EQ(decoded(RequestCodec(graph), "").outputs.size(), 1u);
}

template <typename Number>
void expect_round_trip(DataType type, std::vector<Number> values, const std::string& text) {
  const RequestCodec codec = codec_of(type, {values.size()});
  const Request request = decoded(codec, R"({"inputs":[{"name":"x","data":)" + text + "}]}");
  ASSERT_EQ(request.inputs.size(), 1u);
  EXPECT_EQ(request.inputs[0].bytes, bytes_of(values));
  const AnswerOutput answer{.bytes = request.inputs[0].bytes};
  EXPECT_EQ(*codec.encode(request, std::span(&answer, 1)),
            R"({"outputs":[{"name":"y","datatype":")" + std::string(name_of(type)) +
                R"(","shape":[)" + std::to_string(values.size()) + R"(],"data":)" + text + "}]}");
}

TEST(Request, EveryDatatypeWithNumbersComesBackAsItWasWritten) {
  expect_round_trip<uint8_t>(DataType::kBool, {1, 0}, "[true,false]");
  expect_round_trip<uint8_t>(DataType::kUint8, {0, 255}, "[0,255]");
  expect_round_trip<uint16_t>(DataType::kUint16, {65535}, "[65535]");
  expect_round_trip<uint32_t>(DataType::kUint32, {UINT32_MAX}, "[4294967295]");
  expect_round_trip<uint64_t>(DataType::kUint64, {UINT64_MAX}, "[18446744073709551615]");
  expect_round_trip<int8_t>(DataType::kInt8, {-128, 127}, "[-128,127]");
  expect_round_trip<int16_t>(DataType::kInt16, {-32768}, "[-32768]");
  expect_round_trip<int32_t>(DataType::kInt32, {INT32_MIN}, "[-2147483648]");
  expect_round_trip<int64_t>(DataType::kInt64, {INT64_MIN}, "[-9223372036854775808]");
  expect_round_trip<float>(DataType::kFp32, {0.1f, 16777216, -0.0f, 1e-45f},
                           "[0.1,16777216,-0,1e-45]");
  expect_round_trip<double>(DataType::kFp64, {0.1, 1e308}, "[0.1,1e+308]");
  const float infinity = std::numeric_limits<float>::infinity();
  expect_round_trip<float>(DataType::kFp32, {infinity, -infinity}, R"(["Infinity","-Infinity"])");
}

TEST(Request, NaNComesAndGoesAsText) {
  const RequestCodec codec = codec_of(DataType::kFp32, {1});
  const Request request = decoded(codec, R"({"inputs":[{"name":"x","data":["NaN"]}]})");
  EXPECT_TRUE(std::isnan(numbers<float>(request.inputs[0].bytes)[0]));
  const AnswerOutput answer{.bytes = request.inputs[0].bytes};
  EXPECT_THAT(*codec.encode(request, std::span(&answer, 1)), testing::HasSubstr(R"(["NaN"])"));
}

TEST(Request, WhatHasNoNumbersTravelsInBase64) {
  for (const DataType type : {DataType::kBytes, DataType::kFp16, DataType::kBf16}) {
    const RequestCodec codec = codec_of(type, {2});
    const std::string bytes(byte_size({type, {2}})->count, '\x3c');
    const std::string text = base64_encode(bytes);
    const Request request = decoded(codec, R"({"inputs":[{"name":"x","data":")" + text + "\"}]}");
    EXPECT_EQ(request.inputs[0].bytes, bytes);
    const AnswerOutput answer{.bytes = bytes};
    EXPECT_THAT(*codec.encode(request, std::span(&answer, 1)),
                testing::HasSubstr("\"data\":\"" + text + "\""));
    expect_refused(codec, R"({"inputs":[{"name":"x","data":[1,2]}]})",
                   "inputs[0].data: " + std::string(name_of(type)) +
                       " has no JSON form; give its bytes in base64");
  }
}

TEST(Request, AnyDatatypeMayTravelInBase64) {
  const RequestCodec codec = codec_of(DataType::kInt16, {2});
  const Request request = decoded(codec, R"({"inputs":[{"name":"x","data":"AQACAA=="}],
                                             "outputs":[{"name":"y","parameters":{"base64":true}}]})");
  EXPECT_EQ(numbers<int16_t>(request.inputs[0].bytes), (std::vector<int16_t>{1, 2}));
  const AnswerOutput answer{.bytes = request.inputs[0].bytes};
  EXPECT_THAT(*codec.encode(request, std::span(&answer, 1)),
              testing::HasSubstr("\"data\":\"AQACAA==\""));
  expect_refused(codec, R"({"inputs":[{"name":"x","data":"AQA="}]})",
                 "inputs[0].data: 2 bytes are given, 'x' has 4");
  expect_refused(codec, R"({"inputs":[{"name":"x","data":"AQ"}]})",
                 "inputs[0].data: this is no base64");
}

TEST(Request, NumbersThatTheDatatypeCannotHoldAreRefused) {
  expect_refused(codec_of(DataType::kUint8, {2}), R"({"inputs":[{"name":"x","data":[1,256]}]})",
                 "inputs[0].data[1]: 256 is out of range of UINT8");
  expect_refused(codec_of(DataType::kUint8, {1}), R"({"inputs":[{"name":"x","data":[-1]}]})",
                 "inputs[0].data[0]: -1 is out of range of UINT8");
  expect_refused(codec_of(DataType::kInt32, {1}), R"({"inputs":[{"name":"x","data":[1.0]}]})",
                 "inputs[0].data[0]: 1.0 is no value of INT32");
  expect_refused(codec_of(DataType::kBool, {1}), R"({"inputs":[{"name":"x","data":[2]}]})",
                 "inputs[0].data[0]: 2 is out of range of BOOL");
  expect_refused(codec_of(DataType::kFp32, {1}), R"({"inputs":[{"name":"x","data":[1e39]}]})",
                 "inputs[0].data[0]: 1e39 is out of range of FP32");
  expect_refused(codec_of(DataType::kFp64, {1}), R"({"inputs":[{"name":"x","data":[-1e309]}]})",
                 "inputs[0].data[0]: -1e309 is out of range of FP64");
  expect_refused(codec_of(DataType::kFp32, {1}), R"({"inputs":[{"name":"x","data":["nan"]}]})",
                 "inputs[0].data[0]: \"nan\" is no value of FP32");
  expect_refused(codec_of(DataType::kFp32, {1}), R"({"inputs":[{"name":"x","data":[null]}]})",
                 "inputs[0].data[0]: null is no value of FP32");
}

TEST(Request, NumbersTooSmallBecomeZero) {
  const RequestCodec codec = codec_of(DataType::kFp64, {4});
  const Request request =
      decoded(codec, R"({"inputs":[{"name":"x","data":[1e-400, -1e-400, 0.)" +
                         std::string(400, '0') + R"(1, 0e999999999999999999999]}]})");
  const auto values = numbers<double>(request.inputs[0].bytes);
  for (const double value : values) EXPECT_EQ(value, 0);
  EXPECT_TRUE(std::signbit(values[1]));
}

TEST(Request, AsManyNumbersAsTheShapeSays) {
  expect_refused(codec(), with_data("[1,2,3]"),
                 "inputs[0].data[3]: a number is missing: 'x' is FP32 [2, 2]");
  expect_refused(codec(), with_data("[1,2,3,4,5]"),
                 "inputs[0].data[4]: this number is one too many: 'x' is FP32 [2, 2]");
  expect_refused(codec(), with_data("[[1,2],[3]]"),
                 "inputs[0].data[3]: a number is missing: 'x' is FP32 [2, 2]");
  expect_refused(codec(), with_data("[[1,2],[3,4],[5,6]]"),
                 "inputs[0].data[4]: is nested otherwise than 'x', which is FP32 [2, 2]");
  expect_refused(codec(), with_data("[[1,2]]"),
                 "inputs[0].data[2]: is nested otherwise than 'x', which is FP32 [2, 2]");
  expect_refused(codec(), with_data("[[[1],[2]],[3,4]]"),
                 "inputs[0].data[0]: a number is expected");
  expect_refused(codec(), with_data("[[1,2],3]"),
                 "inputs[0].data[2]: is nested otherwise than 'x', which is FP32 [2, 2]");
  expect_refused(codec(), with_data("7"),
                 "inputs[0].data: a list, or the bytes in base64, is expected");
  expect_refused(codec(), with_data(R"({"base64":"AAAA"})"),
                 "inputs[0].data: a list, or the bytes in base64, is expected");
}

TEST(Request, ATensorThatTheTextCannotHoldTakesNoMemory) {
  expect_refused(codec_of(DataType::kFp32, {1ull << 38}), R"({"inputs":[{"name":"x","data":[1]}]})",
                 "inputs[0].data: 'x' is FP32 [274877906944], which is more than there is in the "
                 "request");
}

TEST(Request, NamesTypesAndShapesAreThoseOfTheGraph) {
  expect_refused(codec(), R"({"inputs":[{"name":"X2","data":[1]}]})",
                 "inputs[0].name: there is no input 'X2'");
  expect_refused(codec(), R"({"inputs":[{"name":"coumt","data":[1]}]})",
                 "inputs[0].name: there is no input 'coumt'; did you mean 'count'?");
  expect_refused(codec(), R"({"inputs":[{"name":"scratch","data":[1]}]})",
                 "inputs[0].name: there is no input 'scratch'");
  expect_refused(codec(), R"({"outputs":[{"name":"x"}]})",
                 "outputs[0].name: there is no output 'x'; did you mean 'y'?");
  expect_refused(codec(), R"({"inputs":[{"name":"x","datatype":"FP64","data":[1,2,3,4]}]})",
                 "inputs[0].datatype: 'FP64' is given, 'x' is FP32 [2, 2]");
  expect_refused(codec(), R"({"inputs":[{"name":"x","shape":[4],"data":[1,2,3,4]}]})",
                 "inputs[0].shape: [4] is given, 'x' is FP32 [2, 2]");
  expect_refused(codec(), R"({"inputs":[{"name":"x","shape":[2.5],"data":[1,2,3,4]}]})",
                 "inputs[0].shape[0]: a whole number is expected");
}

TEST(Request, WhatIsMissingOrThereTwiceIsNamed) {
  expect_refused(codec(), R"({"inputs":[{"name":"x","data":[1,2,3,4]}]})",
                 "inputs: 'count' is missing");
  expect_refused(codec(), "{}", "inputs: 'x' is missing");
  expect_refused(codec(), R"({"inputs":[{"data":[1]}]})", "inputs[0]: 'name' is missing");
  expect_refused(codec(), R"({"inputs":[{"name":"x"}]})",
                 "inputs[0]: 'x' has neither 'data' nor an object; one of the two is expected");
  expect_refused(codec(),
                 R"({"inputs":[{"name":"count","data":[1],"parameters":{"object":")" +
                     to_string(ObjectId{}) + R"("}}]})",
                 "inputs[0]: 'count' has both 'data' and an object; one of the two is expected");
  expect_refused(codec(), R"({"inputs":[{"name":"count","data":[1]},{"name":"count","data":[1]}]})",
                 "inputs[1]: 'count' stands there twice");
  expect_refused(codec(), R"({"inputs":[{"name":"count","data":[1],"data":[2]}]})",
                 "inputs[0]: 'data' stands there twice");
  expect_refused(codec(), R"({"inputs":[],"inputs":[]})",
                 "the request: 'inputs' stands there twice");
  expect_refused(codec(), R"({"outputs":[{"name":"y"},{"name":"y"}]})",
                 "outputs[1]: 'y' stands there twice");
}

TEST(Request, UnknownKeysAndWrongKindsAreRefused) {
  expect_refused(codec(), R"({"input":[]})",
                 "the request: there is no 'input' here; did you mean 'inputs'?");
  expect_refused(codec(), R"({"inputs":[{"name":"x","dtype":"FP32"}]})",
                 "inputs[0]: there is no 'dtype' here");
  expect_refused(codec(), R"({"inputs":[{"name":"x","parameters":{"objekt":"a"}}]})",
                 "inputs[0].parameters: there is no 'objekt' here; did you mean 'object'?");
  expect_refused(codec(), R"({"inputs":[{"name":"x","parameters":{"object":"a"}}]})",
                 "inputs[0].parameters.object: 'a' is no object's id");
  expect_refused(codec(), R"({"outputs":[{"name":"y","parameters":{"object":1}}]})",
                 "outputs[0].parameters: true or false is expected");
  expect_refused(codec(), R"({"inputs":{}})",
                 "inputs: the JSON is wrong at byte 10: a list is missing");
  expect_refused(codec(), "[1]", "the request: the JSON is wrong at byte 0: an object is missing");
  expect_refused(codec(), R"({"inputs":[{"name":"x","data":[1,2,3,04]}]})",
                 "inputs[0].data[3]: the JSON is wrong at byte 37: this is no number");
  expect_refused(codec(), with_data("[1,2,3,4]") + "x", "the request: something follows its end");
}

TEST(Request, AKeyWithEscapesIsNamedAlsoWhenItsTextIsWrong) {
  // The key and the text are unescaped in the same memory, which the long text moves.
  expect_refused(codec(),
                 R"({"id":")" + repeated(R"(\u0041)", 100) + R"(","inputs":[{"dat\u0061type":")" +
                     repeated(R"(\u0041)", 500) + R"(\ud800"}]})",
                 "inputs[0].datatype: the JSON is wrong at byte 3644: a string has a wrong escape");
  expect_refused(codec(), R"({"inputs":[{"n\u0061me":"\u0041\ud800"}]})",
                 "inputs[0].name: the JSON is wrong at byte 38: a string has a wrong escape");
}

TEST(Request, AnswersThatWouldBeTooLargeAreRefusedBeforeAnythingRuns) {
  const uint64_t too_many = limits::kResponsePayload.count + 1;
  KernelGraph graph;
  graph.buffers = {buffer("y", BufferRole::kOutput, DataType::kUint8, {too_many})};
  const RequestCodec codec(graph);
  const auto refused = codec.decode("", "{}");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kOutOfRange);
  EXPECT_EQ(refused.error().message,
            "outputs: 6291457 bytes by value are more than the 6291456 that an answer may have; "
            "ask for them as objects");
  EXPECT_TRUE(codec.decode("", R"({"outputs":[{"name":"y","parameters":{"object":true}}]})").ok());
}

TEST(Request, TensorsOfModelsMayBeMore) {
  const uint64_t most = limits::kTensorPayload.count;
  for (const uint64_t bytes : {limits::kResponsePayload.count + 1, most, most + 1}) {
    KernelGraph graph;
    graph.buffers = {buffer("y", BufferRole::kOutput, DataType::kUint8, {bytes})};
    const RequestCodec codec(graph);
    const auto request = codec.decode(kTensorContentType, "");
    EXPECT_EQ(request.ok(), bytes <= most) << bytes;
    EXPECT_FALSE(codec.decode(kRawContentType, "").ok());
    if (request.ok()) continue;
    EXPECT_EQ(request.error().code, ErrorCode::kOutOfRange);
    EXPECT_EQ(request.error().message,
              "outputs: 67108865 bytes by value are more than the 67108864 that an answer may "
              "have; ask for them as objects");
  }
}

TEST(Request, AnswersThatTurnOutTooLargeAreRefused) {
  const uint64_t count = limits::kResponsePayload.count / 2;
  KernelGraph graph;
  graph.buffers = {buffer("y", BufferRole::kOutput, DataType::kUint8, {count})};
  const RequestCodec codec(graph);
  const auto request = codec.decode("", "{}");
  ASSERT_TRUE(request.ok());
  const std::string y(count, '\xff');  // "255," for each
  const AnswerOutput answer{.bytes = y};
  EXPECT_EQ(codec.encode(*request, std::span(&answer, 1)).error().code, ErrorCode::kOutOfRange);
}

RequestCodec codec_of_variants() { return RequestCodec(graph_of(kVariants)); }
std::string elements_of(size_t count) { return std::string(count * 256, 'x'); }

TEST(RequestCodec, ARequestRunsTheSmallestVariantThatHoldsIt) {
  const RequestCodec codec = codec_of_variants();
  for (const auto& [elements, variant] :
       std::vector<std::pair<uint64_t, uint64_t>>{{1, 1}, {2, 4}, {3, 4}, {4, 4}}) {
    const std::string payload = elements_of(elements);
    const auto request = codec.decode(kRawContentType, payload);
    ASSERT_TRUE(request.ok()) << to_string(request.error());
    EXPECT_EQ(request->elements, elements);
    EXPECT_EQ(request->variant, variant);
    EXPECT_EQ(request->inputs[0].bytes.size(), payload.size());
    EXPECT_EQ(codec.size_of(1, elements), Bytes(elements * 256));
    EXPECT_EQ(codec.type_of(1, elements).shape, (std::vector<uint64_t>{elements, 64}));
    EXPECT_EQ(*codec.encode(*request, std::vector<AnswerOutput>{{.bytes = payload}}), payload);
  }
}

TEST(RequestCodec, WhatFitsNoVariantIsRefused) {
  const RequestCodec codec = codec_of_variants();
  for (const std::string& payload : {elements_of(5), elements_of(0), elements_of(1) + "x"}) {
    const auto request = codec.decode(kRawContentType, payload);
    ASSERT_FALSE(request.ok());
    EXPECT_EQ(request.error().message, "the request: " + std::to_string(payload.size()) +
                                           " bytes are given, the 1 inputs have 1 to 4 times 256");
  }
  expect_refused(codec, R"({"inputs": [{"name": "x", "shape": [5, 64], "data": []}]})",
                 "inputs[0].shape[0]: 5 is given; a request has 1 to 4 elements");
  expect_refused(codec, R"({"inputs": [{"name": "x", "shape": [2, 63], "data": []}]})",
                 "inputs[0].shape: [2, 63] is given, 'x' is FP32 [2, 64]");
  expect_refused(codec, R"({"inputs": [{"name": "x", "data": [1]}]})",
                 "inputs[0].data: 'x' is FP32 [4, 64], which is more than there is in the request");
}

TEST(RequestCodec, AnAnswerInJsonHasAsManyElementsAsTheRequest) {
  const RequestCodec codec = codec_of_variants();
  const std::string bytes = elements_of(2);
  // The shape may follow the content.
  const Request request = decoded(codec, R"({"inputs": [{"name": "x", "data": ")" +
                                             base64_encode(bytes) + R"(", "shape": [2, 64]}],
                                             "parameters": {"base64": true}})");
  EXPECT_EQ(request.inputs[0].bytes, bytes);
  EXPECT_EQ(*codec.encode(request, std::vector<AnswerOutput>{{.bytes = bytes}}),
            R"({"outputs":[{"name":"y","datatype":"FP32","shape":[2,64],"data":")" +
                base64_encode(bytes) + "\"}]}");
}

TEST(RequestCodec, InputsBringTheSameNumberOfElements) {
  KernelGraph graph = graph_of(kVariants);
  graph.buffers.push_back(buffer("z", BufferRole::kInput, DataType::kInt8, {4}));
  const RequestCodec codec(graph);
  expect_refused(codec, R"({"inputs": [{"name": "z", "shape": [2], "data": [1, 2]},
                                       {"name": "x", "shape": [1, 64], "data": ""}]})",
                 "inputs[1]: 'x' brings 1 elements, and another input does not");
}

TEST(RequestCodec, ObjectsMayHaveAnyNumberOfElements) {
  const RequestCodec codec = codec_of_variants();
  const auto request = [](int elements) {
    return R"({"inputs": [{"name": "x", "shape": [)" + std::to_string(elements) +
           R"(, 64], "parameters": {"object": "00000000-0000-0001-0000-000000000002.1"}}]})";
  };
  EXPECT_EQ(decoded(codec, request(1)).variant, 1u);
  EXPECT_EQ(decoded(codec, request(3)).variant, 4u);
  EXPECT_EQ(decoded(codec, request(3)).inputs[0].elements, 3u);
}

// Of the graph with variants: a part in JSON, one in bytes, and one that reads an object.
TEST(RequestCodec, RequestsOfOneBatchLieOneBehindTheOther) {
  const RequestCodec codec = codec_of_variants();
  const std::string first = R"({"id": "a", "inputs": [{"name": "x", "shape": [1, 64], "data": ")" +
                            base64_encode(elements_of(1)) +
                            R"("}], "parameters": {"object": true, "keep": "device"}})";
  const std::string second = elements_of(2);
  const std::string third =
      R"({"inputs": [{"name": "x", "shape": [1, 64],
                      "parameters": {"object": "00000000-0000-0001-0000-000000000002.1"}}],
          "parameters": {"base64": true}})";
  const std::string payload = join_batch(
      std::vector<BatchPart>{{"", first}, {kRawContentType, second}, {kJsonContentType, third}});
  const auto request = codec.decode(kBatchContentType, payload);
  ASSERT_TRUE(request.ok()) << to_string(request.error());
  EXPECT_EQ(request->elements, 4u);
  EXPECT_EQ(request->variant, 4u);
  ASSERT_EQ(request->inputs.size(), 3u);
  EXPECT_EQ(request->inputs[1].first, 1u);
  EXPECT_EQ(request->inputs[1].elements, 2u);
  EXPECT_EQ(request->inputs[1].bytes, second);
  EXPECT_EQ(request->inputs[2].first, 3u);
  EXPECT_TRUE(request->inputs[2].object.has_value());
  ASSERT_EQ(request->outputs.size(), 3u);
  EXPECT_TRUE(request->outputs[0].on_device);
  EXPECT_FALSE(request->outputs[1].as_object);
  EXPECT_EQ(request->outputs[2].first, 3u);
  EXPECT_EQ(codec.offset_of(1, 3), Bytes(768));

  const std::string bytes = elements_of(1);
  const auto answer = codec.encode(
      *request, std::vector<AnswerOutput>{
                    {.object = ObjectId{{1, 2}, 0}}, {.bytes = second}, {.bytes = bytes}});
  ASSERT_TRUE(answer.ok()) << to_string(answer.error());
  EXPECT_EQ(RequestCodec::content_type(*request), kBatchContentType);
  const auto answers = split_batch(*answer, 3);
  ASSERT_TRUE(answers.ok());
  ASSERT_EQ(answers->size(), 3u);
  EXPECT_EQ((*answers)[0].payload,
            R"({"id":"a","outputs":[{"name":"y","datatype":"FP32","shape":[1,64],)"
            R"("parameters":{"object":"00000000-0000-0001-0000-000000000002.0"}}]})");
  EXPECT_EQ((*answers)[1], (BatchPart{kRawContentType, second}));
  EXPECT_EQ((*answers)[2].payload,
            R"({"outputs":[{"name":"y","datatype":"FP32","shape":[1,64],"data":")" +
                base64_encode(bytes) + "\"}]}");
}

TEST(RequestCodec, ABatchThatCannotRunIsRefusedWithItsPlace) {
  const RequestCodec codec = codec_of_variants();
  const auto refused = [&](const RequestCodec& of, std::string payload) {
    const auto request = of.decode(kBatchContentType, payload);
    return request.ok() ? std::string() : request.error().message;
  };
  const auto batch = [](std::vector<std::string> parts) {
    std::vector<BatchPart> raw;
    for (const std::string& part : parts) raw.push_back({kRawContentType, part});
    return join_batch(raw);
  };
  EXPECT_EQ(refused(codec, batch({elements_of(3), elements_of(2)})),
            "batch[1]: with it the batch has 5 elements; the largest variant has 4");
  EXPECT_EQ(refused(codec, batch({elements_of(1), "x"})),
            "batch[1]: the request: 1 bytes are given, the 1 inputs have 1 to 4 times 256");
  EXPECT_EQ(refused(codec, ""), "the batch: it is empty");
  EXPECT_EQ(refused(codec, batch({"x"}).substr(0, 8)), "the batch: it is cut off");
  EXPECT_EQ(refused(codec, batch({"", "", "", "", ""})), "the batch: it has more than 4 requests");
  // None within another.
  const std::string inner = batch({elements_of(1)});
  EXPECT_EQ(refused(codec, join_batch(std::vector<BatchPart>{{kBatchContentType, inner}})),
            "batch[0]: content type 'application/vnd.lambent.batch' is not known; "
            "application/json and application/octet-stream are");
  KernelGraph plain;
  plain.buffers = {buffer("y", BufferRole::kOutput, DataType::kUint8, {1})};
  EXPECT_EQ(refused(RequestCodec(plain), batch({""})),
            "the batch: requests run together only where there are variants for batch sizes");
}

}  // namespace
}  // namespace lambent::kernel_graph
