// The worker's protocol spoken to a real lambent-executor on the emulated device: packages,
// requests by value, their graphs, and its end.
#include <gmock/gmock.h>

#include <cstring>
#include <numeric>

#include "decide/kernel_graph/request.h"
#include "gpu/bundle/bundle.h"
#include "gpu/bundle/manifest.h"
#include "gpu/executor/testing/function_testing.h"

namespace lambent::executor {
namespace {

using protocol::Finished;
using testing::HasSubstr;

TEST_F(ExecutorTest, ARequestByValueIsAnsweredByValue) {
  add(1, process_->package(affine(2)));
  EXPECT_EQ(run(1, 1, {1, 2}), (std::vector<int>{4, 7}));
  EXPECT_EQ(run(2, 1, {10, -5}), (std::vector<int>{31, -14}));
  process_->run(3, 1, R"({"inputs": [{"name": "x", "data": [5, 6]}]})", "application/json");
  const auto finished = process_->expect<Finished>();
  ASSERT_TRUE(finished.has_value());
  EXPECT_EQ(finished->content_type, "application/json");
  EXPECT_THAT(finished->payload, HasSubstr("16"));
  EXPECT_THAT(finished->payload, HasSubstr("19"));
  EXPECT_GT(finished->device_memory, Bytes(0));
}

// The driver's thread takes no time of its own for the way out; the loop does.
TEST_F(ExecutorTest, ShortAnswersAreTheDriversThreadsAndLongOnesTheLoops) {
  const size_t most = 4096;  // values in 16 KiB
  uint64_t instance = 0;
  for (const size_t count : {size_t{2}, most, most + 1}) {
    add(++instance, process_->package(affine(count)));
    process_->run(1, instance, bytes_of(std::vector<int>(count, 5)));
    std::vector<OwnedFd> fds;
    const auto finished = process_->expect<Finished>(&fds);
    ASSERT_TRUE(finished && !finished->error);
    EXPECT_EQ(ints_of(ExecutorProcess::payload_of(*finished, fds)), std::vector<int>(count, 16));
    EXPECT_GT(finished->run_time, Duration(0));
    EXPECT_EQ(finished->copy_out_time == Duration(0), count <= most) << count;
  }
}

TEST_F(ExecutorTest, WhatTheDriverCannotSayOfAKernelIsNotTakenForItsEnd) {
  start({{"EMULATED_CUDA_FAULTS", "fail cuFuncGetParamInfo call 2 with CUDA_ERROR_OUT_OF_MEMORY"}});
  const Error error = refused(1, affine(2));
  EXPECT_EQ(error.code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(error.message, HasSubstr("cuFuncGetParamInfo"));
}

TEST_F(ExecutorTest, LargeInputsAndOutputsTravelInFilesAndInChunks) {
  const size_t count = 1'400'000;  // three chunks
  add(1, process_->package(affine(count)));
  std::vector<int> input(count), expected(count);
  std::iota(input.begin(), input.end(), -700);
  for (size_t i = 0; i < count; ++i) expected[i] = 3 * input[i] + 1;
  EXPECT_EQ(run(1, 1, input), expected);
  EXPECT_EQ(run(2, 1, input), expected);
}

TEST_F(ExecutorTest, ConstantsComeFromFilesAndFillsAndAreSharedByInstances) {
  Files files = function({buffer("w", "constant", 2, R"(, "file": "w.bin")"),
                          buffer("f", "constant", 2, R"(, "fill": 100)"), buffer("x", "in_out", 2),
                          buffer("y", "output", 2), buffer("z", "output", 2)},
                         {scale("w", "y", 2, 0, 2), scale("f", "z", 1, 1, 2), increment("x", 2)});
  files["w.bin"] = bytes_of({21, 22});
  const std::string package = process_->package(files);
  add(1, package);
  add(2, package);
  for (const uint64_t instance : {1, 2}) {
    EXPECT_EQ(run(1, instance, {0, 0}), (std::vector<int>{1, 1, 42, 44, 101, 101}));
  }
}

TEST_F(ExecutorTest, RepeatsRunAsOftenAsTheySay) {
  // Short ones are written out, long ones launched again and again, with a rest; and nested.
  const auto repeat = [](uint64_t times, const std::string& steps) {
    return R"({"repeat": )" + std::to_string(times) + R"(, "steps": [)" + steps + "]}";
  };
  uint64_t instance = 0;
  for (const uint64_t times : {1, 7, 256, 257, 1000, 17'000}) {
    add(++instance, process_->package(
                        function({buffer("x", "in_out", 2)}, {repeat(times, increment("x", 2))})));
    const int all = static_cast<int>(times);
    EXPECT_EQ(run(1, instance, {0, 5}), (std::vector<int>{all, 5 + all}));
  }
  add(++instance,
      process_->package(function(
          {buffer("x", "in_out", 2)},
          {increment("x", 2), repeat(30, repeat(20, increment("x", 2)) + "," + increment("x", 2)),
           increment("x", 2)})));
  EXPECT_EQ(run(1, instance, {0, 0}), (std::vector<int>{632, 632}));
  EXPECT_EQ(run(2, instance, {0, 0}), (std::vector<int>{632, 632}));
}

TEST_F(ExecutorTest, ALoopEndsWhenItsFlagIsSet) {
  const std::string set_at =
      R"({"kernel": "set_at", "bundle": "bundles/steps", "grid": [1], "block": [1], "arguments":
         [{"buffer": "x", "access": "read"}, {"literal": 10, "datatype": "INT32"},
          {"buffer": "done", "access": "write"}]})";
  const std::string loop =
      R"({"repeat": 50, "until": "done", "steps": [)" + increment("x", 2) + "," + set_at + "]}";
  add(1, process_->package(
             function({buffer("x", "in_out", 2), buffer("done", "temporary", 1)}, {loop})));
  EXPECT_EQ(run(1, 1, {3, 0}), (std::vector<int>{10, 7}));
  EXPECT_EQ(run(2, 1, {9, 0}), (std::vector<int>{10, 1}));
  EXPECT_EQ(run(3, 1, {-1000, 0}), (std::vector<int>{-950, 50}));  // never set
  EXPECT_EQ(run(4, 1, {20, 0}), (std::vector<int>{21, 1}));
}

TEST_F(ExecutorTest, ABuiltInBundleComesWithThePackage) {
  Files files = affine(2);
  std::string& graph = files["graph.json"];
  for (size_t at; (at = graph.find("bundles/steps")) != std::string::npos;) {
    graph.replace(at, strlen("bundles/steps"), "lambent:steps");
  }
  EXPECT_EQ(refused(1, files).code, ErrorCode::kNotFound);
  add_bundle(files, kSteps, "lambent:steps");
  add(1, process_->package(files));
  works(1);
}

TEST_F(ExecutorTest, BadPackagesAreRefusedWithThePlaceNamed) {
  Files no_graph = affine(2);
  no_graph.erase("graph.json");
  EXPECT_EQ(refused(1, no_graph).code, ErrorCode::kNotFound);

  Files wrong_json = affine(2);
  wrong_json["graph.json"] = "{\"buffers\": 3}";
  const Error wrong = refused(1, wrong_json);
  EXPECT_EQ(wrong.code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(wrong.message, HasSubstr("graph.json: buffers"));

  Files no_bundle = affine(2);
  std::erase_if(no_bundle, [](const auto& file) { return file.first.starts_with("bundles"); });
  EXPECT_EQ(refused(1, no_bundle).code, ErrorCode::kNotFound);

  Files corrupt = affine(2);
  corrupt["bundles/steps/host-x86_64.so"][1000] ^= 1;
  const Error damaged = refused(1, corrupt);
  EXPECT_EQ(damaged.code, ErrorCode::kDataLoss);
  EXPECT_THAT(damaged.message, HasSubstr("bundles/steps"));

  const Error no_kernel = refused(
      1, function({buffer("x", "in_out", 2)},
                  {R"({"kernel": "cube", "bundle": "bundles/steps", "grid": [1], "block": [1],
                      "arguments": [{"buffer": "x"}]})"}));
  EXPECT_EQ(no_kernel.code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(no_kernel.message, HasSubstr("steps[0]"));
  EXPECT_THAT(no_kernel.message, HasSubstr("cube"));

  Files no_constant =
      function({buffer("w", "constant", 2, R"(, "file": "w.bin")"), buffer("y", "output", 2)},
               {scale("w", "y", 1, 0, 2)});
  EXPECT_THAT(refused(1, no_constant).message, HasSubstr("w.bin"));
  no_constant["w.bin"] = "short";
  EXPECT_THAT(refused(1, no_constant).message, HasSubstr("w.bin"));

  add(1, process_->package(affine(2)));
  works(1);
}

TEST_F(ExecutorTest, AManifestThatDoesNotFitItsCompiledKernelsIsRefused) {
  // The driver would read a fifth argument of the four that the graph has.
  Files files =
      function({buffer("x", "input", 2), buffer("y", "output", 2)},
               {R"({"kernel": "scale", "bundle": "bundles/steps", "grid": [1], "block": [64],
      "arguments": [{"buffer": "x"}, {"buffer": "y"}, {"literal": 2, "datatype": "INT32"},
                    {"literal": 2, "datatype": "INT32"}]})"});
  auto manifest = bundle::parse_manifest(files["bundles/steps/manifest.json"]);
  ASSERT_TRUE(manifest.ok());
  for (bundle::Kernel& kernel : manifest->kernels) {
    if (kernel.name == "scale") kernel.parameter_sizes.pop_back();
  }
  const auto hash = bundle::content_hash(kSteps, *manifest);
  ASSERT_TRUE(hash.ok());
  manifest->content_sha256 = *hash;
  files["bundles/steps/manifest.json"] = bundle::to_json(*manifest);
  const Error error = refused(1, files);
  EXPECT_EQ(error.code, ErrorCode::kDataLoss);
  EXPECT_THAT(error.message, HasSubstr("the parameters of 'scale' have (8, 8, 4, 4, 4) bytes, its "
                                       "manifest says (8, 8, 4, 4)"));
  add(1, process_->package(affine(2)));
  works(1);
}

TEST_F(ExecutorTest, BadRequestsAreTheClientsMistake) {
  add(1, process_->package(affine(2)));
  EXPECT_EQ(failure(1, 1, bytes_of({1})).code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(failure(2, 1, bytes_of({1, 2, 3})).code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(failure(3, 1, std::string(100'000, 'x')).code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(failure(4, 1, "{", "application/json").code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(failure(5, 77, bytes_of({1, 2})).code, ErrorCode::kNotFound);
  works(1);
}

TEST_F(ExecutorTest, AnInstanceIsFreeForAllThatComesBehindItsAnswer) {
  // The driver's thread answers; the loop may not have heard of it when the next message comes.
  const std::string package = process_->package(affine(2));
  add(1, package);
  for (int i = 0; i < 500; ++i) {
    ASSERT_EQ(run(i, 1, {i, 2}), (std::vector<int>{3 * i + 1, 7})) << i;
  }
  for (uint64_t instance = 2; instance < 50; ++instance) {
    add(instance, package);
    ASSERT_EQ(run(instance, instance, {1, 2}), (std::vector<int>{4, 7}));
    if (instance % 2 == 0) {
      process_->send(protocol::MoveInstance{SandboxId(instance), true});
      std::optional<protocol::InstanceMoved> moved;
      do {  // it was told of when it came in, too
        moved = process_->expect<protocol::InstanceMoved>();
      } while (moved && !moved->out);
      ASSERT_TRUE(moved.has_value());
      ASSERT_TRUE(moved->done) << instance;
      continue;
    }
    // What was answered is not answered again with its instance's end.
    process_->send(protocol::RemoveInstance{SandboxId(instance)});
    EXPECT_EQ(failure(10'000 + instance, instance, bytes_of({1, 2})).code, ErrorCode::kNotFound);
  }
}

TEST_F(ExecutorTest, AFunctionLargerThanItsMemoryIsRefused) {
  Files files = function(
      {buffer("w", "constant", 1'000'000, R"(, "fill": 1)"), buffer("y", "output", 1'000'000)},
      {scale("w", "y", 1, 0, 1'000'000)});
  const Error error = refused(1, files, Bytes::mib(4));
  EXPECT_EQ(error.code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(error.message, HasSubstr("4 MiB"));
}

TEST_F(ExecutorTest, AFaultIsAnsweredAndEndsTheExecutor) {
  const std::string fault =
      R"({"kernel": "fault_below_zero", "bundle": "bundles/steps", "grid": [1], "block": [1],
         "arguments": [{"buffer": "x", "access": "read"}, {"buffer": "y", "access": "write"}]})";
  add(1, process_->package(function({buffer("x", "input", 2), buffer("y", "output", 1)}, {fault})));
  EXPECT_EQ(run(1, 1, {5, 0}), (std::vector<int>{5}));
  const Error error = failure(2, 1, bytes_of({-1, 0}));
  EXPECT_EQ(error.code, ErrorCode::kInternal);
  EXPECT_THAT(error.message, HasSubstr("kernel fault_below_zero"));
  EXPECT_THAT(error.message, HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"));
  const auto broken = process_->expect<protocol::Broken>();
  ASSERT_TRUE(broken.has_value());
  EXPECT_THAT(broken->error.message, HasSubstr("ILLEGAL_ADDRESS"));
  const int status = process_->wait_for_exit();
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 1);
}

TEST_F(ExecutorTest, TheExecutorEndsWithItsWorker) {
  add(1, process_->package(affine(2)));
  shutdown(process_->socket(), SHUT_RDWR);
  const int status = process_->wait_for_exit();
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// y = 3x + 1 for one, two or four pairs; of the first variant with another summand, to be known.
Files pairs() {
  const auto variant = [](int batch, const std::string& steps) {
    return R"({"batch": )" + std::to_string(batch) + R"(, "steps": [)" + steps + "]}";
  };
  const auto pair_of = [](const std::string& name, const std::string& role, int elements) {
    return R"({"name": ")" + name + R"(", "role": ")" + role +
           R"(", "datatype": "INT32", "shape": [)" + std::to_string(elements) + ", 2]}";
  };
  return function(
      {pair_of("x", "input", 4), pair_of("y", "output", 4), pair_of("t1", "temporary", 1),
       pair_of("t2", "temporary", 2), pair_of("t4", "temporary", 4)},
      {variant(1, joined({scale("x", "t1", 3, 0, 2), scale("t1", "y", 1, 100, 2)})),
       variant(2, joined({scale("x", "t2", 3, 0, 4), scale("t2", "y", 1, 200, 4)})),
       variant(4, joined({scale("x", "t4", 3, 0, 8), scale("t4", "y", 1, 400, 8)}))});
}

TEST_F(ExecutorTest, ARequestRunsTheSmallestVariantThatHoldsIt) {
  add(1, process_->package(pairs()));
  EXPECT_EQ(run(1, 1, {1, 2}), (std::vector<int>{103, 106}));
  EXPECT_EQ(run(2, 1, {1, 2, 3, 4}), (std::vector<int>{203, 206, 209, 212}));
  EXPECT_EQ(run(3, 1, {1, 2, 3, 4, 5, 6}), (std::vector<int>{403, 406, 409, 412, 415, 418}));
  EXPECT_EQ(run(4, 1, {5, 6}), (std::vector<int>{115, 118}));
  EXPECT_THAT(failure(5, 1, bytes_of({1, 2, 3})).message, testing::HasSubstr("1 to 4 times 8"));
  EXPECT_EQ(run(6, 1, {1, 2, 3, 4, 5, 6, 7, 8}).size(), 8u);
}

TEST_F(ExecutorTest, AnObjectThatAVariantMakesHasTheElementsOfItsRequest) {
  add(1, process_->package(pairs()));
  process_->run(1, 1,
                R"({"inputs": [{"name": "x", "shape": [3, 2], "data": [1, 2, 3, 4, 5, 6]}],
                    "parameters": {"object": true}})",
                "application/json");
  std::vector<OwnedFd> fds;
  const auto finished = process_->expect<protocol::Finished>(&fds);
  ASSERT_TRUE(finished.has_value());
  ASSERT_FALSE(finished->error.has_value()) << to_string(*finished->error);
  ASSERT_EQ(finished->objects.size(), 1u);
  EXPECT_EQ(finished->objects[0].type.shape, (std::vector<uint64_t>{3, 2}));
  ASSERT_EQ(fds.size(), 1u);
  EXPECT_EQ(lseek(fds[0].get(), 0, SEEK_END), 24);
}

// Three requests in one payload: by value, an object, and one whose output becomes an object.
TEST_F(ExecutorTest, RequestsOfABatchRunTogetherAndEachHasItsAnswer) {
  add(1, process_->package(pairs()));
  process_->run(1, 1,
                R"({"inputs": [{"name": "x", "shape": [1, 2], "data": [1, 2]}],
                    "parameters": {"object": true}})",
                "application/json");
  std::vector<OwnedFd> fds;
  const auto alone = process_->expect<protocol::Finished>(&fds);
  ASSERT_TRUE(alone && !alone->error && alone->objects.size() == 1);
  const std::string y = to_string(alone->objects[0].object);

  const std::string first = bytes_of({1, 2});
  const std::string second =
      R"({"inputs": [{"name": "x", "shape": [1, 2], "parameters": {"object": ")" + y + R"("}}]})";
  const std::string third = R"({"id": "c", "inputs": [{"name": "x", "shape": [2, 2],
                                "data": [3, 4, 5, 6]}], "parameters": {"object": true}})";
  process_->run(2, 1,
                kernel_graph::join_batch(std::vector<kernel_graph::BatchPart>{
                    {"application/octet-stream", first}, {"", second}, {"", third}}),
                std::string(kernel_graph::kBatchContentType));
  const std::string content = ExecutorProcess::content_of(fds[0].get());
  EXPECT_EQ(process_->give_object(alone->objects[0].type, content), alone->objects[0].object);
  std::vector<OwnedFd> made;
  const auto finished = process_->expect<protocol::Finished>(&made);
  ASSERT_TRUE(finished.has_value());
  ASSERT_FALSE(finished->error.has_value()) << to_string(*finished->error);
  EXPECT_EQ(finished->content_type, kernel_graph::kBatchContentType);
  const auto answers = kernel_graph::split_batch(finished->payload, 3);
  ASSERT_TRUE(answers.ok());
  ASSERT_EQ(answers->size(), 3u);
  EXPECT_EQ(ints_of(std::string((*answers)[0].payload)), (std::vector<int>{403, 406}));
  EXPECT_THAT(std::string((*answers)[1].payload), testing::HasSubstr(R"("data":[709,718])"));
  EXPECT_THAT(std::string((*answers)[2].payload), testing::HasSubstr(R"({"id":"c",)"));
  ASSERT_EQ(finished->objects.size(), 1u);
  EXPECT_EQ(finished->objects[0].type.shape, (std::vector<uint64_t>{2, 2}));
  ASSERT_EQ(made.size(), 1u);
  EXPECT_EQ(ints_of(ExecutorProcess::content_of(made[0].get())),
            (std::vector<int>{409, 412, 415, 418}));
}

TEST_F(ExecutorTest, ABatchWithAWrongRequestIsRefusedAsAWhole) {
  add(1, process_->package(pairs()));
  const std::string good = bytes_of({1, 2}), bad = bytes_of({1, 2, 3});
  process_->run(1, 1,
                kernel_graph::join_batch(std::vector<kernel_graph::BatchPart>{
                    {"application/octet-stream", good}, {"application/octet-stream", bad}}),
                std::string(kernel_graph::kBatchContentType));
  const auto finished = process_->expect<protocol::Finished>();
  ASSERT_TRUE(finished && finished->error);
  EXPECT_EQ(finished->error->code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(finished->error->message, testing::HasSubstr("batch[1]: the request: 12 bytes"));
  EXPECT_EQ(run(2, 1, {1, 2}), (std::vector<int>{103, 106}));
}

}  // namespace
}  // namespace lambent::executor
