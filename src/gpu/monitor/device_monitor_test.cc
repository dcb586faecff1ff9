// The monitor with the real program over a fake NVML that can be told to hang.
#include "gpu/monitor/device_monitor.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/base/packet.h"
#include "core/base/testing/testing.h"
#include "core/protocol/memory_message.h"
#include "gpu/monitor/nvml.h"

namespace lambent::monitor {
namespace {

using protocol::DeviceHealth;

struct NoLog : LogSink {
  void write(LogLevel, std::string_view, std::initializer_list<LogField>) override {}
};

class Monitor : public testing::Test {
 protected:
  Monitor() {
    options_.program = LAMBENT_DEVICE;
    options_.nvml = FAKE_NVML;
    options_.environment = {"FAKE_NVML_HANG=" + folder_ / "hang",
                            "FAKE_NVML_LOST=" + folder_ / "lost",
                            "FAKE_NVML_XID=" + folder_ / "xid",
                            "FAKE_NVML_ECC=" + folder_ / "ecc",
                            "FAKE_NVML_NO_HANDLE=" + folder_ / "no_handle",
                            "FAKE_NVML_BREAK_EVENTS=" + folder_ / "break_events",
                            "FAKE_NVML_XID_HANGS=" + folder_ / "xid_hangs",
                            "FAKE_NVML_UNTOLD=" + folder_ / "untold"};
    options_.period = milliseconds(10);
    options_.most_silence = milliseconds(200);
    options_.first_back_off = milliseconds(10);
  }

  std::unique_ptr<DeviceMonitor> started() {
    auto monitor = std::make_unique<DeviceMonitor>(
        loop_, log_, options_,
        DeviceMonitorCallbacks{[this](const auto& devices) {
                                 ++found_;
                                 devices_ = devices;
                               },
                               [this](const auto& readings) {
                                 ++read_;
                                 readings_ = readings;
                               },
                               [this](const Error& error) {
                                 ++silent_;
                                 error_ = error;
                               },
                               [this](const auto& faults) {
                                 faults_.insert(faults_.end(), faults.begin(), faults.end());
                               }});
    monitor->start();
    return monitor;
  }
  // Turns the loop until the condition holds; false after ten seconds.
  template <typename Condition>
  bool run_until(Condition condition) {
    const Instant end = clock_.now() + seconds(10);
    while (!condition() && clock_.now() < end) loop_.run_once(milliseconds(20));
    return condition();
  }
  void touch(const char* name) { std::ofstream(folder_ / name) << "x"; }
  void remove(const char* name) { std::filesystem::remove(folder_ / name); }

  SystemClock clock_;
  loop::EventLoop loop_{clock_};
  NoLog log_;
  const TemporaryFolder folder_;
  DeviceMonitorOptions options_;
  int found_ = 0;
  int read_ = 0;
  int silent_ = 0;
  std::vector<protocol::DeviceInventory> devices_;
  std::vector<protocol::DeviceReading> readings_;
  Error error_;
  std::vector<protocol::DeviceFault> faults_;
};

TEST_F(Monitor, TellsWhatThereIsOnceAndHowItIsAgainAndAgain) {
  const auto monitor = started();
  ASSERT_TRUE(run_until([this] { return read_ >= 3; }));
  EXPECT_EQ(found_, 1);
  ASSERT_EQ(devices_.size(), 1u);
  EXPECT_EQ(devices_[0].name, "Fake");
  EXPECT_EQ(devices_[0].memory_total, Bytes::gib(16));
  EXPECT_TRUE(devices_[0].uuid.starts_with("GPU-"));
  EXPECT_EQ(devices_[0].minor, 3u);
  ASSERT_EQ(readings_.size(), 1u);
  EXPECT_EQ(readings_[0].busy_percent, 42);
  EXPECT_EQ(readings_[0].memory_used, Bytes::gib(1));
  EXPECT_EQ(readings_[0].health, DeviceHealth::kHealthy);
  EXPECT_EQ(silent_, 0);
}

TEST_F(Monitor, TellsThatADeviceIsLostAndThatItIsBack) {
  const auto monitor = started();
  ASSERT_TRUE(run_until([this] { return read_ >= 1; }));
  touch("lost");
  EXPECT_TRUE(run_until([this] { return readings_[0].health == DeviceHealth::kLost; }));
  remove("lost");
  EXPECT_TRUE(run_until([this] { return readings_[0].health == DeviceHealth::kHealthy; }));
  EXPECT_EQ(silent_, 0);
}

TEST_F(Monitor, TellsOfXidsOnceWithWhatTheyAre) {
  const auto monitor = started();
  ASSERT_TRUE(run_until([this] { return read_ >= 1; }));
  EXPECT_TRUE(faults_.empty());
  std::ofstream(folder_ / "new") << "31 79 9999";
  std::filesystem::rename(folder_ / "new", folder_ / "xid");
  ASSERT_TRUE(run_until([this] { return faults_.size() >= 3; }));
  EXPECT_EQ(faults_[0], (protocol::DeviceFault{0, 31, protocol::FaultGravity::kApplication,
                                               "GPU memory page fault"}));
  EXPECT_EQ(faults_[1].xid, 79u);
  EXPECT_EQ(faults_[1].gravity, protocol::FaultGravity::kDevice);
  EXPECT_EQ(faults_[2].gravity, protocol::FaultGravity::kNotice);
  const int read_before = read_;
  ASSERT_TRUE(run_until([&] { return read_ >= read_before + 3; }));
  EXPECT_EQ(faults_.size(), 3u);
}

TEST_F(Monitor, TellsOfErrorsOfMemoryAndOfRepairsThatFailed) {
  const auto monitor = started();
  ASSERT_TRUE(run_until([this] { return read_ >= 1; }));
  EXPECT_EQ(readings_[0].uncorrected_errors, 0u);
  EXPECT_EQ(readings_[0].repair, protocol::MemoryRepair::kNone);
  touch("ecc");
  ASSERT_TRUE(run_until([this] { return readings_[0].uncorrected_errors == 3; }));
  EXPECT_EQ(readings_[0].repair, protocol::MemoryRepair::kFailed);
  EXPECT_EQ(readings_[0].health, DeviceHealth::kHealthy);
}

TEST_F(Monitor, NoticesThatNvmlHangsAndStartsAfresh) {
  const auto monitor = started();
  ASSERT_TRUE(run_until([this] { return read_ >= 1; }));
  touch("hang");
  ASSERT_TRUE(run_until([this] { return silent_ >= 1; }));
  EXPECT_EQ(error_.code, ErrorCode::kUnavailable);
  remove("hang");
  const int read_before = read_;
  EXPECT_TRUE(run_until([&] { return read_ > read_before; }));
  EXPECT_EQ(found_, 1) << "the same devices are not news";
}

TEST_F(Monitor, SaysWhyThereAreNoDevicesAndTriesAgainLater) {
  options_.nvml = folder_ / "libnvidia-ml.so.1";
  const auto monitor = started();
  ASSERT_TRUE(run_until([this] { return silent_ >= 3; }));
  EXPECT_NE(error_.message.find("libnvidia-ml.so.1"), std::string::npos);
  std::filesystem::copy(FAKE_NVML, options_.nvml);
  EXPECT_TRUE(run_until([this] { return read_ >= 1; }));
}

TEST_F(Monitor, SurvivesAProgramThatDoesNotExistOrSaysNothing) {
  options_.program = folder_ / "nothing";
  const auto absent = started();
  EXPECT_TRUE(run_until([this] { return silent_ >= 2; }));
  silent_ = 0;
  options_.program = "/bin/true";
  const auto mute = started();
  EXPECT_TRUE(run_until([this] { return silent_ >= 2; }));
}

TEST_F(Monitor, BacksOffLongerEachTime) {
  options_.program = "/bin/true";
  options_.first_back_off = milliseconds(50);
  const auto monitor = started();
  const Instant start = clock_.now();
  ASSERT_TRUE(run_until([this] { return silent_ >= 4; }));
  EXPECT_GE(clock_.now() - start, milliseconds(50 + 100 + 200));
}

TEST_F(Monitor, ADeviceThatIsLostFromTheStartIsToldOf) {
  touch("lost");
  const auto monitor = started();
  ASSERT_TRUE(run_until([this] { return read_ >= 1; }));
  ASSERT_EQ(devices_.size(), 1u);
  EXPECT_EQ(devices_[0].memory_total, Bytes(0));
  EXPECT_EQ(readings_[0].health, DeviceHealth::kLost);
}

TEST_F(Monitor, ADeviceWithoutAHandleAtTheNextStartIsInNoReading) {
  const auto monitor = started();
  ASSERT_TRUE(run_until([this] { return read_ >= 1; }));
  touch("no_handle");
  touch("hang");
  ASSERT_TRUE(run_until([this] { return silent_ >= 1; }));
  remove("hang");
  const int read_before = read_;
  ASSERT_TRUE(run_until([&] { return read_ > read_before && readings_.empty(); }));
  EXPECT_EQ(silent_, 1);
}

TEST_F(Monitor, TellsAnXidThatMakesTheReadingHang) {
  const auto monitor = started();
  ASSERT_TRUE(run_until([this] { return read_ >= 1; }));
  // A reading that begins in the same instant may hang first; not three times.
  for (int attempt = 1; attempt <= 3 && faults_.empty(); ++attempt) {
    touch("xid_hangs");
    ASSERT_TRUE(run_until([&] { return silent_ == attempt; }));
    remove("xid_hangs");
    const int read_before = read_;
    ASSERT_TRUE(run_until([&] { return read_ > read_before; }));
  }
  ASSERT_EQ(faults_.size(), 1u);
  EXPECT_EQ(faults_[0].xid, 119u);
}

TEST_F(Monitor, TellsOfXidsAfterItsEventsBroke) {
  const auto monitor = started();
  ASSERT_TRUE(run_until([this] { return read_ >= 1; }));
  touch("break_events");
  ASSERT_TRUE(run_until([this] { return !std::filesystem::exists(folder_ / "break_events"); }));
  std::ofstream(folder_ / "new") << "79";
  std::filesystem::rename(folder_ / "new", folder_ / "xid");
  EXPECT_TRUE(run_until([this] { return faults_.size() == 1; }));
  EXPECT_EQ(silent_, 0);
}

TEST_F(Monitor, WhatNvmlDoesNotTellIsNotZero) {
  touch("ecc");
  const auto monitor = started();
  ASSERT_TRUE(run_until([this] { return read_ >= 1; }));
  EXPECT_TRUE(devices_[0].knows_utilisation);
  touch("untold");
  ASSERT_TRUE(run_until([this] { return !readings_[0].uncorrected_errors.has_value(); }));
  ASSERT_TRUE(run_until([this] { return !readings_[0].repair.has_value(); }));
  EXPECT_EQ(readings_[0].health, DeviceHealth::kHealthy);
  EXPECT_FALSE(readings_[0].knows_utilisation);
}

TEST_F(Monitor, ADeviceThatFailsToTellItsUtilisationFirstIsNotOneThatKnowsIt) {
  touch("untold");
  const auto monitor = started();
  ASSERT_TRUE(run_until([this] { return read_ >= 1; }));
  EXPECT_FALSE(devices_[0].knows_utilisation);
}

TEST(NvmlDoor, RefusesALibraryThatIsNotThereOrIsNone) {
  EXPECT_EQ(Nvml::open("/nonexistent/libnvidia-ml.so.1").error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(Nvml::open("libm.so.6").error().code, ErrorCode::kUnavailable);
}

TEST(NvmlDoor, TellsOfAnIntegratedDeviceWhatTheDriverAndItsProcessesSay) {
  const TemporaryFolder folder;
  std::ofstream(folder / "integrated") << "x";
  setenv("FAKE_NVML_INTEGRATED", (folder / "integrated").c_str(), 1);
  const std::vector<DriverFacts> facts = {{"another name", true, Bytes::gib(120)}};
  const auto with_driver = Nvml::open(FAKE_NVML, "/sys", facts);
  const auto without = Nvml::open(FAKE_NVML, "/sys");
  ASSERT_TRUE(with_driver.ok());
  ASSERT_TRUE(without.ok());
  EXPECT_TRUE((*with_driver)->devices()[0].integrated);
  EXPECT_EQ((*with_driver)->devices()[0].memory_total, Bytes::gib(120));
  const auto reading = (*with_driver)->read()[0];
  EXPECT_EQ(reading.health, DeviceHealth::kHealthy);
  EXPECT_EQ(reading.memory_total, Bytes::gib(120));
  EXPECT_EQ(reading.memory_used, Bytes::gib(1) + Bytes::mib(1));
  EXPECT_FALSE((*without)->devices()[0].integrated);
  EXPECT_EQ((*without)->read()[0].health, DeviceHealth::kUnreadable);
  unsetenv("FAKE_NVML_INTEGRATED");
}

TEST(NvmlDoor, SaysThatItLeavesDevicesOutWhereThereAreTooMany) {
  setenv("FAKE_NVML_COUNT", "130", 1);
  const auto many = Nvml::open(FAKE_NVML, "/sys");
  setenv("FAKE_NVML_COUNT", "128", 1);
  const auto most = Nvml::open(FAKE_NVML, "/sys");
  unsetenv("FAKE_NVML_COUNT");
  ASSERT_TRUE(many.ok());
  ASSERT_TRUE(most.ok());
  EXPECT_EQ((*many)->devices().size(), 128u);
  EXPECT_EQ((*most)->devices().size(), 128u);
  const auto leaves_out = [](const std::string& complaint) {
    return complaint.find("128 GPUs and MIG instances at most") != std::string::npos;
  };
  EXPECT_EQ(std::ranges::count_if((*many)->take_complaints(), leaves_out), 1);
  EXPECT_EQ(std::ranges::count_if((*most)->take_complaints(), leaves_out), 0);
}

TEST(NvmlDoor, ADeviceWithMemoryOfItsOwnIsWhatNvmlSays) {
  const std::vector<DriverFacts> facts = {{"another name", false, Bytes::gib(15)}};
  const auto nvml = Nvml::open(FAKE_NVML, "/sys", facts);
  ASSERT_TRUE(nvml.ok());
  EXPECT_FALSE((*nvml)->devices()[0].integrated);
  EXPECT_EQ((*nvml)->devices()[0].memory_total, Bytes::gib(16));
}

// A process of a sandbox that has nothing, asks for 2 MiB of host memory and gets them, or not.
bool leases(const std::string& path, loop::EventLoop& loop) {
  const OwnedFd client(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  if (connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
    return false;
  protocol::MemoryMessage message;
  char buffer[sizeof(message)];
  for (const auto kind :
       {protocol::MemoryMessageKind::kHello, protocol::MemoryMessageKind::kWantLease}) {
    message.kind = kind;
    memcpy(buffer, &message, sizeof(message));
    if (!send_packet(client.get(), {buffer, sizeof(buffer)}).ok()) return false;
    message.bytes = Bytes::mib(2).count;
  }
  for (int turn = 0; turn < 500; ++turn) {
    loop.run_once(milliseconds(10));
    const auto packet = receive_packet(client.get(), buffer);
    if (!packet.ok()) return false;
    if (!packet->has_value()) continue;
    memcpy(&message, buffer, sizeof(message));
    return message.kind == protocol::MemoryMessageKind::kLease && (*packet)->fds.size() == 1;
  }
  return false;
}

TEST_F(Monitor, ServesSandboxesAlsoWhereNvmlHangsAndAfterItWasStartedAnew) {
  options_.host_memory = Bytes::mib(2);
  const auto monitor = started();
  ASSERT_TRUE(run_until([this] { return read_ >= 1; }));
  const std::string path = folder_ / "link";
  auto listener = listen_packets(path, 0600);
  ASSERT_TRUE(listener.ok());
  monitor->serve_sandbox(SandboxId(7), {0}, Bytes::mib(2), std::move(*listener));
  EXPECT_TRUE(leases(path, loop_));
  touch("hang");
  EXPECT_TRUE(leases(path, loop_));
  ASSERT_TRUE(run_until([this] { return silent_ >= 1; }));
  remove("hang");
  const int before = read_;
  ASSERT_TRUE(run_until([&] { return read_ > before; }));
  EXPECT_TRUE(leases(path, loop_));
  monitor->forget_sandbox(SandboxId(7));
  EXPECT_FALSE(leases(path, loop_));
}

}  // namespace
}  // namespace lambent::monitor
