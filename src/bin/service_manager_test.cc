#include "bin/service_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <vector>

namespace lambent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr pid_t kSelf = 4711;

TEST(ServiceSettingsTest, WithoutASocketNoManagerAsks) {
  const auto settings = read_service_settings(nullptr, "1000", "4711", kSelf);
  ASSERT_TRUE(settings.ok());
  EXPECT_EQ(settings->address, "");
  EXPECT_FALSE(settings->watchdog.has_value());
  ASSERT_TRUE(read_service_settings("", nullptr, nullptr, kSelf).ok());
}

TEST(ServiceSettingsTest, AWatchdogIsOursOnlyIfItNamesUsOrNoProcess) {
  const auto ours = read_service_settings("/run/notify", "2000000", "4711", kSelf);
  ASSERT_TRUE(ours.ok());
  EXPECT_EQ(ours->watchdog, seconds(2));
  EXPECT_EQ(read_service_settings("/run/notify", "500", nullptr, kSelf)->watchdog,
            microseconds(500));
  EXPECT_FALSE(read_service_settings("/run/notify", "500", "4712", kSelf)->watchdog.has_value());
  EXPECT_EQ(read_service_settings("/n", "18446744073709551615", nullptr, kSelf)->watchdog,
            seconds(86400));
}

TEST(ServiceSettingsTest, WhatCannotBeReadIsRefusedByName) {
  for (const char* socket : {"run/notify", "@", "/", "vsock:2:1234"}) {
    const auto refused = read_service_settings(socket, nullptr, nullptr, kSelf);
    ASSERT_FALSE(refused.ok()) << socket;
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(refused.error().message, HasSubstr("NOTIFY_SOCKET"));
  }
  EXPECT_FALSE(
      read_service_settings(("/" + std::string(200, 'x')).c_str(), nullptr, nullptr, kSelf).ok());
  for (const char* interval : {"", "0", "-1", "12s", "99999999999999999999999"}) {
    const auto refused = read_service_settings("/n", interval, nullptr, kSelf);
    ASSERT_FALSE(refused.ok()) << interval;
    EXPECT_THAT(refused.error().message, HasSubstr("WATCHDOG_USEC"));
  }
  EXPECT_THAT(read_service_settings("/n", "1", "self", kSelf).error().message,
              HasSubstr("WATCHDOG_PID"));
}

// The other side: a datagram socket in a folder of its own, or an abstract one.
class Listener {
 public:
  explicit Listener(bool abstract) : socket_(socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0)) {
    std::string folder = testing::TempDir() + "notifyXXXXXX";
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    address_ = abstract ? "@" + folder : folder + "/socket";
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    memcpy(name.sun_path, address_.data(), address_.size());
    if (abstract) name.sun_path[0] = '\0';
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address_.size());
    EXPECT_EQ(bind(socket_.get(), reinterpret_cast<sockaddr*>(&name), size), 0);
  }
  ~Listener() { std::filesystem::remove_all(folder_); }

  const std::string& address() const { return address_; }
  void close() { socket_.reset(); }
  std::vector<std::string> received() {
    std::vector<std::string> messages;
    std::array<char, 512> buffer{};
    for (ssize_t count; (count = recv(socket_.get(), buffer.data(), buffer.size(), 0)) >= 0;) {
      messages.emplace_back(buffer.data(), static_cast<size_t>(count));
    }
    return messages;
  }

 private:
  OwnedFd socket_;
  std::string folder_;
  std::string address_;
};

class CountingLog final : public LogSink {
 public:
  void write(LogLevel, std::string_view event, std::initializer_list<LogField>) override {
    events.emplace_back(event);
  }
  std::vector<std::string> events;
};

TEST(ServiceManagerTest, TellsWhatTheWorkerDoesInMessagesOfTheirOwn) {
  for (const bool abstract : {false, true}) {
    Listener listener(abstract);
    NullLogSink log;
    auto manager = ServiceManager::open({.address = listener.address()}, log);
    ASSERT_TRUE(manager.ok()) << manager.error().message;
    manager->ready("serving at http://127.0.0.1:1\nMAINPID=1");
    manager->reloading(Instant(seconds(3)));
    manager->stopping("draining");
    EXPECT_THAT(listener.received(),
                ElementsAre("READY=1\nSTATUS=serving at http://127.0.0.1:1 MAINPID=1",
                            "RELOADING=1\nMONOTONIC_USEC=3000000", "STOPPING=1\nSTATUS=draining"));
  }
}

TEST(ServiceManagerTest, AWatchedLoopSendsTwoSignsOfLifeInTheTimeThatIsAskedFor) {
  Listener listener(false);
  NullLogSink log;
  FakeClock clock;
  loop::EventLoop loop(clock);
  auto manager =
      ServiceManager::open({.address = listener.address(), .watchdog = seconds(10)}, log);
  ASSERT_TRUE(manager.ok());
  manager->watch(loop);
  EXPECT_THAT(listener.received(), ElementsAre("WATCHDOG=1"));
  clock.advance(seconds(4));
  loop.run_once(Duration(0));
  EXPECT_THAT(listener.received(), ElementsAre());
  clock.advance(seconds(1));
  loop.run_once(Duration(0));
  EXPECT_THAT(listener.received(), ElementsAre("WATCHDOG=1"));
  clock.advance(seconds(5));
  loop.run_once(Duration(0));
  EXPECT_THAT(listener.received(), ElementsAre("WATCHDOG=1"));
}

TEST(ServiceManagerTest, WithoutAWatchdogOrAManagerNoSignsOfLifeAreSent) {
  Listener listener(false);
  NullLogSink log;
  FakeClock clock;
  loop::EventLoop loop(clock);
  auto manager = ServiceManager::open({.address = listener.address()}, log);
  ASSERT_TRUE(manager.ok());
  manager->watch(loop);
  EXPECT_THAT(listener.received(), ElementsAre());
  auto none = ServiceManager::open({}, log);
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->asked());
  none->watch(loop);
  none->ready("unheard");
}

TEST(ServiceManagerTest, AManagerThatIsGoneIsReportedOnceAndTheWorkerGoesOn) {
  Listener listener(false);
  CountingLog log;
  auto manager = ServiceManager::open({.address = listener.address()}, log);
  ASSERT_TRUE(manager.ok());
  listener.close();
  for (int i = 0; i < 3; ++i) manager->ready("serving");
  EXPECT_THAT(log.events, ElementsAre("service_manager_silent"));
}

TEST(ServiceManagerTest, ASocketThatIsNotThereIsAnError) {
  NullLogSink log;
  const auto manager = ServiceManager::open({.address = "/nonexistent/notify"}, log);
  ASSERT_FALSE(manager.ok());
  EXPECT_EQ(manager.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(manager.error().message, HasSubstr("/nonexistent/notify"));
}

}  // namespace
}  // namespace lambent
