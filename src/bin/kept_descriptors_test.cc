#include "bin/kept_descriptors.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "core/base/sealed_memory.h"

namespace lambent {
namespace {

using testing::HasSubstr;

constexpr pid_t kSelf = 4711;
// Where nothing else of this process is.
constexpr int kFirst = 600;

OwnedFd memory_of(const std::string& text) { return std::move(*sealed_memory(text)); }

std::string text_at(const OwnedFd& memory) {
  return *read_memory(memory.get(), Bytes(0), *check_sealed(memory.get()));
}

worker::KeptSandboxes kept() {
  worker::KeptSandboxes kept;
  kept.record.launchers.push_back({.pid = 9, .channel = 0});
  kept.record.sandboxes.push_back({.number = SandboxId(2),
                                   .function = FunctionId(3),
                                   .plan = std::string(32, 'p'),
                                   .pid = 10,
                                   .output = 2});
  kept.descriptors.push_back(memory_of("channel"));
  kept.descriptors.emplace_back();  // not used any more
  kept.descriptors.push_back(memory_of("output"));
  return kept;
}

bool is_open(int fd) { return fcntl(fd, F_GETFD) >= 0; }

TEST(KeptDescriptorsTest, WhatIsLeftIsInherited) {
  const auto variable = leave_kept(kept(), kSelf, kFirst);
  ASSERT_TRUE(variable.ok()) << variable.error().message;
  EXPECT_EQ(*variable, "4711 600 4");
  for (int fd = kFirst; fd < kFirst + 4; ++fd) {
    EXPECT_EQ(fcntl(fd, F_GETFD), 0) << "it stays open through an exec";
  }
  auto inherited = inherit_kept(variable->c_str(), kSelf);
  ASSERT_TRUE(inherited.ok()) << inherited.error().message;
  EXPECT_EQ(inherited->record, kept().record);
  ASSERT_EQ(inherited->descriptors.size(), 3u);
  EXPECT_EQ(text_at(inherited->descriptors[0]), "channel");
  EXPECT_EQ(text_at(inherited->descriptors[2]), "output");
  EXPECT_EQ(fcntl(inherited->descriptors[0].get(), F_GETFD), FD_CLOEXEC);
}

TEST(KeptDescriptorsTest, WhatIsOnTheWayIsMovedFirst) {
  worker::KeptSandboxes moved = kept();
  ASSERT_TRUE(move_kept(moved, kFirst + 1).ok());
  ASSERT_GT(moved.descriptors[0].get(), kFirst);
  const auto variable = leave_kept(std::move(moved), kSelf, kFirst);
  ASSERT_TRUE(variable.ok());
  auto inherited = inherit_kept(variable->c_str(), kSelf);
  ASSERT_TRUE(inherited.ok()) << inherited.error().message;
  EXPECT_EQ(text_at(inherited->descriptors[0]), "channel");
  EXPECT_EQ(text_at(inherited->descriptors[2]), "output");
}

TEST(KeptDescriptorsTest, WithoutTheVariableOrForAnotherProcessThereIsNothing) {
  for (const char* variable : {static_cast<const char*>(nullptr), "4712 600 2"}) {
    const auto inherited = inherit_kept(variable, kSelf);
    ASSERT_TRUE(inherited.ok());
    EXPECT_TRUE(inherited->record.sandboxes.empty());
  }
}

TEST(KeptDescriptorsTest, AVariableThatMakesNoSenseIsRefused) {
  for (const char* variable : {"", "4711", "4711 2 1", "4711 600 0", "4711 600 1x", "4711 600 -1",
                               "4711 600 9999999", "4711  600 1"}) {
    const auto refused = inherit_kept(variable, kSelf);
    ASSERT_FALSE(refused.ok()) << variable;
    EXPECT_THAT(refused.error().message, HasSubstr("LAMBENT_KEPT_SANDBOXES")) << variable;
  }
}

TEST(KeptDescriptorsTest, WhatCannotBeReadIsClosed) {
  const OwnedFd record = memory_of("no record");
  const OwnedFd channel = memory_of("channel");
  ASSERT_EQ(dup2(record.get(), kFirst), kFirst);
  ASSERT_EQ(dup2(channel.get(), kFirst + 1), kFirst + 1);
  EXPECT_FALSE(inherit_kept("4711 600 2", kSelf).ok());
  EXPECT_FALSE(is_open(kFirst));
  EXPECT_FALSE(is_open(kFirst + 1)) << "so that lambent-launcher ends";
  EXPECT_FALSE(inherit_kept("4711 600 2", kSelf).ok()) << "they are not open";
}

}  // namespace
}  // namespace lambent
