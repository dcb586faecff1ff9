#include "bin/listening_sockets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "core/http/server.h"

namespace lambent {
namespace {

using testing::HasSubstr;

constexpr pid_t kSelf = 4711;
const http::Authority kAnyPort{http::Authority::Kind::kIpv4, "127.0.0.1", 0};

http::Authority at_port(uint16_t port) { return {http::Authority::Kind::kIpv4, "127.0.0.1", port}; }

ListeningSockets none() { return std::move(*ListeningSockets::inherit({}, kSelf)); }

// Inherits `listener` as a service manager gives it.
Result<ListeningSockets> inherit(OwnedFd listener, const char* address = nullptr) {
  return ListeningSockets::inherit({"4711", "1", address}, kSelf, listener.release());
}

Error no_unix_socket() { return {ErrorCode::kUnknown, "a new one was asked for"}; }

TEST(ListeningSocketsTest, WhatWasForAnotherProcessIsNotTaken) {
  for (const auto& [pid, count] :
       {std::pair<const char*, const char*>{nullptr, "1"}, {"4711", nullptr}, {"4712", "1"}}) {
    const auto sockets = ListeningSockets::inherit({pid, count}, kSelf, 900);
    ASSERT_TRUE(sockets.ok());
    EXPECT_TRUE(sockets->check_all_taken().ok());
  }
}

TEST(ListeningSocketsTest, VariablesThatMakeNoSenseAreRefused) {
  EXPECT_THAT(ListeningSockets::inherit({"me", "1"}, kSelf).error().message,
              HasSubstr("LISTEN_PID is a number from 0 to 2147483647, not 'me'"));
  for (const char* count : {"-1", "65", "1x", ""}) {
    const auto refused = ListeningSockets::inherit({"4711", count}, kSelf, 900);
    ASSERT_FALSE(refused.ok()) << count;
    EXPECT_THAT(refused.error().message, HasSubstr("LISTEN_FDS is a number from 0 to 64"));
  }
}

TEST(ListeningSocketsTest, ADescriptorThatDoesNotListenIsRefused) {
  OwnedFd unbound(socket(AF_INET, SOCK_STREAM, 0));
  const int number = unbound.get();
  const auto refused = inherit(std::move(unbound));
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message,
              HasSubstr("descriptor " + std::to_string(number) + ", which LISTEN_FDS counts"));
  close(number);
}

TEST(ListeningSocketsTest, AnInheritedListenerIsTakenByItsAddress) {
  OwnedFd listener = std::move(*http::listen_tcp("127.0.0.1", 0));
  const uint16_t port = http::port_of(listener);
  for (const http::Authority& wanted : {at_port(port), kAnyPort}) {
    auto sockets = inherit(OwnedFd(dup(listener.get())));
    ASSERT_TRUE(sockets.ok());
    EXPECT_THAT(sockets->check_all_taken().error().message,
                HasSubstr("the service manager listens at 127.0.0.1:" + std::to_string(port)));
    const auto taken = sockets->tcp(wanted);
    ASSERT_TRUE(taken.ok());
    EXPECT_EQ(http::port_of(*taken), port);
    EXPECT_TRUE(sockets->check_all_taken().ok());
  }
}

TEST(ListeningSocketsTest, OneAtAnotherAddressIsLeftAndTold) {
  auto sockets = inherit(std::move(*http::listen_tcp("127.0.0.1", 0)));
  ASSERT_TRUE(sockets.ok());
  ASSERT_TRUE(sockets->tcp({http::Authority::Kind::kIpv6, "::1", 0}).ok());
  EXPECT_FALSE(sockets->check_all_taken().ok());
}

TEST(ListeningSocketsTest, AUnixSocketIsTakenByItsPathOrByWhatTheWorkerBeforeSaid) {
  const std::string path = testing::TempDir() + "/listening.sock";
  OwnedFd listener = std::move(*http::listen_unix(path, 0600));
  for (const auto& [given, wanted] : {std::pair<const char*, std::string>{nullptr, path},
                                      {"/run/other.sock\n", "/run/other.sock"}}) {
    auto sockets = inherit(OwnedFd(dup(listener.get())), given);
    ASSERT_TRUE(sockets.ok());
    EXPECT_FALSE(sockets->unix_socket("/run/third.sock", no_unix_socket).ok());
    EXPECT_TRUE(sockets->unix_socket(wanted, no_unix_socket).ok());
    EXPECT_TRUE(sockets->check_all_taken().ok());
  }
  std::filesystem::remove(path);
}

TEST(ListeningSocketsTest, TheNextProgramHasThemAtTheFirstDescriptors) {
  auto sockets = none();
  const auto first = sockets.tcp(kAnyPort);
  const auto second = sockets.tcp(kAnyPort);
  ASSERT_TRUE(first.ok() && second.ok());
  const uint16_t ports[] = {http::port_of(*first), http::port_of(*second)};
  const pid_t child = fork();
  if (child == 0) {
    if (!sockets.hand_over(3).ok()) _exit(1);
    // As after exec, from the variables.
    auto next =
        ListeningSockets::inherit({getenv("LISTEN_PID"), getenv("LISTEN_FDS"), nullptr}, getpid());
    if (!next.ok()) _exit(2);
    for (const uint16_t port : ports) {
      const auto taken = next->tcp(at_port(port));
      if (!taken.ok() || http::port_of(*taken) != port) _exit(3);
    }
    _exit(next->check_all_taken().ok() ? 0 : 4);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// Connects over TCP without waiting; how it went so far: 0, EINPROGRESS, ECONNREFUSED.
int connect_to(uint16_t port, OwnedFd& client) {
  client = OwnedFd(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const auto* where = reinterpret_cast<const sockaddr*>(&address);
  if (connect(client.get(), where, sizeof(address)) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd entry{.fd = client.get(), .events = POLLOUT, .revents = 0};
  if (poll(&entry, 1, 100) == 0) return EINPROGRESS;
  int error = 0;
  socklen_t length = sizeof(error);
  getsockopt(client.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  return error;
}

TEST(ListeningSocketsTest, WhoConnectsWhileAListenerIsClosedIsNotAcceptedAndCutOff) {
  auto sockets = none();
  auto listener = sockets.tcp(kAnyPort);
  ASSERT_TRUE(listener.ok());
  const uint16_t port = http::port_of(*listener);
  OwnedFd before;
  OwnedFd meanwhile;
  OwnedFd after;
  ASSERT_EQ(connect_to(port, before), 0);
  sockets.close();
  EXPECT_EQ(connect_to(port, meanwhile), EINPROGRESS);
  // The one before is there to be served, and is the last.
  EXPECT_TRUE(OwnedFd(accept4(listener->get(), nullptr, nullptr, SOCK_NONBLOCK)).valid());
  EXPECT_FALSE(OwnedFd(accept4(listener->get(), nullptr, nullptr, SOCK_NONBLOCK)).valid());
  *listener = OwnedFd();
  EXPECT_EQ(connect_to(port, after), ECONNREFUSED);
}

TEST(ListeningSocketsTest, AnInheritedListenerThatIsClosedGoesOnForItsOwner) {
  OwnedFd listener = std::move(*http::listen_tcp("127.0.0.1", 0));
  const uint16_t port = http::port_of(listener);
  auto sockets = inherit(OwnedFd(dup(listener.get())));
  ASSERT_TRUE(sockets->tcp(at_port(port)).ok());
  sockets->close();
  OwnedFd client;
  EXPECT_EQ(connect_to(port, client), 0);
}

}  // namespace
}  // namespace lambent
