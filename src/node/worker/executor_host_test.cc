#include <sys/resource.h>

#include "core/domain/limits.h"
#include "core/domain/tensor_limits.h"
#include "node/worker/testing/executor_testing.h"

namespace lambent::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST_F(ExecutorHostTest, AFunctionGetsAnInstanceWithItsFiles) {
  start(SandboxId(1), spec, folder.path(), DeviceId(2));
  ASSERT_TRUE(turn_until(loop, [&] { return !launcher.running.empty(); }));
  EXPECT_EQ(launcher.latest().plan.environment.at("CUDA_VISIBLE_DEVICES"), "1");
  std::vector<OwnedFd> fds;
  const auto add = hears<protocol::AddInstance>(&fds);
  ASSERT_TRUE(add.has_value());
  EXPECT_EQ(add->graph, "graph.json");
  EXPECT_THAT(add->files, ElementsAre("graph.json", "w.bin"));
  EXPECT_EQ(add->memory, Bytes::mib(64));
  ASSERT_THAT(fds, SizeIs(2));
  char content[8];
  EXPECT_EQ(pread(fds[1].get(), content, 8, 0), 8);
  EXPECT_EQ(std::string(content, 8), "12345678");
  EXPECT_THAT(readies, IsEmpty());
  EXPECT_EQ(host->status(Metering::kMemory, std::nullopt)[0].state, "starting");
  launcher.latest().say(protocol::InstanceReady{SandboxId(1), milliseconds(1)});
  ASSERT_TRUE(turn_until(loop, [&] { return !readies.empty(); }));
  EXPECT_EQ(host->status(Metering::kMemory, std::nullopt)[0].state, "idle");
  EXPECT_THAT(host->status(Metering::kNone, spec.name.tenant), SizeIs(1));
  EXPECT_THAT(host->status(Metering::kNone, TenantId(77)), IsEmpty());
}

TEST_F(ExecutorHostTest, FunctionsOfOneTenantShareAnExecutorOnADevice) {
  instance(SandboxId(1));
  instance(SandboxId(2));
  EXPECT_EQ(launcher.launches, 1);
  start(SandboxId(3), spec, folder.path(), DeviceId(2));
  ASSERT_TRUE(turn_until(loop, [&] { return launcher.running.size() == 2; }));
}

TEST_F(ExecutorHostTest, ARequestGoesInAndItsAnswerComesOut) {
  instance(SandboxId(1));
  const InvocationId id = give(SandboxId(1), R"({"inputs": []})");
  const auto run = hears<protocol::Run>();
  ASSERT_TRUE(run.has_value());
  EXPECT_EQ(run->payload, R"({"inputs": []})");
  auto message = finished(id);
  message.device_memory_peak = Bytes::mib(5);
  launcher.latest().say(message);
  ASSERT_TRUE(turn_until(loop, [&] { return !answers.empty(); }));
  EXPECT_TRUE(answers[0].succeeded);
  EXPECT_EQ(answers[0].payload, "answer");
  EXPECT_EQ(answers[0].device_memory_peak, Bytes::mib(5));
  EXPECT_THAT(answers[0].log_tail, HasSubstr("REPORT RequestId: " + to_string(id)));
}

TEST_F(ExecutorHostTest, WhatIsLongTravelsInMemory) {
  instance(SandboxId(1));
  const std::string payload(3 << 20, 'p');
  const InvocationId id = give(SandboxId(1), payload);
  std::vector<OwnedFd> fds;
  const auto run = hears<protocol::Run>(&fds);
  ASSERT_TRUE(run && run->payload_attached);
  ASSERT_THAT(fds, SizeIs(1));
  EXPECT_EQ(lseek(fds[0].get(), 0, SEEK_END), off_t{3 << 20});
  auto message = finished(id);
  message.payload_attached = true;
  const OwnedFd answer = memfd_with(std::string(1 << 20, 'a'), true);
  launcher.latest().say(message, {answer.get()});
  ASSERT_TRUE(turn_until(loop, [&] { return !answers.empty(); }));
  EXPECT_EQ(answers[0].payload, std::string(1 << 20, 'a'));
}

TEST_F(ExecutorHostTest, AnAnswerThatIsTooLongFailsInWordsThatHelp) {
  instance(SandboxId(1));
  auto message = finished(give(SandboxId(1)));
  message.payload_attached = true;
  const OwnedFd answer = memfd_with(std::string(limits::kTensorPayload.count + 1, 'a'), true);
  launcher.latest().say(message, {answer.get()});
  ASSERT_TRUE(turn_until(loop, [&] { return !answers.empty(); }));
  EXPECT_FALSE(answers[0].succeeded);
  EXPECT_THAT(answers[0].payload, HasSubstr("Ask for large outputs as objects"));
}

TEST_F(ExecutorHostTest, AnAnswerThatCouldStillChangeIsNotRead) {
  instance(SandboxId(1));
  auto message = finished(give(SandboxId(1)));
  message.payload_attached = true;
  const OwnedFd answer = memfd_with("a", false);
  launcher.latest().say(message, {answer.get()});
  ASSERT_TRUE(turn_until(loop, [&] { return !answers.empty(); }));
  EXPECT_FALSE(answers[0].succeeded);
}

TEST_F(ExecutorHostTest, AnAnswerThatTheWorkerHasNoDescriptorsForFailsAloneAndTheExecutorStays) {
  instance(SandboxId(1));
  auto message = finished(give(SandboxId(1)));
  message.payload_attached = true;
  const OwnedFd answer = memfd_with("a", true);
  launcher.latest().say(message, {answer.get()});
  rlimit files{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  rlimit none = files;
  none.rlim_cur = 0;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const bool answered = turn_until(loop, [&] { return !answers.empty(); });
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
  ASSERT_TRUE(answered);
  EXPECT_FALSE(answers[0].succeeded);
  EXPECT_THAT(answers[0].payload, HasSubstr("as many files open"));
  launcher.latest().say(finished(give(SandboxId(1))));
  ASSERT_TRUE(turn_until(loop, [&] { return answers.size() == 2; }));
  EXPECT_TRUE(answers[1].succeeded);
  EXPECT_EQ(launcher.kills, 0);
}

TEST_F(ExecutorHostTest, AChangedShareReachesTheInstancesOfTheFunctionAlone) {
  spec.id = FunctionId(1);
  instance(SandboxId(1));
  spec.gpu.share = 25;
  host->change_share(spec);
  const auto change = hears<protocol::SetShare>();
  ASSERT_TRUE(change.has_value());
  EXPECT_EQ(*change, (protocol::SetShare{SandboxId(1), 25}));
  host->change_share(spec);  // it has it
  FunctionSpec other = spec;
  other.id = FunctionId(2);
  other.gpu.share = 50;
  host->change_share(other);
  give(SandboxId(1));
  EXPECT_TRUE(hears<protocol::Run>().has_value());  // and nothing before it
}

TEST_F(ExecutorHostTest, AnInstanceWhoseShareCannotBeChangedGoesWhenItHasAnswered) {
  const protocol::InstanceFailed failed{SandboxId(1),
                                        {ErrorCode::kResourceExhausted, "share of 25 %"}};
  instance(SandboxId(1));
  const InvocationId first = give(SandboxId(1));
  EXPECT_TRUE(hears<protocol::Run>().has_value());
  launcher.latest().say(failed);
  launcher.latest().say(finished(first));
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 1; }));
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_TRUE(answers[0].succeeded);
  EXPECT_EQ(ends[0].error.message, "share of 25 %");
  EXPECT_FALSE(ends[0].undelivered);
}

TEST_F(ExecutorHostTest, AnInstanceWhoseShareCannotBeChangedGoesAtOnceWhereItRunsNothing) {
  instance(SandboxId(1));
  launcher.latest().say(
      protocol::InstanceFailed{SandboxId(1), {ErrorCode::kResourceExhausted, "share of 25 %"}});
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 1; }));
  EXPECT_EQ(ends[0].error.message, "share of 25 %");
}

TEST_F(ExecutorHostTest, OutputsBecomeObjectsOfTheTenantAndInputsAreHandedOut) {
  instance(SandboxId(1));
  const InvocationId id = give(SandboxId(1));
  auto message = finished(id);
  message.objects = {{{id, 0}, {DataType::kFp32, {2}}}};
  const OwnedFd object = memfd_with("abcdefgh", true);
  launcher.latest().say(message, {object.get()});
  ASSERT_TRUE(turn_until(loop, [&] { return !answers.empty(); }));
  EXPECT_TRUE(answers[0].succeeded) << answers[0].payload;

  ASSERT_TRUE(hears<protocol::Run>().has_value());
  launcher.latest().say(protocol::OpenObject{{id, 0}});
  std::vector<OwnedFd> fds;
  const auto opened = hears<protocol::ObjectOpened>(&fds);
  ASSERT_TRUE(opened.has_value());
  EXPECT_FALSE(opened->error.has_value());
  EXPECT_EQ(opened->type, (TensorType{DataType::kFp32, {2}}));
  EXPECT_THAT(fds, SizeIs(1));
  launcher.latest().say(protocol::OpenObject{{id, 1}});
  const auto missing = hears<protocol::ObjectOpened>();
  ASSERT_TRUE(missing && missing->error);
  EXPECT_EQ(missing->error->code, ErrorCode::kNotFound);
}

TEST_F(ExecutorHostTest, WhatItMakesLivesAsLongAsItsInvocationSays) {
  instance(SandboxId(1));
  InvocationRequest request;
  request.id = {9, 1};
  request.time_to_live = seconds(7);
  host->deliver(SandboxId(1), request, seconds(3));
  auto message = finished(request.id);
  message.objects = {{{request.id, 0}, raw_tensor(Bytes(1))}};
  const OwnedFd object = memfd_with("x", true);
  launcher.latest().say(message, {object.get()});
  ASSERT_TRUE(turn_until(loop, [&] { return !answers.empty(); }));
  const auto status = store.status(kDefaultTenant, {request.id, 0});
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(status->expires - status->created, seconds(7));
}

TEST_F(ExecutorHostTest, AnExecutorCannotMakeObjectsOfOthers) {
  instance(SandboxId(1));
  auto message = finished(give(SandboxId(1)));
  message.objects = {{{{1, 1}, 0}, raw_tensor(Bytes(1))}};
  const OwnedFd object = memfd_with("x", true);
  launcher.latest().say(message, {object.get()});
  ASSERT_TRUE(turn_until(loop, [&] { return !answers.empty(); }));
  EXPECT_FALSE(answers[0].succeeded);
  EXPECT_EQ(store.status(kDefaultTenant, {{1, 1}, 0}).error().code, ErrorCode::kNotFound);
}

TEST_F(ExecutorHostTest, AClientsMistakeIsItsAnswerAndTheInstanceGoesOn) {
  instance(SandboxId(1));
  auto message = finished(give(SandboxId(1)));
  message.error = Error{ErrorCode::kInvalidArgument, "inputs[0].shape is [2], not [3]"};
  launcher.latest().say(message);
  ASSERT_TRUE(turn_until(loop, [&] { return !answers.empty(); }));
  EXPECT_FALSE(answers[0].succeeded);
  EXPECT_EQ(answers[0].error_type, "Request.Invalid");
  EXPECT_THAT(answers[0].payload, HasSubstr("inputs[0].shape is [2], not [3]"));
  EXPECT_EQ(host->status(Metering::kMemory, std::nullopt)[0].state, "idle");
}

TEST_F(ExecutorHostTest, WhatHappenedToAnInputIsSaidByTheErrorsType) {
  using Subject = protocol::ErrorSubject;
  const std::tuple<ErrorCode, Subject, const char*> told[] = {
      {ErrorCode::kInvalidArgument, Subject::kRequest, "Request.Invalid"},
      {ErrorCode::kInvalidArgument, Subject::kInput, "Request.Invalid"},
      {ErrorCode::kInvalidArgument, Subject::kFailedInput, "Object.Failed"},
      {ErrorCode::kNotFound, Subject::kInput, "Object.NotFound"},
      {ErrorCode::kNotFound, Subject::kFailedInput, "Object.Failed"},
      {ErrorCode::kUnavailable, Subject::kInput, "Object.Unavailable"},
      {ErrorCode::kInternal, Subject::kFailedInput, "Object.Failed"}};
  instance(SandboxId(1));
  for (const auto& [code, subject, type] : told) {
    auto message = finished(give(SandboxId(1)));
    message.error = Error{code, "inputs[0]"};
    message.subject = subject;
    launcher.latest().say(message);
    const size_t before = answers.size();
    ASSERT_TRUE(turn_until(loop, [&] { return answers.size() > before; }));
    EXPECT_EQ(answers.back().error_type, type) << name_of(code);
  }
}

TEST_F(ExecutorHostTest, AnObjectThatFailedIsToldFromOneThatIsNotThere) {
  const ObjectId failed{{4, 4}, 0}, unknown{{4, 5}, 0};
  ASSERT_TRUE(store.expect(kDefaultTenant, failed).ok());
  store.fail(kDefaultTenant, failed, {ErrorCode::kNotFound, "its producer lacked a file"});
  instance(SandboxId(1));
  for (const ObjectId object : {failed, unknown}) {
    launcher.latest().say(protocol::OpenObject{object});
    const auto answer = hears<protocol::ObjectOpened>();
    ASSERT_TRUE(answer && answer->error);
    EXPECT_EQ(answer->error->code, ErrorCode::kNotFound);
    EXPECT_EQ(answer->failed, object == failed);
  }
}

TEST_F(ExecutorHostTest, WhatQueuedRequestsReadIsKeptWhereItIsUntilTheLastHasEnded) {
  instance(SandboxId(1));
  const InvocationId id = give(SandboxId(1));
  ASSERT_TRUE(hears<protocol::Run>().has_value());
  auto message = finished(id);
  const std::string content(size_t{2} << 20, 'x');
  message.objects = {{{id, 0}, raw_tensor(Bytes(content.size()))},
                     {{id, 1}, raw_tensor(Bytes(2)), 1}};
  const OwnedFd large = memfd_with(content, true), small = memfd_with("ab", true);
  launcher.latest().say(message, {large.get(), small.get()});
  ASSERT_TRUE(turn_until(loop, [&] { return !answers.empty(); }));

  // A small one is not worth a message.
  host->objects().need(kDefaultTenant, {{id, 0}, {id, 1}}, true);
  auto told = hears<protocol::NeedObject>();
  EXPECT_EQ(told, (protocol::NeedObject{{id, 0}, true}));
  host->objects().need(kDefaultTenant, {{id, 0}}, true);
  host->objects().need(kDefaultTenant, {{id, 0}, {id, 1}}, false);
  loop.run_once(Duration(0));
  EXPECT_FALSE(launcher.latest().hear().has_value()) << "another still needs it";
  host->objects().need(kDefaultTenant, {{id, 0}}, false);
  told = hears<protocol::NeedObject>();
  EXPECT_EQ(told, (protocol::NeedObject{{id, 0}, false}));

  // One that comes to lie there later is kept, too.
  host->objects().need(kDefaultTenant, {{id, 0}}, true);
  ASSERT_TRUE(hears<protocol::NeedObject>().has_value());
  launcher.end(launcher.latest().id, {.signal = 9});
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 1; }));
  instance(SandboxId(2));
  launcher.latest().say(protocol::ObjectHeld{{id, 0}, Bytes::mib(2)});
  told = hears<protocol::NeedObject>();
  EXPECT_EQ(told, (protocol::NeedObject{{id, 0}, true}));
}

TEST_F(ExecutorHostTest, AnIdleInstanceGoesWithoutATrace) {
  instance(SandboxId(1));
  host->stop(SandboxId(1), Error{ErrorCode::kCancelled, "idle"}, "Sandbox.Stopped");
  EXPECT_TRUE(hears<protocol::RemoveInstance>().has_value());
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 1; }));
  EXPECT_FALSE(host->has(SandboxId(1)));
}

TEST_F(ExecutorHostTest, MemoryIsMovedByTheExecutor) {
  instance(SandboxId(1));
  host->move_memory_out(SandboxId(1), protocol::MemoryMoveDepth::kMemory);
  const auto move = hears<protocol::MoveInstance>();
  ASSERT_TRUE(move && move->out);
  protocol::InstanceMoved moved;
  moved.instance = SandboxId(1);
  moved.out = true;
  moved.moved = Bytes::mib(7);
  launcher.latest().say(moved);
  ASSERT_TRUE(turn_until(loop, [&] { return moves.size() == 1; }));
  EXPECT_EQ(moves[0].moved, Bytes::mib(7));
}

TEST_F(ExecutorHostTest, WhatIsGivenToAnInstanceThatIsOutWaitsUntilItIsIn) {
  instance(SandboxId(1));
  host->move_memory_out(SandboxId(1), protocol::MemoryMoveDepth::kMemory);
  ASSERT_TRUE(hears<protocol::MoveInstance>().has_value());
  protocol::InstanceMoved moved;
  moved.instance = SandboxId(1);
  moved.out = true;
  launcher.latest().say(moved);
  ASSERT_TRUE(turn_until(loop, [&] { return moves.size() == 1; }));
  give(SandboxId(1), "waits");
  host->move_memory_in(SandboxId(1));
  EXPECT_TRUE(hears<protocol::MoveInstance>().has_value())
      << "the request is not ahead of the move";
  moved.out = false;
  launcher.latest().say(moved);
  const auto run = hears<protocol::Run>();
  ASSERT_TRUE(run.has_value());
  EXPECT_EQ(run->payload, "waits");
}

TEST_F(ExecutorHostTest, OneThatDoesNotKeepToTheProtocolIsEnded) {
  instance(SandboxId(1));
  launcher.latest().say(protocol::MoveInstance{SandboxId(1), true});
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 1; }));
  instance(SandboxId(2));
  ASSERT_TRUE(send_packet(launcher.latest().socket.get(), "nonsense").ok());
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 2; }));
  EXPECT_EQ(launcher.kills, 2);
}

TEST_F(ExecutorHostTest, AnInstanceThatCannotBeMadeSaysWhy) {
  start(SandboxId(1), spec, folder.path(), DeviceId(1));
  ASSERT_TRUE(turn_until(loop, [&] { return !launcher.running.empty(); }));
  ASSERT_TRUE(hears<protocol::AddInstance>().has_value());
  launcher.latest().say(protocol::InstanceFailed{
      SandboxId(1), {ErrorCode::kInvalidArgument, "steps[0]: no kernel f"}});
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 1; }));
  EXPECT_EQ(ends[0].error.message, "steps[0]: no kernel f");
  start(SandboxId(2), spec, folder / "nowhere", DeviceId(1));
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 2; }));
  EXPECT_THAT(ends[1].error.message, HasSubstr("graph.json"));
}

}  // namespace
}  // namespace lambent::worker
