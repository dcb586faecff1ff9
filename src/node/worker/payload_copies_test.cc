// What is long is copied by another thread, while other requests go on.
#include "node/worker/payload_copies.h"

#include <sys/resource.h>

#include <filesystem>

#include "core/base/sealed_memory.h"
#include "node/worker/testing/executor_testing.h"

namespace lambent::worker {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

constexpr size_t kLong = PayloadCopies::kAtOnce.count + 1;

// No two neighbours, and no two blocks of a power of two, are the same.
std::string distinct_bytes(size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i % 251);
  return bytes;
}

std::string content_of(const OwnedFd& memory) {
  const auto size = check_sealed(memory.get());
  EXPECT_TRUE(size.ok());
  auto content = read_memory(memory.get(), Bytes(0), *size);
  EXPECT_TRUE(content.ok());
  return std::move(*content);
}

class PayloadCopiesTest : public ExecutorHostTest {
 protected:
  PayloadCopiesTest() { defers_copies = true; }
  void TearDown() override { EXPECT_EQ(memories(), 0u) << "not all memory was given back"; }

  // An executor's answer that lies in memory.
  void answers_with(InvocationId invocation, const std::string& payload) {
    auto message = finished(invocation);
    message.payload.clear();
    message.payload_attached = true;
    const OwnedFd memory = memfd_with(payload, true);
    launcher.latest().say(message, {memory.get()});
  }
  // Of payloads, that this process has open.
  static size_t memories() {
    size_t count = 0;
    for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      const std::string name = std::filesystem::read_symlink(each, gone).string();
      if (name.starts_with("/memfd:lambent-object") || name.starts_with("/memfd:test")) ++count;
    }
    return count;
  }
  // The next message is a request whose payload lies in memory: its bytes.
  std::string hears_payload() {
    std::vector<OwnedFd> fds;
    const auto run = hears<protocol::Run>(&fds);
    EXPECT_TRUE(run && run->payload_attached);
    return fds.size() == 1 ? content_of(fds[0]) : "not one file";
  }
  bool is_silent() {
    for (int i = 0; i < 3; ++i) loop.run_once(Duration(0));
    return !launcher.latest().hear().has_value();
  }
  void executor_dies() { launcher.end(launcher.latest().id, {.signal = 11}); }
  // What becomes of copies whose requests are gone.
  void copy_all() {
    while (!copies.empty()) copy_next();
  }
};

TEST_F(PayloadCopiesTest, OtherRequestsAreMadeAndAnsweredWhileALongPayloadIsCopied) {
  instance(SandboxId(1));
  instance(SandboxId(2));
  const InvocationId slow = give(SandboxId(1), std::string(kLong, 's'));
  ASSERT_THAT(copies, SizeIs(1));
  const InvocationId quick = give(SandboxId(2), "quick");
  auto run = hears<protocol::Run>();
  ASSERT_TRUE(run.has_value());
  EXPECT_EQ(run->payload, "quick");
  launcher.latest().say(finished(quick));
  ASSERT_TRUE(turn_until(loop, [&] { return answers.size() == 1; }));
  EXPECT_EQ(answers[0].invocation, quick);
  EXPECT_TRUE(is_silent()) << "the other's payload is not there yet";

  copy_next();
  EXPECT_EQ(hears_payload(), std::string(kLong, 's'));
  answers_with(slow, std::string(kLong, 'a'));
  ASSERT_TRUE(turn_until(loop, [&] { return !copies.empty(); }));
  const InvocationId second = give(SandboxId(2), "quick");
  ASSERT_TRUE(hears<protocol::Run>().has_value());
  launcher.latest().say(finished(second));
  ASSERT_TRUE(turn_until(loop, [&] { return answers.size() == 2; }));
  EXPECT_EQ(answers[1].invocation, second) << "while the other's answer is copied";
  copy_next();
  ASSERT_THAT(answers, SizeIs(3));
  EXPECT_EQ(answers[2].invocation, slow);
  EXPECT_EQ(answers[2].payload, std::string(kLong, 'a'));
}

TEST_F(PayloadCopiesTest, ItsBytesAreThoseThatWereGivenWhateverTheLength) {
  instance(SandboxId(1));
  const size_t in_message = protocol::kInlinePayload.count;
  for (const size_t size :
       {in_message - 1, in_message, in_message + 1, kLong - 2, kLong - 1, kLong, size_t{3} << 20}) {
    const bool is_long = size >= kLong;
    const std::string payload = distinct_bytes(size);
    const InvocationId id = give(SandboxId(1), payload);
    EXPECT_THAT(copies, SizeIs(is_long ? 1 : 0)) << size << " bytes need no thread";
    copy_all();
    if (size > in_message) {
      EXPECT_EQ(hears_payload(), payload) << size;
    } else {
      const auto run = hears<protocol::Run>();
      ASSERT_TRUE(run.has_value());
      EXPECT_EQ(run->payload, payload) << size;
    }
    answers_with(id, payload);
    const size_t before = answers.size();
    ASSERT_TRUE(
        turn_until(loop, [&] { return answers.size() > before || (is_long && !copies.empty()); }));
    EXPECT_THAT(copies, SizeIs(is_long ? 1 : 0));
    copy_all();
    ASSERT_THAT(answers, SizeIs(before + 1));
    EXPECT_TRUE(answers.back().succeeded);
    EXPECT_EQ(answers.back().payload, payload) << size;
  }
}

TEST_F(PayloadCopiesTest, OneThatIsStoppedWhileItsPayloadIsCopiedIsNotSent) {
  instance(SandboxId(1));
  instance(SandboxId(2));  // so that the executor stays
  give(SandboxId(1), std::string(kLong, 's'));
  host->stop(SandboxId(1), Error{ErrorCode::kDeadlineExceeded, "too long"}, "Sandbox.Timeout");
  EXPECT_TRUE(hears<protocol::RemoveInstance>().has_value());
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 1; }));
  EXPECT_EQ(ends[0].error_type, "Sandbox.Timeout");
  EXPECT_FALSE(ends[0].undelivered);
  copy_next();
  EXPECT_TRUE(is_silent());
}

TEST_F(PayloadCopiesTest, OneWhosePayloadIsCopiedBetweenItsStopAndItsEndIsNotSent) {
  instance(SandboxId(1));
  instance(SandboxId(2));  // so that the executor stays
  give(SandboxId(1), std::string(kLong, 's'));
  host->stop(SandboxId(1), Error{ErrorCode::kDeadlineExceeded, "too long"}, "Sandbox.Timeout");
  copy_next();
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 1; }));
  EXPECT_TRUE(hears<protocol::RemoveInstance>().has_value());
  EXPECT_TRUE(is_silent());
}

TEST_F(PayloadCopiesTest, OneWhoseExecutorDiesBeforeItsPayloadIsCopiedIsGivenBackAndRunsElsewhere) {
  const std::string payload = distinct_bytes(kLong);
  instance(SandboxId(1));
  InvocationRequest request;
  request.id = give(SandboxId(1), payload);
  executor_dies();
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 1; }));
  EXPECT_TRUE(ends[0].undelivered);
  EXPECT_EQ(ends[0].invocation, request.id);
  EXPECT_EQ(ends[0].returned_payload, payload);
  instance(SandboxId(2));
  request.payload = ends[0].returned_payload;
  host->deliver(SandboxId(2), request, seconds(3));
  copy_next();  // the former one's
  EXPECT_TRUE(is_silent());
  copy_next();
  EXPECT_EQ(hears_payload(), payload);
}

TEST_F(PayloadCopiesTest, WhatRanWithSeveralInACrashIsGivenBackWithItsPayload) {
  const std::string payload = distinct_bytes(kLong);
  for (const uint64_t id : {1, 2}) {
    instance(SandboxId(id));
    give(SandboxId(id), payload);
    copy_next();
    EXPECT_EQ(hears_payload(), payload);
  }
  executor_dies();
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 2; }));
  for (const SandboxEnd& end : ends) {
    EXPECT_TRUE(end.undelivered);
    EXPECT_EQ(end.returned_payload, payload);
  }
}

TEST_F(PayloadCopiesTest, AnAnswerThatHasComeIsToldThoughItsExecutorDiesWhileItIsCopied) {
  const std::string payload = distinct_bytes(kLong);
  instance(SandboxId(1));
  instance(SandboxId(2));
  const InvocationId id = give(SandboxId(1));
  ASSERT_TRUE(hears<protocol::Run>().has_value());
  answers_with(id, payload);
  ASSERT_TRUE(turn_until(loop, [&] { return !copies.empty(); }));
  give(SandboxId(2));
  executor_dies();
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 2; }));
  ASSERT_THAT(answers, SizeIs(1));
  EXPECT_TRUE(answers[0].succeeded);
  EXPECT_EQ(answers[0].payload, payload);
  EXPECT_EQ(ends[0].error_type, "Sandbox.Failure") << "it ran nothing any more";
  EXPECT_EQ(ends[1].error_type, "Kernel.Fault");
  EXPECT_FALSE(ends[1].undelivered) << "so the other one did it";
  copy_next();
  EXPECT_THAT(answers, SizeIs(1));
}

TEST_F(PayloadCopiesTest, OneThatIsStoppedWhileItsAnswerIsCopiedLeavesTheExecutorAsItIs) {
  instance(SandboxId(1));
  instance(SandboxId(2));  // so that the executor stays
  const InvocationId id = give(SandboxId(1));
  ASSERT_TRUE(hears<protocol::Run>().has_value());
  answers_with(id, std::string(kLong, 'a'));
  ASSERT_TRUE(turn_until(loop, [&] { return !copies.empty(); }));
  host->stop(SandboxId(1), Error{ErrorCode::kDeadlineExceeded, "too long"}, "Sandbox.Timeout");
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 1; }));
  EXPECT_EQ(ends[0].error_type, "Sandbox.Timeout");
  clock.advance(seconds(1));
  loop.run_once(Duration(0));
  EXPECT_EQ(launcher.kills, 0) << "nothing hangs there";
  copy_next();
  EXPECT_THAT(answers, IsEmpty());
}

TEST_F(PayloadCopiesTest, OneThatIsStoppedWhileItsAnswerIsCopiedBreaksNoExecutor) {
  for (const uint64_t id : {1, 2}) {
    instance(SandboxId(id));
    give(SandboxId(id));
    ASSERT_TRUE(hears<protocol::Run>().has_value());
  }
  answers_with({9, 1}, std::string(kLong, 'a'));
  ASSERT_TRUE(turn_until(loop, [&] { return !copies.empty(); }));
  executor_dies();
  host->stop(SandboxId(1), Error{ErrorCode::kDeadlineExceeded, "too long"}, "Sandbox.Timeout");
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 2; }));
  EXPECT_THAT(answers, IsEmpty());
  const SandboxEnd& other = ends[ends[0].sandbox == SandboxId(2) ? 0 : 1];
  EXPECT_EQ(other.error_type, "Kernel.Fault");
  EXPECT_FALSE(other.undelivered) << "it ran by itself";
  copy_next();
  EXPECT_THAT(answers, IsEmpty());
}

TEST_F(PayloadCopiesTest, OneThatLosesItsShareWhileItsAnswerIsCopiedAnswersFirst) {
  instance(SandboxId(1));
  const InvocationId id = give(SandboxId(1));
  ASSERT_TRUE(hears<protocol::Run>().has_value());
  answers_with(id, std::string(kLong, 'a'));
  ASSERT_TRUE(turn_until(loop, [&] { return !copies.empty(); }));
  launcher.latest().say(
      protocol::InstanceFailed{SandboxId(1), {ErrorCode::kResourceExhausted, "share of 25 %"}});
  EXPECT_TRUE(is_silent());
  EXPECT_THAT(ends, IsEmpty());
  copy_next();
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 1; }));
  ASSERT_THAT(answers, SizeIs(1));
  EXPECT_TRUE(answers[0].succeeded);
  EXPECT_EQ(ends[0].error.message, "share of 25 %");
}

TEST_F(PayloadCopiesTest, OneThatLosesItsShareWhileItsPayloadIsCopiedIsGivenBack) {
  instance(SandboxId(1));
  give(SandboxId(1), std::string(kLong, 's'));
  launcher.latest().say(
      protocol::InstanceFailed{SandboxId(1), {ErrorCode::kResourceExhausted, "share of 25 %"}});
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 1; }));
  EXPECT_TRUE(ends[0].undelivered);
  EXPECT_EQ(ends[0].returned_payload, std::string(kLong, 's'));
  copy_next();
}

TEST_F(PayloadCopiesTest, AnExecutorAnswersOnlyOnceAndOnlyWhatItWasSent) {
  instance(SandboxId(1));
  const InvocationId id = give(SandboxId(1), std::string(kLong, 's'));
  launcher.latest().say(finished(id));
  EXPECT_TRUE(is_silent());
  EXPECT_THAT(answers, IsEmpty()) << "it does not have it yet";
  copy_next();
  EXPECT_EQ(hears_payload(), std::string(kLong, 's'));
  answers_with(id, std::string(kLong, 'a'));
  ASSERT_TRUE(turn_until(loop, [&] { return !copies.empty(); }));
  launcher.latest().say(finished(id));
  EXPECT_TRUE(is_silent());
  copy_next();
  ASSERT_THAT(answers, SizeIs(1));
  EXPECT_EQ(answers[0].payload, std::string(kLong, 'a'));
}

TEST_F(PayloadCopiesTest, ASuspectRunsOnceTheOtherHasAnsweredThoughThatIsStillCopied) {
  for (const uint64_t id : {1, 2}) {
    instance(SandboxId(id));
    give(SandboxId(id));
    ASSERT_TRUE(hears<protocol::Run>().has_value());
  }
  executor_dies();
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 2; }));
  for (const uint64_t id : {3, 4}) instance(SandboxId(id));
  for (const uint64_t id : {1, 2}) {
    InvocationRequest request;
    request.id = {9, id};
    host->deliver(SandboxId(id + 2), request, seconds(3));
  }
  ASSERT_TRUE(hears<protocol::Run>().has_value());
  EXPECT_TRUE(is_silent());
  answers_with({9, 1}, std::string(kLong, 'a'));
  const auto run = hears<protocol::Run>();
  ASSERT_TRUE(run.has_value());
  EXPECT_EQ(run->instance, SandboxId(4));
  EXPECT_THAT(answers, IsEmpty());
  copy_all();
  EXPECT_THAT(answers, SizeIs(1));
}

TEST_F(PayloadCopiesTest, MemoryThatCannotBeHadFailsTheRequestByItself) {
  instance(SandboxId(1));
  give(SandboxId(1), std::string(kLong, 's'));
  rlimit files{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  rlimit none = files;
  none.rlim_cur = 0;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  copy_next();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
  ASSERT_TRUE(turn_until(loop, [&] { return answers.size() == 1; }));
  EXPECT_FALSE(answers[0].succeeded);
  const InvocationId next = give(SandboxId(1), "{}");
  EXPECT_TRUE(hears<protocol::Run>().has_value());
  launcher.latest().say(finished(next));
  ASSERT_TRUE(turn_until(loop, [&] { return answers.size() == 2; }));
  EXPECT_TRUE(answers[1].succeeded);
}

TEST_F(PayloadCopiesTest, WhatTheThreadCannotTakeIsCopiedAtOnce) {
  defers_copies = false;
  instance(SandboxId(1));
  const InvocationId id = give(SandboxId(1), std::string(kLong, 's'));
  EXPECT_EQ(hears_payload(), std::string(kLong, 's'));
  answers_with(id, std::string(kLong, 'a'));
  ASSERT_TRUE(turn_until(loop, [&] { return answers.size() == 1; }));
  EXPECT_EQ(answers[0].payload, std::string(kLong, 'a'));
}

}  // namespace
}  // namespace lambent::worker
