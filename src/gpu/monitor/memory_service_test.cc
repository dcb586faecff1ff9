// The service over real sockets: turns, leases, and what a client that dies or misbehaves leaves.
#include "gpu/monitor/memory_service.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "core/base/packet.h"
#include "core/base/testing/testing.h"
#include "gpu/monitor/lease_table.h"

namespace lambent::monitor {
namespace {

using protocol::MemoryMessage;
using protocol::MemoryMessageKind;

struct Heard {
  MemoryMessage message;
  std::vector<OwnedFd> fds;
};

class Service : public testing::Test {
 protected:
  Service() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    control_ = OwnedFd(ends[0]);
    service_ = std::make_unique<MemoryService>(
        loop_, OwnedFd(ends[1]),
        MemoryServiceOptions{.budget = Bytes::mib(8), .link = {.turns = 1}},
        [this] { gone_ = true; });
  }

  // The devices by their indices, in the order of the program's numbers.
  void serve(uint64_t sandbox, Bytes most, const std::vector<uint32_t>& devices = {0}) {
    auto listener = listen_packets(path_of(sandbox), 0600);
    ASSERT_TRUE(listener.ok());
    MemoryMessage message;
    message.sequence = sandbox;
    message.kind = MemoryMessageKind::kServeOnDeviceToo;
    for (size_t i = 1; i < devices.size(); ++i) {
      message.process = devices[i];
      ASSERT_TRUE(send_packet(control_.get(), bytes_of(message)).ok());
    }
    message.process = devices.front();
    message.kind = MemoryMessageKind::kServeSandbox;
    message.bytes = most.count;
    const int fds[] = {listener->get()};
    ASSERT_TRUE(send_packet(control_.get(), bytes_of(message), fds).ok());
  }
  OwnedFd call(uint64_t sandbox) {
    OwnedFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    strncpy(address.sun_path, path_of(sandbox).c_str(), sizeof(address.sun_path) - 1);
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    return fd;
  }
  void say(const OwnedFd& fd, MemoryMessageKind kind, Bytes bytes = {}, uint32_t device = 0) {
    MemoryMessage message;
    message.kind = kind;
    message.device = device;
    message.bytes = bytes.count;
    ASSERT_TRUE(send_packet(fd.get(), bytes_of(message)).ok());
  }
  void say_hello(const OwnedFd& fd, Bytes leased, Bytes offloaded) {
    MemoryMessage message;
    message.bytes = leased.count;
    message.offloaded_bytes = offloaded.count;
    ASSERT_TRUE(send_packet(fd.get(), bytes_of(message)).ok());
  }
  // What the client hears next; none if it is hung up on. Fails the test after ten seconds.
  std::optional<Heard> hear(const OwnedFd& fd) {
    const Instant end = clock_.now() + seconds(10);
    while (clock_.now() < end) {
      loop_.run_once(milliseconds(10));
      char buffer[sizeof(MemoryMessage)];
      auto packet = receive_packet(fd.get(), buffer);
      if (!packet.ok()) return std::nullopt;
      if (!packet->has_value()) continue;
      Heard heard{{}, std::move((*packet)->fds)};
      memcpy(&heard.message, buffer, sizeof(buffer));
      return heard;
    }
    ADD_FAILURE() << "nothing was heard";
    return std::nullopt;
  }
  bool hears_nothing(const OwnedFd& fd) {
    for (int turn = 0; turn < 5; ++turn) loop_.run_once(milliseconds(1));
    char buffer[sizeof(MemoryMessage)];
    const auto packet = receive_packet(fd.get(), buffer);
    return packet.ok() && !packet->has_value();
  }
  std::string path_of(uint64_t sandbox) { return folder_ / std::to_string(sandbox); }
  static std::string_view bytes_of(const MemoryMessage& message) {
    return {reinterpret_cast<const char*>(&message), sizeof(message)};
  }

  const TemporaryFolder folder_;
  SystemClock clock_;
  loop::EventLoop loop_{clock_};
  OwnedFd control_;
  bool gone_ = false;
  std::unique_ptr<MemoryService> service_;
};

int64_t size_of(const OwnedFd& file) {
  struct stat facts {};
  EXPECT_EQ(fstat(file.get(), &facts), 0);
  return facts.st_size;
}

// A process of a sandbox that has a lease, of which a process has kept a descriptor.
class Holder {
 public:
  enum class Connection { kKept, kClosed };

  // Turns the loop until it has its lease.
  Holder(loop::EventLoop& loop, const std::function<OwnedFd()>& call, Connection connection) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    const OwnedFd ours(ends[0]);
    const OwnedFd theirs(ends[1]);
    process_ = fork();
    if (process_ == 0) hold(call(), connection, theirs);
    char word = 0;
    for (int turn = 0; turn < 1000 && !lease_.valid(); ++turn) {
      loop.run_once(milliseconds(10));
      auto packet = receive_packet(ours.get(), {&word, 1});
      if (packet.ok() && packet->has_value()) lease_ = std::move((*packet)->fds.front());
    }
    EXPECT_TRUE(lease_.valid());
  }
  ~Holder() { end(); }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

  const OwnedFd& lease() const { return lease_; }
  void end() {
    if (process_ <= 0) return;
    kill(process_, SIGKILL);
    waitpid(std::exchange(process_, -1), nullptr, 0);
  }

 private:
  [[noreturn]] static void hold(OwnedFd socket, Connection connection, const OwnedFd& theirs) {
    MemoryMessage message;
    message.kind = MemoryMessageKind::kWantLease;
    message.bytes = Bytes::mib(4).count;
    char bytes[sizeof(message)];
    memcpy(bytes, &message, sizeof(message));
    (void)send_packet(socket.get(), {bytes, sizeof(bytes)});
    pollfd answer{socket.get(), POLLIN, 0};
    poll(&answer, 1, -1);
    auto packet = receive_packet(socket.get(), bytes);
    if (!packet.ok() || !packet->has_value() || (*packet)->fds.empty()) _exit(1);
    if (connection == Connection::kClosed) socket.reset();
    const int fds[] = {(*packet)->fds.front().get()};
    (void)send_packet(theirs.get(), "x", fds);
    while (true) pause();
  }

  pid_t process_ = -1;
  OwnedFd lease_;
};

TEST_F(Service, ASandboxOnSeveralDevicesTakesItsTurnOnTheLinkOfEach) {
  serve(1, Bytes::mib(8), {2, 5});
  serve(2, Bytes::mib(8), {5});
  const OwnedFd both = call(1);
  const OwnedFd other = call(2);
  say(both, MemoryMessageKind::kWantLink, Bytes::mib(1), 0);
  EXPECT_EQ(hear(both)->message.device, 0u);
  say(both, MemoryMessageKind::kWantLink, Bytes::mib(1), 1);
  EXPECT_EQ(hear(both)->message.device, 1u);
  say(other, MemoryMessageKind::kWantLink, Bytes::mib(1));
  EXPECT_TRUE(hears_nothing(other));
  say(both, MemoryMessageKind::kLinkDone, Bytes::mib(1), 0);
  EXPECT_TRUE(hears_nothing(other)) << "that was the other link";
  say(both, MemoryMessageKind::kLinkDone, Bytes::mib(1), 1);
  EXPECT_EQ(hear(other)->message.kind, MemoryMessageKind::kGrantLink);
  // One that ends gives back the turns of all its links.
  say(both, MemoryMessageKind::kWantLink, Bytes::mib(1), 1);
  say(other, MemoryMessageKind::kLinkDone, Bytes::mib(1));
  EXPECT_EQ(hear(both)->message.device, 1u);
  say(other, MemoryMessageKind::kWantLink, Bytes::mib(1));
  EXPECT_TRUE(hears_nothing(other));
  shutdown(both.get(), SHUT_RDWR);
  EXPECT_EQ(hear(other)->message.kind, MemoryMessageKind::kGrantLink);
}

// Beyond those that were named there is one link, the first's: so for a program outside a sandbox.
TEST_F(Service, ADeviceThatWasNotNamedTakesTurnsAsTheFirst) {
  serve(1, Bytes::mib(8));
  const OwnedFd one = call(1);
  const OwnedFd other = call(1);
  say(one, MemoryMessageKind::kWantLink, Bytes::mib(1), 7);
  EXPECT_TRUE(hear(one).has_value());
  say(other, MemoryMessageKind::kWantLink, Bytes::mib(1));
  EXPECT_TRUE(hears_nothing(other));
  say(one, MemoryMessageKind::kLinkDone, Bytes::mib(1), 7);
  EXPECT_TRUE(hear(other).has_value());
}

TEST_F(Service, LeasesAreZeroedFilesThatGoWithTheirProcess) {
  serve(1, Bytes::mib(8));
  for (const auto connection : {Holder::Connection::kKept, Holder::Connection::kClosed}) {
    Holder holder(
        loop_, [this] { return call(1); }, connection);
    for (int turn = 0; turn < 5; ++turn) loop_.run_once(milliseconds(1));
    struct stat facts {};
    ASSERT_EQ(fstat(holder.lease().get(), &facts), 0);
    EXPECT_EQ(facts.st_size, 4 << 20) << "its memory lies there, whatever it has closed";
    EXPECT_GE(facts.st_blocks * 512, 4 << 20) << "its pages are there already";
    const OwnedFd other = call(1);
    say(other, MemoryMessageKind::kWantLease, Bytes::mib(8));
    EXPECT_EQ(hear(other)->message.kind, MemoryMessageKind::kNoLease);
    holder.end();
    for (int turn = 0; turn < 1000 && size_of(holder.lease()) != 0; ++turn) {
      loop_.run_once(milliseconds(10));
    }
    EXPECT_EQ(size_of(holder.lease()), 0) << "a descriptor that was kept has nothing any more";
    say(other, MemoryMessageKind::kWantLease, Bytes::mib(8));
    EXPECT_EQ(hear(other)->message.kind, MemoryMessageKind::kLease);
    say(other, MemoryMessageKind::kReturnLeases);
  }
}

TEST_F(Service, ALeaseHasNothingOfWhatAnotherSandboxLeftInIts) {
  serve(1, Bytes::mib(8));
  serve(2, Bytes::mib(8));
  const auto lease_of = [this](const OwnedFd& client) {
    say(client, MemoryMessageKind::kWantLease, Bytes::mib(8));
    auto heard = hear(client);
    EXPECT_EQ(heard->message.kind, MemoryMessageKind::kLease);
    return std::move(heard->fds.front());
  };
  const std::string secret(8 << 20, '\x5a');
  const OwnedFd first = call(1), second = call(2);
  const OwnedFd mine = lease_of(first);
  ASSERT_EQ(pwrite(mine.get(), secret.data(), secret.size(), 0), 8 << 20);
  say(first, MemoryMessageKind::kReturnLeases);
  EXPECT_TRUE(hears_nothing(first));
  const OwnedFd theirs = lease_of(second);
  std::string found(8 << 20, '?');
  ASSERT_EQ(pread(theirs.get(), found.data(), found.size(), 0), 8 << 20);
  EXPECT_EQ(found.find_first_not_of('\0'), std::string::npos);
  EXPECT_EQ(pread(mine.get(), found.data(), 1, 0), 0) << "who gave it back has it no more";
}

// The end of the first connection may be seen after the beginning of the second.
TEST_F(Service, AProcessThatConnectsAgainHasWhatItSays) {
  serve(1, Bytes::mib(8));
  for (const bool is_seen : {true, false}) {
    OwnedFd first = call(1);
    say(first, MemoryMessageKind::kWantLease, Bytes::mib(4));
    const auto lease = hear(first);
    say(first, MemoryMessageKind::kWantOffloaded, Bytes::mib(4));
    EXPECT_EQ(hear(first)->message.kind, MemoryMessageKind::kOffloadedGranted);
    first.reset();
    for (int turn = 0; turn < 5 && is_seen; ++turn) loop_.run_once(milliseconds(1));
    OwnedFd again = call(1);
    say_hello(again, Bytes::mib(4), Bytes::mib(2));
    say(again, MemoryMessageKind::kWantOffloaded, Bytes::mib(4));
    EXPECT_EQ(hear(again)->message.kind, MemoryMessageKind::kNoLease) << "2 MiB are left";
    EXPECT_EQ(size_of(lease->fds.front()), 4 << 20);
    say(again, MemoryMessageKind::kReturnLeases);
    say(again, MemoryMessageKind::kWantOffloaded, Bytes::mib(6));
    EXPECT_EQ(hear(again)->message.kind, MemoryMessageKind::kOffloadedGranted);
    EXPECT_EQ(size_of(lease->fds.front()), 0);
    again.reset();
    const OwnedFd as_another_program = call(1);
    say_hello(as_another_program, Bytes(0), Bytes(0));
    say(as_another_program, MemoryMessageKind::kWantLease, Bytes::mib(8));
    EXPECT_EQ(hear(as_another_program)->message.kind, MemoryMessageKind::kLease);
    say(as_another_program, MemoryMessageKind::kReturnLeases);
  }
}

TEST_F(Service, WhatAProcessHasOfADaemonBeforeCountsOnceItSaysSo) {
  serve(1, Bytes::mib(6));
  serve(2, Bytes::mib(8));
  OwnedFd first = call(1);
  OwnedFd second = call(2);
  say_hello(first, Bytes::mib(4), Bytes::mib(2));
  loop_.run_once(milliseconds(10));
  say(second, MemoryMessageKind::kWantLease, Bytes::mib(4));
  EXPECT_EQ(hear(second)->message.kind, MemoryMessageKind::kNoLease) << "2 MiB are left";
  say(first, MemoryMessageKind::kReturnLeases);
  loop_.run_once(milliseconds(10));
  say(second, MemoryMessageKind::kWantLease, Bytes::mib(6));
  EXPECT_EQ(hear(second)->message.kind, MemoryMessageKind::kLease);
  first.reset();
  // It lives on, and so does what it has.
  for (int turn = 0; turn < 5; ++turn) loop_.run_once(milliseconds(1));
  say(second, MemoryMessageKind::kWantLease, Bytes::mib(2));
  EXPECT_EQ(hear(second)->message.kind, MemoryMessageKind::kNoLease);
}

TEST_F(Service, NoSandboxIsCountedWithMoreThanItsShareOfWhatAnEarlierDaemonLeased) {
  serve(1, Bytes::mib(2));
  serve(2, Bytes::mib(8));
  OwnedFd liar = call(1);
  say_hello(liar, Bytes(~uint64_t{0}), Bytes(~uint64_t{0}));
  say_hello(liar, Bytes(~uint64_t{0}), Bytes(~uint64_t{0}));
  loop_.run_once(milliseconds(10));
  OwnedFd second = call(2);
  say(second, MemoryMessageKind::kWantLease, Bytes::mib(6));
  EXPECT_EQ(hear(second)->message.kind, MemoryMessageKind::kLease);
}

TEST_F(Service, NeitherTheBudgetNorASandboxesShareIsExceeded) {
  serve(1, Bytes::mib(6));
  serve(2, Bytes::mib(8));
  OwnedFd first = call(1);
  OwnedFd second = call(2);
  say(first, MemoryMessageKind::kWantLease, Bytes::mib(8));
  EXPECT_EQ(hear(first)->message.kind, MemoryMessageKind::kNoLease) << "its own share is 6 MiB";
  say(first, MemoryMessageKind::kWantLease, Bytes::mib(6));
  EXPECT_EQ(hear(first)->message.kind, MemoryMessageKind::kLease);
  say(second, MemoryMessageKind::kWantLease, Bytes::mib(4));
  EXPECT_EQ(hear(second)->message.kind, MemoryMessageKind::kNoLease) << "2 MiB are left";
  say(first, MemoryMessageKind::kReturnLeases);
  loop_.run_once(milliseconds(10));
  say(second, MemoryMessageKind::kWantLease, Bytes::mib(8));
  EXPECT_EQ(hear(second)->message.kind, MemoryMessageKind::kLease);
}

TEST_F(Service, WhatIsOffloadedCountsLikeALease) {
  serve(1, Bytes::mib(6));
  OwnedFd client = call(1);
  say(client, MemoryMessageKind::kWantLease, Bytes::mib(6));
  const auto lease = hear(client);
  ASSERT_EQ(lease->message.kind, MemoryMessageKind::kLease);
  say(client, MemoryMessageKind::kWantOffloaded, Bytes::mib(4));
  EXPECT_EQ(hear(client)->message.kind, MemoryMessageKind::kNoLease) << "all is leased";
  say(client, MemoryMessageKind::kReturnLeases);
  say(client, MemoryMessageKind::kWantOffloaded, Bytes::mib(4));
  const auto offloaded = hear(client);
  EXPECT_EQ(offloaded->message.kind, MemoryMessageKind::kOffloadedGranted);
  EXPECT_TRUE(offloaded->fds.empty()) << "the driver makes it";
  struct stat facts {};
  ASSERT_EQ(fstat(lease->fds.front().get(), &facts), 0);
  EXPECT_EQ(facts.st_size, 0);
  say(client, MemoryMessageKind::kWantLease, Bytes::mib(4));
  EXPECT_EQ(hear(client)->message.kind, MemoryMessageKind::kNoLease) << "2 MiB are left";
  say(client, MemoryMessageKind::kReturnOffloaded, Bytes::mib(2));
  say(client, MemoryMessageKind::kReturnOffloaded, Bytes::mib(100));  // more than it has
  say(client, MemoryMessageKind::kWantLease, Bytes::mib(6));
  EXPECT_EQ(hear(client)->message.kind, MemoryMessageKind::kLease);
  client.reset();
  loop_.run_once(milliseconds(10));
  OwnedFd next = call(1);
  say_hello(next, Bytes(0), Bytes(0));
  say(next, MemoryMessageKind::kWantOffloaded, Bytes::mib(6));
  EXPECT_EQ(hear(next)->message.kind, MemoryMessageKind::kOffloadedGranted)
      << "nothing is left over";
  next.reset();
  loop_.run_once(milliseconds(10));
  OwnedFd last = call(1);
  say_hello(last, Bytes(0), Bytes(0));
  say(last, MemoryMessageKind::kWantLease, Bytes::mib(6));
  EXPECT_EQ(hear(last)->message.kind, MemoryMessageKind::kLease);
}

TEST_F(Service, AForgottenSandboxIsHungUpOnAndGivesBackItsLeases) {
  serve(1, Bytes::mib(8));
  serve(2, Bytes::mib(8));
  OwnedFd first = call(1);
  say(first, MemoryMessageKind::kWantLease, Bytes::mib(8));
  EXPECT_EQ(hear(first)->message.kind, MemoryMessageKind::kLease);
  MemoryMessage forget;
  forget.kind = MemoryMessageKind::kForgetSandbox;
  forget.sequence = 1;
  ASSERT_TRUE(send_packet(control_.get(), bytes_of(forget)).ok());
  EXPECT_FALSE(hear(first));
  OwnedFd second = call(2);
  say(second, MemoryMessageKind::kWantLease, Bytes::mib(8));
  EXPECT_EQ(hear(second)->message.kind, MemoryMessageKind::kLease);
}

TEST_F(Service, TurnsGoRoundAndADeadClientsTurnIsFree) {
  serve(1, Bytes(0));
  serve(2, Bytes(0));
  OwnedFd first = call(1);
  OwnedFd second = call(2);
  say(first, MemoryMessageKind::kWantLink, Bytes::mib(1));
  EXPECT_EQ(hear(first)->message.kind, MemoryMessageKind::kGrantLink);
  say(second, MemoryMessageKind::kWantLink, Bytes::mib(1));
  EXPECT_TRUE(hears_nothing(second));
  first.reset();
  EXPECT_EQ(hear(second)->message.kind, MemoryMessageKind::kGrantLink);
}

TEST_F(Service, WhoDoesNotKeepToTheProtocolIsHungUpOn) {
  serve(1, Bytes::mib(8));
  OwnedFd odd = call(1);
  say(odd, MemoryMessageKind::kWantLease, Bytes(3));
  EXPECT_FALSE(hear(odd));
  OwnedFd mad = call(1);
  ASSERT_TRUE(send_packet(mad.get(), "GET / HTTP/1.1").ok());
  EXPECT_FALSE(hear(mad));
  OwnedFd giving = call(1);
  const int fds[] = {giving.get()};
  const MemoryMessage hello;
  ASSERT_TRUE(send_packet(giving.get(), bytes_of(hello), fds).ok());
  EXPECT_FALSE(hear(giving)) << "what it sends would have to be closed";
  OwnedFd usurper = call(1);
  say(usurper, MemoryMessageKind::kForgetSandbox);
  EXPECT_FALSE(hear(usurper)) << "only the worker may say this";
  OwnedFd sound = call(1);
  say(sound, MemoryMessageKind::kWantLink, Bytes(1));
  EXPECT_EQ(hear(sound)->message.kind, MemoryMessageKind::kGrantLink);
}

TEST_F(Service, SaysWhenTheWorkerHungUp) {
  control_.reset();
  for (int turn = 0; turn < 5 && !gone_; ++turn) loop_.run_once(milliseconds(10));
  EXPECT_TRUE(gone_);
}

TEST(LeaseTable, WhatIsClaimedMayExceedTheBudgetAndThenNoneIsLeased) {
  LeaseTable lease_table(Bytes(100));
  lease_table.add_sandbox(1, Bytes(80));
  lease_table.add_sandbox(2, Bytes(80));
  EXPECT_EQ(lease_table.claim(1, Bytes(90)), Bytes(80));
  EXPECT_EQ(lease_table.claim(2, Bytes(80)), Bytes(80));
  EXPECT_EQ(lease_table.claim(3, Bytes(1)), Bytes(0)) << "this sandbox is unknown";
  EXPECT_EQ(lease_table.leased(), Bytes(160));
  lease_table.give_back(2, Bytes(70));
  EXPECT_FALSE(lease_table.lease(2, Bytes(20)));
  lease_table.give_back(1, Bytes(80));
  EXPECT_TRUE(lease_table.lease(2, Bytes(20)));
}

TEST(LeaseTable, NumbersThatWouldWrapAreRefused) {
  LeaseTable lease_table(Bytes(100));
  lease_table.add_sandbox(1, Bytes(~uint64_t{0}));
  EXPECT_TRUE(lease_table.lease(1, Bytes(60)));
  EXPECT_FALSE(lease_table.lease(1, Bytes(~uint64_t{0} - 10)));
  EXPECT_FALSE(lease_table.lease(2, Bytes(1))) << "this sandbox is unknown";
  lease_table.give_back(1, Bytes(60));
  EXPECT_EQ(lease_table.leased(), Bytes(0));
}

}  // namespace
}  // namespace lambent::monitor
