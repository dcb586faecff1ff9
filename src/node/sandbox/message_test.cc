#include "node/sandbox/message.h"
#include "node/sandbox/limits.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <fstream>

#include "core/base/random.h"
#include "core/base/testing/testing.h"
#include "node/sandbox/channel.h"

namespace lambent::sandbox {
namespace {

LaunchPlan full_plan() {
  LaunchPlan plan;
  plan.sandbox = SandboxId(77);
  plan.argv = {"/usr/bin/python3", "", "-m"};
  plan.environment = {{"A", "1"}, {"B", ""}};
  plan.code = "/srv/code";
  plan.binds = {{"/srv/layer", "/opt", false}, {"/srv/node", "/run/node", true}};
  plan.devices = {{"/dev/nvidia0", "/dev/nvidia0"}, {"/srv/nvidiactl", "/dev/nvidiactl"}};
  plan.secret_files = {{"key", std::string("k\0y", 3)}, {"none", ""}};
  plan.processors = {0, 3, 8191};
  plan.limits.cpus = 0.25;
  plan.limits.memory = Bytes::mib(300);
  plan.network = NetworkPlan{*parse_network_access("*.example.org:443,[fd00::5]:1-9"),
                             *parse_network_bounds("public,fd00::/8")};
  plan.zygote = ZygotePlan{.key = "tenant 1",
                           .argv = {"/usr/bin/python3", "-m", "x"},
                           .environment = {{"LANG", "C"}},
                           .binds = {{"/srv/layer", "/opt", false}}};
  plan.image = ImageRoot{.host_path = "/srv/image", .user = 1000};
  return plan;
}

std::vector<Message> one_of_each() {
  Capabilities capabilities;
  capabilities.root = true;
  capabilities.cgroup = CgroupVersion::kV2;
  capabilities.cgroup_reason = "why not";
  capabilities.network_reason = "nor this";
  Exit exit;
  exit.signal = 9;
  exit.out_of_memory = true;
  exit.memory_peak = Bytes(5);
  exit.cpu = Duration(-1);
  return {LaunchRequest{full_plan()},
          KillRequest{SandboxId(1)},
          UsageRequest{SandboxId(2)},
          Hello{capabilities},
          Ready{},
          StartedReply{SandboxId(3), 4, Duration(5)},
          FailedReply{SandboxId(6), Error{ErrorCode::kNotFound, "execute x"}},
          ExitedReply{SandboxId(7), exit},
          UsageReply{SandboxId(8), Bytes(9), true},
          UsageReply{SandboxId(8), std::nullopt, false},
          SocketsRequest{SandboxId(8), 5},
          SocketsReply{SandboxId(8)},
          StartedReply{SandboxId(3), 4, Duration(5), true, true},
          ZygoteRequest{full_plan()},
          ZygoteReady{},
          ZygoteRetirement{},
          BoxRequest{9},
          BoxReply{10},
          ZygoteNews{"tenant 1", ZygoteEvent::kRetired, "why", Duration(11)},
          TerminateRequest{SandboxId(9)},
          ProgramReady{SandboxId(10)},
          NetworkReady{},
          ForkFailed{Error{ErrorCode::kDeadlineExceeded, "it hangs"}},
          LongMessage{5}};
}

TEST(MessageTest, EveryKindComesBackAsItWas) {
  for (const Message& message : one_of_each()) {
    const auto back = decode(encode(message));
    ASSERT_TRUE(back.ok());
    EXPECT_EQ(*back, message);
  }
}

TEST(MessageTest, WhatIsCutOffOrTooLongIsRefused) {
  for (const Message& message : one_of_each()) {
    const std::string bytes = encode(message);
    for (size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(decode(std::string_view(bytes).substr(0, size)).ok());
    }
    EXPECT_FALSE(decode(bytes + '\0').ok());
  }
}

TEST(MessageTest, AnotherVersionAndAKindThatThereIsNotAreRefused) {
  const std::string bytes = encode(Ready{});
  ASSERT_EQ(bytes.size(), 2U);
  for (const int change : {-1, 1}) {
    std::string other = bytes;
    other[0] = static_cast<char>(other[0] + change);
    EXPECT_FALSE(decode(other).ok());
  }
  std::string unknown = bytes;
  unknown[1] = static_cast<char>(std::variant_size_v<Message>);
  EXPECT_FALSE(decode(unknown).ok());
}

TEST(MessageTest, AQuotaOfProcessorsIsKeptAndSoIsNone) {
  LaunchPlan plan = full_plan();
  plan.limits.cpus.reset();
  const auto back = decode(encode(LaunchRequest{plan}));
  ASSERT_TRUE(back.ok());
  EXPECT_FALSE(std::get<LaunchRequest>(*back).plan.limits.cpus.has_value());
}

TEST(MessageTest, ChangedBytesNeverDoHarm) {
  SeededRandom random(20261121);
  for (const Message& message : one_of_each()) {
    for (int round = 0; round < 2'000; ++round) {
      std::string bytes = encode(message);
      for (int change = 0; change < 3; ++change) {
        bytes[random.below(bytes.size())] = static_cast<char>(random.next());
      }
      if (const auto back = decode(bytes); back.ok()) encode(*back);
    }
  }
}

TEST(MessageTest, ThePlanOfTheGreatestSizeFitsIntoOneMessage) {
  LaunchPlan plan = full_plan();
  plan.zygote.reset();  // an image goes with none
  std::string& big = plan.environment["BIG"];
  size_t step = limits::kLauncherMessage.count;
  for (; step > 0; step /= 2) {
    big.resize(big.size() + step, 'x');
    if (!validate(plan).ok()) big.resize(big.size() - step);
  }
  EXPECT_TRUE(validate(plan).ok());
  EXPECT_GT(big.size(), limits::kLauncherMessage.count / 2);
  EXPECT_LE(encode(LaunchRequest{plan}).size(), limits::kLauncherMessage.count);
  auto ends = Channel::make_pair();
  ASSERT_TRUE(ends.ok());
  ASSERT_TRUE(ends->first.send(LaunchRequest{plan}).ok());
  auto got = ends->second.receive();
  ASSERT_TRUE(got.ok());
  EXPECT_EQ((*got)->message, Message(LaunchRequest{plan}));
}

TEST(ChannelTest, FilesOfSecretsTravelBesideAPacketWithTheDescriptorsOfTheirMessage) {
  auto ends = Channel::make_pair();
  ASSERT_TRUE(ends.ok());
  LaunchPlan plan = full_plan();
  plan.image.reset();
  plan.secret_files = {{"large", std::string(5 << 20, 's')}, {"small", "x"}};
  ASSERT_TRUE(validate(plan).ok());
  ASSERT_TRUE(ends->first.send(LaunchRequest{plan}, {0, 1}).ok());
  ASSERT_TRUE(ends->first.send(KillRequest{SandboxId(1)}).ok());
  auto got = ends->second.receive();
  ASSERT_TRUE(got.ok());
  EXPECT_EQ((*got)->message, Message(LaunchRequest{plan}));
  EXPECT_EQ((*got)->fds.size(), 2U);
  got = ends->second.receive();
  ASSERT_TRUE(got.ok());
  EXPECT_EQ((*got)->message, Message(KillRequest{SandboxId(1)}));
}

TEST(ChannelTest, ALongMessageWithoutItsBytesIsRefused) {
  auto ends = Channel::make_pair();
  ASSERT_TRUE(ends.ok());
  TemporaryFolder folder;
  const std::string path = folder / "short";
  std::ofstream(path) << "four";
  const OwnedFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const auto refused = [&](uint64_t size, const std::vector<int>& fds) {
    if (!ends->first.send(LongMessage{size}, fds).ok()) return false;
    const auto got = ends->second.receive();
    return !got.ok() && got.error().code == ErrorCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused(4, {}));
  EXPECT_TRUE(refused(5, {file.get()}));
  EXPECT_TRUE(refused(4, {file.get()}));
  EXPECT_TRUE(refused(uint64_t{1} << 60, {file.get()}));
}

TEST(ChannelTest, DescriptorsTravelAlongAndAFullChannelSaysSo) {
  auto ends = Channel::make_pair();
  ASSERT_TRUE(ends.ok());
  ASSERT_TRUE(ends->first.send(Ready{}, {0, 1}).ok());
  auto got = ends->second.receive();
  ASSERT_TRUE(got.ok());
  EXPECT_EQ((*got)->fds.size(), 2U);
  ends->first.set_blocking(false);
  ends->second.set_blocking(false);
  EXPECT_FALSE(ends->second.receive()->has_value());
  Result<void> sent;
  for (int i = 0; i < 100'000 && sent.ok(); ++i) sent = ends->first.send(Ready{});
  ASSERT_FALSE(sent.ok());
  EXPECT_EQ(sent.error().code, ErrorCode::kResourceExhausted);
}

TEST(ChannelTest, AnEndThatIsGoneIsNoticedOnBothWays) {
  auto ends = Channel::make_pair();
  ASSERT_TRUE(ends.ok());
  ends->second.close();
  EXPECT_EQ(ends->first.send(Ready{}).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(ends->first.receive().error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace lambent::sandbox
