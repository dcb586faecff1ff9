// What requests read from objects and answer as objects, with a real lambent-executor; the test
// speaks as the worker, which has them.
#include <gmock/gmock.h>

#include "gpu/executor/limits.h"
#include "gpu/executor/testing/function_testing.h"

namespace lambent::executor {
namespace {

using protocol::Finished;
using testing::HasSubstr;

const TensorType kTwo{DataType::kInt32, {2}};
const std::string kFromObject =
    R"({"inputs": [{"name": "x", "parameters": {"object": "00000000-0000-0001-0000-000000000002.5"}}])";

TEST_F(ExecutorTest, AnInputObjectIsFetchedOnceAndAnOutputBecomesOne) {
  add(1, process_->package(affine(2)));
  const std::string wants_object =
      kFromObject + R"(, "outputs": [{"name": "y", "parameters": {"object": true}}]})";
  process_->run(1, 1, wants_object, "application/json");
  EXPECT_EQ(to_string(process_->give_object(kTwo, bytes_of({1, 2}))),
            "00000000-0000-0001-0000-000000000002.5");
  std::vector<OwnedFd> fds;
  auto finished = process_->expect<Finished>(&fds);
  ASSERT_TRUE(finished.has_value());
  ASSERT_FALSE(finished->error.has_value()) << to_string(*finished->error);
  ASSERT_EQ(finished->objects.size(), 1u);
  const ObjectId made = finished->objects[0].object;
  EXPECT_EQ(made, (ObjectId{{7, 1}, 0}));
  EXPECT_EQ(finished->objects[0].type, kTwo);
  ASSERT_EQ(fds.size(), 1u);
  EXPECT_EQ(ints_of(ExecutorProcess::content_of(fds[0].get())), (std::vector<int>{4, 7}));
  EXPECT_EQ(fcntl(fds[0].get(), F_GET_SEALS),
            F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);

  // Neither the input nor what was made is asked for again.
  process_->run(2, 1, kFromObject + "}", "application/json");
  finished = process_->expect<Finished>();
  ASSERT_TRUE(finished.has_value());
  EXPECT_THAT(finished->payload, HasSubstr("[4,7]"));
  process_->run(
      3, 1,
      R"({"inputs": [{"name": "x", "parameters": {"object": ")" + to_string(made) + R"("}}]})",
      "application/json");
  finished = process_->expect<Finished>();
  ASSERT_TRUE(finished.has_value());
  EXPECT_THAT(finished->payload, HasSubstr("[13,22]"));
}

TEST_F(ExecutorTest, AnObjectThatCannotBeHadFailsItsRequestWithItsCause) {
  add(1, process_->package(affine(2)));
  process_->run(1, 1, kFromObject + "}", "application/json");
  auto asked = process_->expect<protocol::OpenObject>();
  ASSERT_TRUE(asked.has_value());
  process_->send(protocol::ObjectOpened{asked->object, Error{ErrorCode::kNotFound, "it expired"},
                                        TensorType{}});
  auto finished = process_->expect<Finished>();
  ASSERT_TRUE(finished.has_value());
  ASSERT_TRUE(finished->error.has_value());
  EXPECT_EQ(finished->error->code, ErrorCode::kNotFound);
  EXPECT_THAT(finished->error->message, HasSubstr("inputs[0].parameters.object ('x'): "));
  EXPECT_THAT(finished->error->message, HasSubstr("it expired"));
  EXPECT_EQ(finished->subject, protocol::ErrorSubject::kInput);

  // One of another type is refused, and so is one that could still be changed.
  process_->run(2, 1, kFromObject + "}", "application/json");
  process_->give_object({DataType::kFp32, {2}}, bytes_of({1, 2}));
  finished = process_->expect<Finished>();
  ASSERT_TRUE(finished && finished->error);
  EXPECT_EQ(finished->error->code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(finished->error->message, HasSubstr("FP32 [2] instead of INT32 [2]"));
  works(1);
}

TEST_F(ExecutorTest, WhatBecameOfAnInputIsToldFromWhatIsWrongWithTheRequest) {
  add(1, process_->package(affine(2)));
  process_->run(1, 1, kFromObject + "}", "application/json");
  const auto asked = process_->expect<protocol::OpenObject>();
  ASSERT_TRUE(asked.has_value());
  process_->send(protocol::ObjectOpened{
      asked->object, Error{ErrorCode::kInternal, "its kernel faulted"}, TensorType{}, {}, true});
  auto finished = process_->expect<Finished>();
  ASSERT_TRUE(finished && finished->error);
  EXPECT_EQ(finished->error->code, ErrorCode::kInternal);
  EXPECT_EQ(finished->subject, protocol::ErrorSubject::kFailedInput);

  process_->run(2, 1, R"({"inputs": []})", "application/json");
  finished = process_->expect<Finished>();
  ASSERT_TRUE(finished && finished->error);
  EXPECT_EQ(finished->subject, protocol::ErrorSubject::kRequest);
  works(1);
}

TEST_F(ExecutorTest, PlacesAreThoseOfTheRequestAndNotOfTheGraph) {
  add(1, process_->package(
             function({buffer("a", "input", 2), buffer("b", "in_out", 2), buffer("y", "output", 2)},
                      {scale("a", "y", 1, 0, 2), increment("b", 2)})));
  const std::string b =
      R"({"name": "b", "parameters": {"object": "00000000-0000-0001-0000-000000000002.5"}})";
  const std::string a = R"({"name": "a", "data": [1, 2]})";
  process_->run(1, 1, R"({"inputs": [)" + b + ", " + a + "]}", "application/json");
  process_->give_object({DataType::kFp32, {2}}, bytes_of({1, 2}));
  auto finished = process_->expect<Finished>();
  ASSERT_TRUE(finished && finished->error);
  EXPECT_THAT(finished->error->message, HasSubstr("inputs[0].parameters.object ('b'): "));

  const std::string object = R"("parameters": {"object": true}})";
  process_->run(2, 1,
                R"({"inputs": [{"name": "b", "data": [3, 4]}, )" + a +
                    R"(], "outputs": [{"name": "b"}, {"name": "y", )" + object + "]}",
                "application/json");
  finished = process_->expect<Finished>();
  ASSERT_TRUE(finished && !finished->error);
  ASSERT_EQ(finished->objects.size(), 1u);
  EXPECT_EQ(finished->objects[0].output, 1u);
}

TEST_F(ExecutorTest, AnObjectThatIsNotSealedIsRefused) {
  add(1, process_->package(affine(2)));
  process_->run(1, 1, kFromObject + "}", "application/json");
  auto asked = process_->expect<protocol::OpenObject>();
  ASSERT_TRUE(asked.has_value());
  auto open = new_memory(Bytes(8));
  ASSERT_TRUE(open.ok());
  process_->send(protocol::ObjectOpened{asked->object, std::nullopt, kTwo}, {open->get()});
  const auto finished = process_->expect<Finished>();
  ASSERT_TRUE(finished && finished->error);
  EXPECT_THAT(finished->error->message, HasSubstr("not sealed"));
  works(1);
}

TEST_F(ExecutorTest, InOutBuffersAreCopiesOfTheRequestsOwn) {
  add(1, process_->package(function({buffer("x", "in_out", 2)}, {increment("x", 2)})));
  EXPECT_EQ(run(1, 1, {1, 2}), (std::vector<int>{2, 3}));
  for (int i = 0; i < 2; ++i) {  // what the object holds does not change
    process_->run(2, 1, kFromObject + "}", "application/json");
    if (i == 0) process_->give_object(kTwo, bytes_of({10, 20}));
    const auto finished = process_->expect<Finished>();
    ASSERT_TRUE(finished.has_value());
    EXPECT_THAT(finished->payload, HasSubstr("[11,21]"));
  }
}

TEST_F(ExecutorTest, AnInputObjectLiesInWhatAStaticPoolHasReservedForIt) {
  process_.reset();
  start({}, {"--pool-rule", "static"});
  add(1, process_->package(affine(2)), Bytes(768));  // no more than its own buffers take
  process_->run(1, 1, kFromObject + "}", "application/json");
  process_->give_object(kTwo, bytes_of({1, 2}));
  const auto finished = process_->expect<Finished>();
  ASSERT_TRUE(finished.has_value());
  ASSERT_FALSE(finished->error.has_value()) << to_string(*finished->error);
  EXPECT_THAT(finished->payload, HasSubstr("[4,7]"));
}

TEST_F(ExecutorTest, ObjectsOfTheHostGoTheLeastRecentlyUsedFirst) {
  // The device holds one such object beside what a request needs.
  add(1, process_->package(affine(2)), Bytes(768));
  const auto run_with = [&](size_t number, bool is_asked_for) {
    const ObjectId object{{3, 4}, static_cast<uint32_t>(number)};
    process_->run(
        number, 1,
        R"({"inputs": [{"name": "x", "parameters": {"object": ")" + to_string(object) + R"("}}]})",
        "application/json");
    const int value = static_cast<int>(number);
    if (is_asked_for) {
      EXPECT_EQ(process_->give_object(kTwo, bytes_of({value, 0})), object);
    }
    const auto finished = process_->expect<Finished>();
    ASSERT_TRUE(finished.has_value());
    EXPECT_THAT(finished->payload, HasSubstr("[" + std::to_string(3 * value + 1) + ",1]"));
  };
  const size_t most = limits::kExecutorHostObjects;
  for (size_t i = 0; i < most; ++i) run_with(i, true);
  run_with(0, false);
  run_with(most, true);  // 1 goes
  run_with(0, false);
  run_with(2, false);
  run_with(1, true);
}

TEST_F(ExecutorTest, InstancesRunAtTheSameTime) {
  // One waits for its object; the other is not held up.
  add(1, process_->package(affine(2)));
  add(2, process_->package(affine(2)));
  process_->run(1, 1, kFromObject + "}", "application/json");
  works(2);
  process_->give_object(kTwo, bytes_of({1, 2}));
  const auto finished = process_->expect<Finished>();
  ASSERT_TRUE(finished.has_value());
  EXPECT_EQ(finished->invocation, (InvocationId{7, 1}));
}

}  // namespace
}  // namespace lambent::executor
