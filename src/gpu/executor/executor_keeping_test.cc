// Outputs that are kept on the device only, with a real lambent-executor; the test speaks as the
// worker.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>

#include "decide/kernel_graph/request.h"
#include "gpu/executor/testing/function_testing.h"

namespace lambent::executor {
namespace {

using protocol::DropObject;
using protocol::Finished;
using protocol::ObjectHeld;
using protocol::ObjectWritten;
using protocol::WriteObject;

constexpr size_t kCount = size_t{1} << 19;  // 2 MiB: memory of its own
const TensorType kType{DataType::kInt32, {kCount}};

class KeepingTest : public ExecutorTest {
 protected:
  static ObjectId input(uint32_t number) { return {{3, 4}, number}; }
  static std::string content(int value) { return bytes_of(std::vector<int>(kCount, value)); }
  // y = 2x, of so many numbers; the rest of y is not written.
  static Files twice(size_t written = kCount) {
    return function({buffer("x", "input", kCount), buffer("y", "output", kCount)},
                    {scale("x", "y", 2, 0, written)});
  }
  static std::string request(ObjectId x, const std::string& parameters) {
    return R"({"inputs": [{"name": "x", "parameters": {"object": ")" + to_string(x) +
           R"("}}], "outputs": [{"name": "y", "parameters": {)" + parameters + "}}]}";
  }
  // What it made of an object, which is kept if there was room.
  protocol::OutputObject make(
      uint64_t invocation, uint64_t instance, ObjectId x, std::vector<OwnedFd>* fds = nullptr,
      const std::string& parameters = R"("object": true, "keep": "device")") {
    process_->run(invocation, instance, request(x, parameters), "application/json");
    if (x.maker == input(0).maker) {
      EXPECT_EQ(process_->give_object(kType, content(static_cast<int>(x.number))), x);
    }
    const auto finished = process_->expect<Finished>(fds);
    if (!finished || finished->objects.size() != 1) {
      ADD_FAILURE() << (finished && finished->error ? to_string(*finished->error) : "no object");
      return {};
    }
    return finished->objects[0];
  }
  // What the next file of a kept object holds, in one number if all are the same.
  std::pair<ObjectId, int> written() {
    std::vector<OwnedFd> fds;
    const auto message = process_->expect<ObjectWritten>(&fds);
    if (!message || message->error || fds.size() != 1) {
      ADD_FAILURE() << (message && message->error ? to_string(*message->error) : "no file");
      return {};
    }
    EXPECT_TRUE(check_sealed(fds[0].get()).ok());
    return {message->object, value_of(fds[0])};
  }
  static int value_of(const OwnedFd& fd) {
    const auto values = ints_of(ExecutorProcess::content_of(fd.get()));
    EXPECT_EQ(values.size(), kCount);
    const int value = values.at(0);
    const auto other = std::ranges::find_if(values, [=](int each) { return each != value; });
    if (other != values.end()) {
      ADD_FAILURE() << "at " << other - values.begin() << " of " << values.size() << ": " << *other
                    << " instead of " << value;
    }
    return value;
  }
  // It leaves the device.
  void expect_gone(ObjectId object) {
    for (;;) {
      const auto held = process_->expect<ObjectHeld>();
      ASSERT_TRUE(held.has_value());
      if (held->object != object) continue;
      EXPECT_EQ(held->held, Bytes(0));
      return;
    }
  }
  ErrorCode write_error(ObjectId object) {
    process_->send(WriteObject{object});
    const auto message = process_->expect<ObjectWritten>();
    return message && message->error ? message->error->code : ErrorCode::kUnknown;
  }
};

TEST_F(KeepingTest, AKeptOutputIsTheNextInputAndComesToTheHostWhenItIsAskedFor) {
  add(1, process_->package(twice()));
  std::vector<OwnedFd> fds;
  const auto first = make(1, 1, input(5), &fds);
  EXPECT_TRUE(first.kept);
  EXPECT_TRUE(fds.empty()) << "it was copied to the host";
  // No OpenObject comes between.
  const auto second = make(2, 1, first.object, &fds, R"("object": true)");
  EXPECT_FALSE(second.kept);
  ASSERT_EQ(fds.size(), 1u);
  EXPECT_EQ(value_of(fds[0]), 20);
  process_->send(WriteObject{first.object});
  EXPECT_EQ(written(), std::pair(first.object, 10));
  EXPECT_EQ(write_error(first.object), ErrorCode::kNotFound) << "it is not only here any more";
  // It still lies here.
  make(3, 1, first.object, &fds, R"("object": true)");
  EXPECT_EQ(value_of(fds.at(0)), 20);
}

TEST_F(KeepingTest, OutputsThatShareMemoryAreNotKept) {
  add(1, process_->package(affine(2)));
  process_->run(1, 1, R"({"inputs": [{"name": "x", "data": [1, 2]}],
                          "outputs": [{"name": "y", "parameters": {"object": true, "keep": "device"}}]})",
                "application/json");
  std::vector<OwnedFd> fds;
  const auto finished = process_->expect<Finished>(&fds);
  ASSERT_TRUE(finished && finished->objects.size() == 1);
  EXPECT_FALSE(finished->objects[0].kept);
  ASSERT_EQ(fds.size(), 1u);
  EXPECT_EQ(ints_of(ExecutorProcess::content_of(fds[0].get())), (std::vector<int>{4, 7}));
}

TEST_F(KeepingTest, AShortOneInALargeBlockIsNotKept) {
  constexpr size_t kQuarter = kCount / 4;
  const auto rows = [](const std::string& name, const std::string& role) {
    return R"({"name": ")" + name + R"(", "role": ")" + role +
           R"(", "datatype": "INT32", "shape": [4, )" + std::to_string(kQuarter) + "]}";
  };
  const auto variant = [](size_t batch) {
    return R"({"batch": )" + std::to_string(batch) + R"(, "steps": [)" +
           scale("x", "y", 2, 0, kQuarter * batch) + "]}";
  };
  add(1, process_->package(
             function({rows("x", "input"), rows("y", "output")}, {variant(1), variant(4)})));
  for (const uint32_t batch : {1u, 4u}) {
    std::string values;
    for (size_t i = 0; i < kQuarter * batch; ++i) values += i == 0 ? "7" : ",7";
    const std::string request =
        R"({"inputs": [{"name": "x", "datatype": "INT32", "shape": [)" + std::to_string(batch) +
        ", " + std::to_string(kQuarter) + R"(], "data": [)" + values +
        R"(]}], "outputs": [{"name": "y", "parameters": {"object": true, "keep": "device"}}]})";
    process_->run(batch, 1, request, "application/json");
    std::vector<OwnedFd> fds;
    const auto finished = process_->expect<Finished>(&fds);
    ASSERT_TRUE(finished && finished->objects.size() == 1)
        << (finished && finished->error ? to_string(*finished->error) : "");
    EXPECT_EQ(finished->objects[0].kept, batch == 4);
    EXPECT_EQ(fds.size(), batch == 4 ? 0u : 1u);
  }
}

// y = 2x for one or two rows, of which each is large enough to be kept.
TEST_F(KeepingTest, EachRequestOfABatchReadsAndMakesKeptObjectsOfItsOwn) {
  const auto rows = [](const std::string& name, const std::string& role) {
    return R"({"name": ")" + name + R"(", "role": ")" + role +
           R"(", "datatype": "INT32", "shape": [2, )" + std::to_string(kCount) + "]}";
  };
  const auto variant = [](size_t batch) {
    return R"({"batch": )" + std::to_string(batch) + R"(, "steps": [)" +
           scale("x", "y", 2, 0, kCount * batch) + "]}";
  };
  add(1, process_->package(
             function({rows("x", "input"), rows("y", "output")}, {variant(1), variant(2)})));
  const TensorType row{DataType::kInt32, {1, kCount}};
  const auto part = [&](ObjectId x, const std::string& parameters) {
    return R"({"inputs": [{"name": "x", "shape": [1, )" + std::to_string(kCount) +
           R"(], "parameters": {"object": ")" + to_string(x) + R"("}}], "parameters": {)" +
           parameters + "}}";
  };
  const auto run_both = [&](uint64_t invocation, ObjectId a, ObjectId b,
                            const std::string& parameters) {
    const std::string first = part(a, parameters), second = part(b, parameters);
    process_->run(
        invocation, 1,
        kernel_graph::join_batch(std::vector<kernel_graph::BatchPart>{{"", first}, {"", second}}),
        std::string(kernel_graph::kBatchContentType));
  };
  const std::string keep = R"("object": true, "keep": "device")";
  run_both(1, input(5), input(6), keep);
  EXPECT_EQ(process_->give_object(row, content(5)), input(5));
  EXPECT_EQ(process_->give_object(row, content(6)), input(6));
  std::vector<OwnedFd> fds;
  const auto first = process_->expect<Finished>(&fds);
  ASSERT_TRUE(first && !first->error) << (first ? to_string(*first->error) : "");
  ASSERT_EQ(first->objects.size(), 2u);
  EXPECT_TRUE(first->objects[0].kept && first->objects[1].kept);
  EXPECT_EQ(first->objects[1].type, row);
  EXPECT_TRUE(fds.empty()) << "they were copied to the host";
  // They are the inputs of the next two, in the other order, and nothing is asked for.
  run_both(2, first->objects[1].object, first->objects[0].object, R"("object": true)");
  const auto second = process_->expect<Finished>(&fds);
  ASSERT_TRUE(second && !second->error) << (second ? to_string(*second->error) : "");
  ASSERT_EQ(fds.size(), 2u);
  EXPECT_EQ(value_of(fds[0]), 24);
  EXPECT_EQ(value_of(fds[1]), 20);
  process_->send(WriteObject{first->objects[0].object});
  EXPECT_EQ(written(), std::pair(first->objects[0].object, 10));
}

TEST_F(KeepingTest, WhatIsLeastRecentlyUsedIsWrittenWhenMemoryIsShort) {
  add(1, process_->package(twice()), Bytes::mib(12));
  std::map<ObjectId, int> expected, seen;
  std::vector<ObjectId> kept;
  for (int i = 1; i <= 10; ++i) {
    std::vector<OwnedFd> fds;
    const auto made = make(static_cast<uint64_t>(i), 1, input(static_cast<uint32_t>(i)), &fds);
    expected[made.object] = 2 * i;
    if (made.kept) {
      kept.push_back(made.object);
    } else {
      seen[made.object] = value_of(fds.at(0));
    }
  }
  ASSERT_GE(kept.size(), 5u);
  // Nothing has asked for these.
  for (size_t i = 0; i < 2; ++i) {
    const auto [object, value] = written();
    EXPECT_EQ(object, kept[i]);
    seen[object] = value;
  }
  for (const ObjectId object : kept) process_->send(WriteObject{object});
  while (seen.size() < expected.size()) {
    std::vector<OwnedFd> fds;
    const auto message = process_->expect<ObjectWritten>(&fds);
    ASSERT_TRUE(message.has_value());
    if (message->error) {
      EXPECT_EQ(message->error->code, ErrorCode::kNotFound);
      EXPECT_TRUE(seen.contains(message->object)) << "it is lost";
    } else {
      EXPECT_FALSE(seen.contains(message->object)) << "it was written twice";
      seen[message->object] = value_of(fds.at(0));
    }
  }
  EXPECT_EQ(seen, expected);
}

TEST_F(KeepingTest, ARequestWaitsForTheMemoryThatKeptObjectsGiveUp) {
  add(1, process_->package(twice()), Bytes::mib(8));
  add(2,
      process_->package(function({buffer("x", "input", kCount), buffer("t", "temporary", kCount),
                                  buffer("y", "output", kCount)},
                                 {scale("x", "t", 1, 0, kCount), scale("t", "y", 1, 0, kCount)})),
      Bytes::mib(8));
  std::map<ObjectId, int> kept;
  for (int i = 1; i <= 4; ++i) {
    const auto made = make(static_cast<uint64_t>(i), 1, input(static_cast<uint32_t>(i)));
    ASSERT_TRUE(made.kept);
    kept[made.object] = 2 * i;
  }
  // They have all of what the other function may have.
  process_->send(protocol::RemoveInstance{SandboxId(1)});
  std::vector<OwnedFd> fds;
  make(9, 2, input(7), &fds, R"("object": true)");
  EXPECT_EQ(value_of(fds.at(0)), 7);
  const auto [object, value] = written();
  EXPECT_EQ(value, kept[object]);
}

TEST_F(KeepingTest, BeforeAnInstanceHasMovedOutItsObjectsAreWritten) {
  add(1, process_->package(twice()));
  const auto made = make(1, 1, input(3));
  ASSERT_TRUE(made.kept);
  process_->send(protocol::MoveInstance{SandboxId(1), true});
  bool is_written = false;
  for (;;) {
    const auto received = process_->receive();
    ASSERT_TRUE(received.has_value());
    if (const auto* message = std::get_if<ObjectWritten>(&received->message)) {
      EXPECT_EQ(message->object, made.object);
      EXPECT_EQ(value_of(received->fds.at(0)), 6);
      is_written = true;
    }
    if (std::holds_alternative<protocol::InstanceMoved>(received->message)) break;
  }
  EXPECT_TRUE(is_written);
}

TEST_F(KeepingTest, OneThatIsToBeReleasedIsWrittenBefore) {
  add(1, process_->package(twice()));
  const auto made = make(1, 1, input(3));
  process_->send(DropObject{made.object, false});
  EXPECT_EQ(written(), std::pair(made.object, 6));
  expect_gone(made.object);
  // What asks for none is answered behind what is being written.
  const auto next = make(2, 1, input(4));
  process_->send(WriteObject{next.object});
  process_->send(DropObject{ObjectId{}, false});
  expect_gone(ObjectId{});
  EXPECT_EQ(written(), std::pair(next.object, 8));
}

TEST_F(KeepingTest, ADeletedOneIsNeverWrittenAndLeavesNothingToOthers) {
  add(1, process_->package(twice()));
  const auto made = make(1, 1, input(1000));
  ASSERT_TRUE(made.kept);
  process_->send(DropObject{made.object, true});
  expect_gone(made.object);
  EXPECT_EQ(write_error(made.object), ErrorCode::kNotFound);
  // Another instance gets that memory, and writes two numbers of it.
  process_->send(protocol::RemoveInstance{SandboxId(1)});
  add(2, process_->package(twice(2)));
  std::vector<OwnedFd> fds;
  make(2, 2, input(7), &fds, R"("object": true)");
  ASSERT_EQ(fds.size(), 1u);
  std::vector<int> expected(kCount, 0);
  expected[0] = expected[1] = 14;
  EXPECT_EQ(ints_of(ExecutorProcess::content_of(fds[0].get())), expected);
}

TEST_F(KeepingTest, OneThatIsDeletedWhileItIsWrittenSaysNothing) {
  add(1, process_->package(twice()));
  const auto made = make(1, 1, input(3));
  process_->send(WriteObject{made.object});
  process_->send(DropObject{made.object, true});
  process_->send(DropObject{ObjectId{}, false});
  for (;;) {
    const auto received = process_->receive();
    ASSERT_TRUE(received.has_value());
    EXPECT_FALSE(std::holds_alternative<ObjectWritten>(received->message));
    const auto* held = std::get_if<ObjectHeld>(&received->message);
    if (held != nullptr && held->object == ObjectId{}) break;
  }
}

TEST_F(KeepingTest, AKernelThatWritesItsInputHasACopyOfIt) {
  add(1, process_->package(twice()));
  add(2, process_->package(function({buffer("x", "in_out", kCount)}, {increment("x", kCount)})));
  const auto made = make(1, 1, input(3));
  for (uint64_t i = 2; i < 4; ++i) {
    process_->run(i, 2,
                  R"({"inputs": [{"name": "x", "parameters": {"object": ")" +
                      to_string(made.object) +
                      R"("}}], "outputs": [{"name": "x", "parameters": {"object": true}}]})",
                  "application/json");
    std::vector<OwnedFd> fds;
    const auto finished = process_->expect<Finished>(&fds);
    ASSERT_TRUE(finished && !finished->error);
    EXPECT_EQ(value_of(fds.at(0)), 7);
  }
}

TEST_F(KeepingTest, AKernelThatWritesItsInputNeedsNoMemoryForAnotherCopyOfIt) {
  add(1,
      process_->package(
          function({buffer("x", "in_out", kCount), buffer("t", "temporary", kCount * 3)},
                   {scale("x", "t", 1, 0, kCount), scale("t", "x", 1, 1, kCount)})),
      Bytes::mib(8));
  const auto step = [&](uint64_t invocation, ObjectId x) {
    process_->run(
        invocation, 1,
        R"({"inputs": [{"name": "x", "parameters": {"object": ")" + to_string(x) +
            R"("}}], "outputs": [{"name": "x", "parameters": {"object": true, "keep": "device"}}]})",
        "application/json");
  };
  step(1, input(5));
  EXPECT_EQ(process_->give_object(kType, content(5)), input(5));
  auto finished = process_->expect<Finished>();
  ASSERT_TRUE(finished && !finished->error);
  ASSERT_TRUE(finished->objects.at(0).kept);
  const ObjectId made = finished->objects[0].object;
  // All that the function may have is taken, by its own buffers and by the object.
  step(2, made);
  const auto [object, value] = written();
  EXPECT_EQ(object, made);
  EXPECT_EQ(value, 6);
  EXPECT_EQ(process_->give_object(kType, content(6)), made);
  std::vector<OwnedFd> fds;
  finished = process_->expect<Finished>(&fds);
  ASSERT_TRUE(finished.has_value());
  EXPECT_FALSE(finished->error.has_value()) << to_string(*finished->error);
}

TEST_F(KeepingTest, OneStaysOnTheDeviceUntilTheWorkerHasIt) {
  add(1, process_->package(twice()));
  const auto made = make(1, 1, input(3));
  process_->takes_objects = false;
  process_->send(WriteObject{made.object});
  EXPECT_EQ(written(), std::pair(made.object, 6));
  // The worker could not take it.
  process_->send(
      ObjectWritten{made.object, Error{ErrorCode::kResourceExhausted, "too many files"}});
  process_->send(WriteObject{made.object});
  EXPECT_EQ(written(), std::pair(made.object, 6));
  process_->send(ObjectWritten{made.object});
  EXPECT_EQ(write_error(made.object), ErrorCode::kNotFound);
}

TEST_F(KeepingTest, FewFilesAreOnTheirWayAtOnce) {
  add(1, process_->package(twice()), Bytes::mib(800));
  std::vector<ObjectId> all = {make(1, 1, input(1)).object};
  for (uint64_t i = 2; i <= 70; ++i) {
    const auto made = make(i, 1, all.front());
    ASSERT_TRUE(made.kept);
    all.push_back(made.object);
  }
  process_->takes_objects = false;
  for (const ObjectId object : all) process_->send(WriteObject{object});
  std::set<ObjectId> seen;
  for (int i = 0; i < 64; ++i) seen.insert(written().first);
  EXPECT_EQ(seen.size(), 64u);
  EXPECT_EQ(write_error(input(9)), ErrorCode::kNotFound) << "what comes is no file";
  process_->send(ObjectWritten{*seen.begin()});
  EXPECT_TRUE(seen.insert(written().first).second);
}

}  // namespace
}  // namespace lambent::executor
