// The worker's side of moves, with processes that answer as they are told to.
#include "node/worker/memory_channel.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <deque>

#include "core/base/packet.h"
#include "core/base/testing/testing.h"
#include "node/worker/testing/testing.h"

namespace lambent::worker {
namespace {

using protocol::MemoryMessage;
using protocol::MemoryMessageKind;
using protocol::MemoryMoveDepth;
using protocol::MemoryMoveStatus;

struct NoLog : LogSink {
  void write(LogLevel, std::string_view, std::initializer_list<LogField>) override {}
};

class Channel : public testing::Test {
 protected:
  Channel() {
    auto opened = MemoryChannel::open(
        loop_, log_, folder_ / "memory", [this](MemoryMove move) { moves_.push_back(move); },
        [this](Bytes bytes) { wanted_.push_back(bytes); });
    EXPECT_TRUE(opened.ok());
    channel_ = std::move(*opened);
  }

  // A process that says hello, and the first command that it gets.
  OwnedFd process() {
    OwnedFd fd = connect_only();
    say(fd, {.kind = MemoryMessageKind::kHello});
    return fd;
  }
  OwnedFd connect_only() {
    OwnedFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    strncpy(address.sun_path, (folder_ / "memory").c_str(), sizeof(address.sun_path) - 1);
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    return fd;
  }
  void say(const OwnedFd& fd, const MemoryMessage& message) {
    char bytes[sizeof(message)];
    memcpy(bytes, &message, sizeof(message));
    ASSERT_TRUE(send_packet(fd.get(), {bytes, sizeof(bytes)}).ok());
  }
  MemoryMessage hear(const OwnedFd& fd) {
    MemoryMessage message;
    char bytes[sizeof(message)] = {};
    EXPECT_TRUE(turn_until(loop_, [&] {
      const auto packet = receive_packet(fd.get(), bytes);
      return !packet.ok() || packet->has_value();
    }));
    memcpy(&message, bytes, sizeof(message));
    return message;
  }
  void answer(const OwnedFd& fd, const MemoryMessage& command,
              MemoryMoveStatus status = MemoryMoveStatus::kDone, Bytes moved = {}, Bytes left = {},
              Bytes offloaded = {}) {
    say(fd, {.kind = MemoryMessageKind::kMoved,
             .sequence = command.sequence,
             .bytes = moved.count,
             .left_bytes = left.count,
             .offloaded_bytes = offloaded.count,
             .status = static_cast<uint32_t>(status)});
  }
  bool is_hung_up_on(const OwnedFd& fd) {
    return turn_until(loop_, [&] {
      char bytes[sizeof(MemoryMessage)];
      return !receive_packet(fd.get(), bytes).ok();
    });
  }
  MemoryMove moved() {
    EXPECT_TRUE(turn_until(loop_, [&] { return !moves_.empty(); }));
    if (moves_.empty()) return {};
    const MemoryMove move = moves_.front();
    moves_.pop_front();
    return move;
  }

  const TemporaryFolder folder_;
  FakeClock clock_;
  loop::EventLoop loop_{clock_};
  NoLog log_;
  void want(const OwnedFd& fd, Bytes bytes) {
    say(fd, {.kind = MemoryMessageKind::kWantMemory, .bytes = bytes.count});
  }
  Bytes wanted() {
    EXPECT_TRUE(turn_until(loop_, [&] { return !wanted_.empty(); }));
    if (wanted_.empty()) return {};
    const Bytes bytes = wanted_.front();
    wanted_.pop_front();
    return bytes;
  }
  // Out, and so much will stay offloaded.
  MemoryMove move_out(const OwnedFd& fd, Bytes offloaded) {
    channel_->move_out(MemoryMoveDepth::kMemory);
    answer(fd, hear(fd), MemoryMoveStatus::kDone, {}, {}, offloaded);
    return moved();
  }

  std::deque<MemoryMove> moves_;
  std::deque<Bytes> wanted_;
  std::unique_ptr<MemoryChannel> channel_;
};

TEST_F(Channel, ASandboxWithoutAProcessThatUsesTheDeviceHasNothingToMove) {
  channel_->move_out(MemoryMoveDepth::kMemory);
  EXPECT_TRUE(moves_.empty()) << "never from within the call";
  const MemoryMove move = moved();
  EXPECT_TRUE(move.out);
  EXPECT_TRUE(move.done);
  EXPECT_EQ(move.moved, Bytes(0));
}

TEST_F(Channel, AMoveIsOverWhenEveryProcessHasAnswered) {
  const OwnedFd first = process();
  const OwnedFd second = process();
  answer(first, hear(first));
  answer(second, hear(second));
  channel_->move_out(MemoryMoveDepth::kMemory);
  const MemoryMessage command = hear(first);
  EXPECT_EQ(command.kind, MemoryMessageKind::kMoveOut);
  answer(first, command, MemoryMoveStatus::kDone, Bytes(100), Bytes(1));
  for (int turn = 0; turn < 5; ++turn) loop_.run_once(milliseconds(1));
  EXPECT_TRUE(moves_.empty());
  answer(second, hear(second), MemoryMoveStatus::kDone, Bytes(20), Bytes(2));
  const MemoryMove move = moved();
  EXPECT_TRUE(move.done);
  EXPECT_EQ(move.moved, Bytes(120));
  EXPECT_EQ(move.left, Bytes(3));
}

// Its greeting lies unread where the worker hears of its first answer, and so of a device's
// pressure.
TEST_F(Channel, AMoveWaitsForAProcessWhoseGreetingWasNotReadYet) {
  const OwnedFd known = process();
  answer(known, hear(known));
  const OwnedFd unread = process();
  channel_->move_out(MemoryMoveDepth::kMemory);
  answer(known, hear(known));
  for (int turn = 0; turn < 5; ++turn) loop_.run_once(milliseconds(1));
  EXPECT_TRUE(moves_.empty());
  EXPECT_EQ(hear(unread).kind, MemoryMessageKind::kMoveIn) << "as it is told on arrival";
  const MemoryMessage command = hear(unread);
  EXPECT_EQ(command.kind, MemoryMessageKind::kMoveOut);
  answer(unread, command, MemoryMoveStatus::kDone, Bytes(20));
  EXPECT_EQ(moved().moved, Bytes(20));
}

// It may never say anything, and then has no memory.
TEST_F(Channel, AMoveDoesNotWaitForAProcessThatConnectsAndSaysNothing) {
  const OwnedFd silent = connect_only();
  channel_->move_out(MemoryMoveDepth::kMemory);
  EXPECT_TRUE(moved().done);
}

TEST_F(Channel, WhatAProcessWantsIsPassedOnAndAnsweredOneAfterTheOther) {
  const OwnedFd first = process();
  const OwnedFd second = process();
  (void)hear(first);
  (void)hear(second);
  want(first, Bytes(100));
  EXPECT_EQ(wanted(), Bytes(100));
  want(second, Bytes(7));
  for (int turn = 0; turn < 5; ++turn) loop_.run_once(milliseconds(1));
  EXPECT_TRUE(wanted_.empty());
  channel_->grant(Bytes(100));
  const MemoryMessage granted = hear(first);
  EXPECT_EQ(granted.kind, MemoryMessageKind::kGrantMemory);
  EXPECT_EQ(granted.bytes, 100u);
  EXPECT_EQ(wanted(), Bytes(7));
  channel_->grant(Bytes(0));
  EXPECT_EQ(hear(second).bytes, 0u);
}

TEST_F(Channel, TheWishOfAProcessThatIsGoneGetsNoAnswer) {
  OwnedFd first = process();
  (void)hear(first);
  want(first, Bytes(100));
  EXPECT_EQ(wanted(), Bytes(100));
  first.reset();
  EXPECT_TRUE(turn_until(loop_, [&] { return channel_->processes() == 0; }));
  channel_->grant(Bytes(100));
  const OwnedFd next = process();
  EXPECT_EQ(hear(next).kind, MemoryMessageKind::kMoveIn);
  want(next, Bytes(5));
  EXPECT_EQ(wanted(), Bytes(5));
}

TEST_F(Channel, NothingIsKeptOfThoseWhoWantMemoryAndAreGone) {
  const OwnedFd first = process();
  (void)hear(first);
  want(first, Bytes(100));
  EXPECT_EQ(wanted(), Bytes(100));
  for (int count = 0; count < 5; ++count) {
    OwnedFd gone = process();
    (void)hear(gone);
    want(gone, Bytes(7));
    gone.reset();
    EXPECT_TRUE(turn_until(loop_, [&] { return channel_->processes() == 1; }));
  }
  const OwnedFd next = process();
  (void)hear(next);
  want(next, Bytes(5));
  channel_->grant(Bytes(100));
  EXPECT_EQ(hear(first).bytes, 100u);
  EXPECT_EQ(wanted(), Bytes(5));
}

TEST_F(Channel, ARefusalHoldsForAWhile) {
  OwnedFd process = this->process();
  (void)hear(process);
  want(process, Bytes(7));
  EXPECT_EQ(wanted(), Bytes(7));
  channel_->grant(Bytes(0));
  EXPECT_EQ(hear(process).bytes, 0u);
  for (int count = 0; count < 5; ++count) {
    want(process, Bytes(7));
    const MemoryMessage refused = hear(process);
    EXPECT_EQ(refused.kind, MemoryMessageKind::kGrantMemory);
    EXPECT_EQ(refused.bytes, 0u);
  }
  process = this->process();  // which is no way around it
  (void)hear(process);
  want(process, Bytes(7));
  EXPECT_EQ(hear(process).kind, MemoryMessageKind::kGrantMemory);
  EXPECT_TRUE(wanted_.empty());
  clock_.advance(milliseconds(100));
  want(process, Bytes(8));
  EXPECT_EQ(wanted(), Bytes(8));
}

TEST_F(Channel, WhoWantsTwiceAtOnceIsHungUpOn) {
  const OwnedFd process = this->process();
  (void)hear(process);
  want(process, Bytes(1));
  want(process, Bytes(1));
  EXPECT_TRUE(is_hung_up_on(process));
}

TEST_F(Channel, WhatIsOffloadedIsSparedWhereOneProcessAloneHasMemory) {
  const OwnedFd first = process();
  answer(first, hear(first));
  const MemoryMove alone = move_out(first, Bytes(50));
  EXPECT_EQ(alone.offloaded, Bytes(50));
  EXPECT_EQ(alone.spared, Bytes(50));
  // One that comes may allocate what the first has freed.
  const OwnedFd second = process();
  EXPECT_EQ(wanted(), Bytes(50));
  channel_->grant(Bytes(50));
  answer(second, hear(second));
  channel_->move_out(MemoryMoveDepth::kMemory);
  answer(first, hear(first), MemoryMoveStatus::kDone, {}, {}, Bytes(50));
  answer(second, hear(second));
  const MemoryMove both = moved();
  EXPECT_EQ(both.offloaded, Bytes(50));
  EXPECT_EQ(both.spared, Bytes(0));
}

TEST_F(Channel, WhoComesLateIsToldWhereItsMemoryBelongs) {
  const OwnedFd first = process();
  EXPECT_EQ(hear(first).kind, MemoryMessageKind::kMoveIn);
  channel_->move_out(MemoryMoveDepth::kMemory);
  answer(first, hear(first));
  EXPECT_TRUE(moved().done);
  const OwnedFd late = process();
  EXPECT_EQ(hear(late).kind, MemoryMessageKind::kMoveOut);
}

TEST_F(Channel, AMoveOutIsOverWhenWhoDiesInTheMiddleHasEnded) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
  const OwnedFd said(ends[0]);
  const OwnedFd says(ends[1]);
  const pid_t child = fork();
  if (child == 0) {
    const OwnedFd socket = connect_only();
    say(socket, {.kind = MemoryMessageKind::kHello});
    char bytes[sizeof(MemoryMessage)];
    pollfd answer{socket.get(), POLLIN, 0};
    poll(&answer, 1, -1);
    const bool is_greeted = receive_packet(socket.get(), bytes).ok();
    (void)!write(says.get(), &is_greeted, 1);
    pause();
    _exit(0);
  }
  char word = 0;
  ASSERT_TRUE(turn_until(loop_, [&] { return read(said.get(), &word, 1) == 1; }));
  OwnedFd second = process();
  (void)hear(second);
  channel_->move_out(MemoryMoveDepth::kMemory);
  answer(second, hear(second));
  EXPECT_EQ(kill(child, SIGKILL), 0);
  EXPECT_TRUE(moved().done);
  EXPECT_EQ(channel_->processes(), 1u);
  siginfo_t end{};
  EXPECT_EQ(waitid(P_PID, static_cast<id_t>(child), &end, WEXITED | WNOHANG), 0);
  EXPECT_EQ(end.si_pid, child) << "it had ended by then";
}

TEST_F(Channel, WhoHangsUpInTheMiddleOfAMoveOutAndGoesOnIsWaitedForAWhile) {
  OwnedFd first = process();
  (void)hear(first);
  channel_->move_out(MemoryMoveDepth::kMemory);
  (void)hear(first);
  first.reset();
  ASSERT_TRUE(turn_until(loop_, [&] { return channel_->processes() == 0; }));
  EXPECT_TRUE(moves_.empty());
  clock_.advance(milliseconds(1999));
  loop_.run_once(Duration(0));
  EXPECT_TRUE(moves_.empty());
  clock_.advance(milliseconds(1));
  EXPECT_TRUE(moved().done);
}

TEST_F(Channel, WhoHangsUpInTheMiddleOfAMoveOutAndComesAgainIsToldAgain) {
  OwnedFd first = process();
  (void)hear(first);
  channel_->move_out(MemoryMoveDepth::kMemory);
  (void)hear(first);
  first.reset();
  ASSERT_TRUE(turn_until(loop_, [&] { return channel_->processes() == 0; }));
  const OwnedFd again = process();
  const MemoryMessage command = hear(again);
  EXPECT_EQ(command.kind, MemoryMessageKind::kMoveOut);
  EXPECT_TRUE(moves_.empty());
  answer(again, command, MemoryMoveStatus::kDone, Bytes(20));
  const MemoryMove move = moved();
  EXPECT_TRUE(move.done);
  EXPECT_EQ(move.moved, Bytes(20));
}

TEST_F(Channel, WhoHangsUpInTheMiddleOfAMoveInIsNotWaitedFor) {
  OwnedFd first = process();
  (void)hear(first);
  channel_->move_out(MemoryMoveDepth::kMemory);
  answer(first, hear(first));
  EXPECT_TRUE(moved().done);
  channel_->move_in();
  (void)hear(first);
  first.reset();
  EXPECT_TRUE(moved().done);
}

TEST_F(Channel, AMoveOutThatOneCannotDoIsTakenBackByAll) {
  const OwnedFd able = process();
  const OwnedFd unable = process();
  (void)hear(able);
  (void)hear(unable);
  channel_->move_out(MemoryMoveDepth::kMemory);
  answer(able, hear(able), MemoryMoveStatus::kDone, Bytes(100));
  answer(unable, hear(unable), MemoryMoveStatus::kNoHostMemory);
  for (const OwnedFd* each : {&able, &unable}) {
    const MemoryMessage command = hear(*each);
    EXPECT_EQ(command.kind, MemoryMessageKind::kMoveIn);
    EXPECT_TRUE(moves_.empty()) << "not before it is taken back";
    answer(*each, command);
  }
  const MemoryMove move = moved();
  EXPECT_TRUE(move.out);
  EXPECT_FALSE(move.done);
  EXPECT_FALSE(move.broken);
}

TEST_F(Channel, WhatCannotGoDeeperStaysAsFarOutAsItWas) {
  const OwnedFd process = this->process();
  (void)hear(process);
  channel_->move_out(MemoryMoveDepth::kMemory);
  answer(process, hear(process));
  EXPECT_FALSE(moved().deep);
  channel_->move_out(MemoryMoveDepth::kContext);
  const MemoryMessage command = hear(process);
  EXPECT_EQ(command.depth, static_cast<uint32_t>(MemoryMoveDepth::kContext));
  answer(process, command, MemoryMoveStatus::kNotSupported);
  const MemoryMove move = moved();
  EXPECT_TRUE(move.deep);
  EXPECT_FALSE(move.done);
  EXPECT_FALSE(move.broken);
  const OwnedFd late = this->process();
  EXPECT_EQ(hear(late).kind, MemoryMessageKind::kMoveOut) << "nothing was taken back";
}

TEST_F(Channel, WhatCannotBeTakenBackIsBroken) {
  const OwnedFd able = process();
  const OwnedFd unable = process();
  (void)hear(able);
  (void)hear(unable);
  channel_->move_out(MemoryMoveDepth::kMemory);
  answer(able, hear(able));
  answer(unable, hear(unable), MemoryMoveStatus::kBusy);
  answer(able, hear(able), MemoryMoveStatus::kNoDeviceMemory);
  answer(unable, hear(unable));
  EXPECT_TRUE(moved().broken);
}

TEST_F(Channel, AMoveInThatFailsMayBeTriedAgain) {
  const OwnedFd process = this->process();
  (void)hear(process);
  channel_->move_out(MemoryMoveDepth::kMemory);
  answer(process, hear(process));
  EXPECT_TRUE(moved().done);
  channel_->move_in();
  answer(process, hear(process), MemoryMoveStatus::kNoDeviceMemory);
  const MemoryMessage back = hear(process);
  EXPECT_EQ(back.kind, MemoryMessageKind::kMoveOut) << "another process may be in already";
  answer(process, back);
  const MemoryMove failed = moved();
  EXPECT_FALSE(failed.done);
  EXPECT_FALSE(failed.broken);
  channel_->move_in();
  answer(process, hear(process), MemoryMoveStatus::kDone, Bytes(7));
  EXPECT_EQ(moved().moved, Bytes(7));
}

TEST_F(Channel, ALateAnswerToAnEarlierCommandChangesNothing) {
  const OwnedFd process = this->process();
  const MemoryMessage greeting = hear(process);
  channel_->move_out(MemoryMoveDepth::kMemory);
  const MemoryMessage command = hear(process);
  answer(process, greeting, MemoryMoveStatus::kFailed);
  answer(process, command);
  EXPECT_TRUE(moved().done);
}

TEST_F(Channel, WhoDoesNotKeepToTheProtocolIsHungUpOn) {
  const OwnedFd mad = connect_only();
  ASSERT_TRUE(send_packet(mad.get(), "hello?").ok());
  EXPECT_TRUE(is_hung_up_on(mad));
  const OwnedFd rude = connect_only();
  say(rude, {.kind = MemoryMessageKind::kMoved});
  EXPECT_TRUE(is_hung_up_on(rude)) << "it did not say hello";
  const OwnedFd giving = connect_only();
  const int fds[] = {giving.get()};
  const MemoryMessage hello;
  // Refused by the kernel, or by us.
  const bool arrives =
      send_packet(giving.get(), {reinterpret_cast<const char*>(&hello), sizeof(hello)}, fds).ok();
  EXPECT_TRUE(!arrives || is_hung_up_on(giving));
  const OwnedFd eager = process();
  (void)hear(eager);
  say(eager, {.kind = MemoryMessageKind::kHello});
  EXPECT_TRUE(is_hung_up_on(eager));
  const OwnedFd sound = process();
  EXPECT_EQ(hear(sound).kind, MemoryMessageKind::kMoveIn);
}

// What another program goes on with.
class HandedOver : public Channel {
 protected:
  void hand_over() {
    ASSERT_TRUE(channel_->rests());
    HandedOverMemory from = channel_->hand_over();
    place_ = from.place;
    channel_ = std::make_unique<MemoryChannel>(
        loop_, log_, std::move(from), [this](MemoryMove move) { moves_.push_back(move); },
        [this](Bytes bytes) { wanted_.push_back(bytes); });
    moves_.clear();
  }

  MemoryPlace place_;
};

TEST_F(HandedOver, AProcessIsToldAgainWhereItsMemoryIsAndObeysTheNewProgram) {
  const OwnedFd fd = process();
  answer(fd, hear(fd));
  channel_->move_out(MemoryMoveDepth::kMemory);
  answer(fd, hear(fd), MemoryMoveStatus::kDone, Bytes::mib(90), Bytes::mib(10), Bytes::mib(4));
  ASSERT_TRUE(turn_until(loop_, [&] { return !moves_.empty(); }));
  hand_over();
  EXPECT_TRUE(place_.is_out);
  EXPECT_EQ(place_.left, Bytes::mib(10));
  EXPECT_EQ(place_.offloaded, Bytes::mib(4));
  const MemoryMessage again = hear(fd);
  EXPECT_EQ(again.kind, MemoryMessageKind::kMoveOut);
  answer(fd, again);
  channel_->move_in();
  const MemoryMessage in = hear(fd);
  EXPECT_EQ(in.kind, MemoryMessageKind::kMoveIn);
  EXPECT_GT(in.sequence, again.sequence);
  answer(fd, in, MemoryMoveStatus::kDone, Bytes::mib(90));
  ASSERT_TRUE(turn_until(loop_, [&] { return !moves_.empty(); }));
  EXPECT_EQ(moves_.size(), 1u) << "what was not asked for is not reported";
  EXPECT_FALSE(moves_[0].out);
  EXPECT_TRUE(moves_[0].done);
}

TEST_F(HandedOver, AProcessThatComesLaterIsToldTheSame) {
  const OwnedFd fd = process();
  answer(fd, hear(fd));
  channel_->move_out(MemoryMoveDepth::kMemory);
  answer(fd, hear(fd));
  ASSERT_TRUE(turn_until(loop_, [&] { return !moves_.empty(); }));
  hand_over();
  const OwnedFd later = process();
  EXPECT_EQ(hear(later).kind, MemoryMessageKind::kMoveOut);
}

TEST_F(HandedOver, WhatIsSparedWhileTheMemoryIsInIsWantedForAProcessThatComesLater) {
  const OwnedFd fd = process();
  answer(fd, hear(fd));
  channel_->move_out(MemoryMoveDepth::kMemory);
  answer(fd, hear(fd), MemoryMoveStatus::kDone, Bytes::mib(90), Bytes(0), Bytes::mib(4));
  ASSERT_TRUE(turn_until(loop_, [&] { return !moves_.empty(); }));
  channel_->move_in();
  answer(fd, hear(fd), MemoryMoveStatus::kDone, Bytes::mib(86));
  ASSERT_TRUE(turn_until(loop_, [&] { return moves_.size() == 2; }));
  hand_over();
  EXPECT_FALSE(place_.is_out);
  EXPECT_EQ(place_.offloaded, Bytes::mib(4)) << "dispatch counts it as not on the device";
  const OwnedFd later = process();
  EXPECT_EQ(wanted(), Bytes::mib(4));
}

TEST_F(HandedOver, OpenWishesAreRefusedSoThatTheSandboxRests) {
  const OwnedFd one = process();
  const OwnedFd two = process();
  answer(one, hear(one));
  answer(two, hear(two));
  want(one, Bytes::mib(2));
  EXPECT_EQ(wanted(), Bytes::mib(2));
  want(two, Bytes::mib(3));
  loop_.run_once(Duration(0));
  channel_->refuse_wishes();
  for (const OwnedFd* each : {&one, &two}) {
    const MemoryMessage refusal = hear(*each);
    EXPECT_EQ(refusal.kind, MemoryMessageKind::kGrantMemory);
    EXPECT_EQ(refusal.bytes, 0u);
  }
  EXPECT_TRUE(channel_->rests());
  channel_->grant(Bytes::mib(2));
  want(one, Bytes::mib(2));
  EXPECT_EQ(hear(one).bytes, 0u) << "also of a wish that comes later, and not what is too late";
  EXPECT_TRUE(wanted_.empty());
  EXPECT_TRUE(channel_->rests());
}

TEST_F(HandedOver, NothingRestsWhileAMoveOrAWishIsUnderWay) {
  const OwnedFd fd = process();
  answer(fd, hear(fd));
  channel_->move_out(MemoryMoveDepth::kMemory);
  EXPECT_FALSE(channel_->rests());
  const MemoryMessage command = hear(fd);
  answer(fd, command, MemoryMoveStatus::kDone, Bytes::mib(90));
  ASSERT_TRUE(turn_until(loop_, [&] { return !moves_.empty(); }));
  EXPECT_TRUE(channel_->rests());
  say(fd, {.kind = MemoryMessageKind::kWantMemory, .bytes = Bytes::mib(2).count});
  ASSERT_TRUE(turn_until(loop_, [&] { return !wanted_.empty(); }));
  EXPECT_FALSE(channel_->rests());
  channel_->grant(Bytes(0));
  EXPECT_TRUE(channel_->rests());
  const OwnedFd silent = connect_only();
  EXPECT_FALSE(channel_->rests()) << "one has yet to say hello";
}

TEST_F(HandedOver, AMoveThatFailedAndWasTakenBackLeavesTheMemoryIn) {
  const OwnedFd fd = process();
  answer(fd, hear(fd));
  channel_->move_out(MemoryMoveDepth::kMemory);
  answer(fd, hear(fd), MemoryMoveStatus::kNoHostMemory);
  answer(fd, hear(fd));
  ASSERT_TRUE(turn_until(loop_, [&] { return !moves_.empty(); }));
  EXPECT_FALSE(moves_[0].done);
  hand_over();
  EXPECT_FALSE(place_.is_out);
  EXPECT_EQ(hear(fd).kind, MemoryMessageKind::kMoveIn);
}

}  // namespace
}  // namespace lambent::worker
