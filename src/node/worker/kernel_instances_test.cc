#include "node/worker/kernel_instances.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lambent::worker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class Observer final : public BackendObserver {};

class KernelInstancesTest : public testing::Test {
 protected:
  // An instance of executor `key_` with an invocation that waits to be sent.
  KernelInstance& waiting(uint64_t id) {
    KernelInstance& instance = instances_.add(SandboxId(id), observer_);
    instance.key = key_;
    instances_.give(instance, invocation(id));
    instance.waiting.emplace();
    return instance;
  }
  KernelInstance& running(uint64_t id) {
    KernelInstance& instance = waiting(id);
    instance.waiting.reset();
    return instance;
  }
  static InvocationId invocation(uint64_t id) { return InvocationId{0, id}; }
  std::vector<uint64_t> sendable() const {
    std::vector<uint64_t> ids;
    for (const KernelInstance* each : instances_.sendable(key_)) ids.push_back(each->id.value);
    return ids;
  }

  Observer observer_;
  ExecutorKey key_;
  KernelInstances instances_;
};

TEST_F(KernelInstancesTest, SendsAllThatWaitButWhatIsOutOrCannotHaveItsShare) {
  running(1);
  waiting(2);
  waiting(3).out = true;
  waiting(4).share_failed.emplace();
  waiting(5).key.device = DeviceId(7);
  EXPECT_THAT(sendable(), ElementsAre(2));
}

TEST_F(KernelInstancesTest, SendsNothingWhosePayloadIsStillCopied) {
  const auto copy = std::make_shared<RequestCopy>("payload");
  waiting(1).request = copy;
  EXPECT_THAT(sendable(), IsEmpty());
  copy->make();
  EXPECT_TRUE(copy->take_memory().ok());
  EXPECT_THAT(sendable(), ElementsAre(1));
}

TEST_F(KernelInstancesTest, WhatHasAnsweredIsNoSuspectAndKeepsNoOtherWaiting) {
  running(1);
  running(2).answer = std::make_shared<AnswerCopy>(protocol::Finished());
  instances_.suspect(key_);
  EXPECT_FALSE(instances_.find(SandboxId(2))->runs());
  instances_.find(SandboxId(1))->waiting.emplace();
  EXPECT_THAT(sendable(), ElementsAre(1)) << "the only suspect, and nothing runs beside it";
}

TEST_F(KernelInstancesTest, ASuspectRunsByItself) {
  running(1);
  running(2);
  instances_.suspect(key_);
  instances_.find(SandboxId(1))->waiting.emplace();
  EXPECT_THAT(sendable(), IsEmpty()) << "the other suspect runs";
  instances_.find(SandboxId(2))->waiting.emplace();
  waiting(3);
  EXPECT_THAT(sendable(), ElementsAre(1)) << "nothing is sent while a suspect waits";
  instances_.answered(*instances_.find(SandboxId(1)));
  EXPECT_THAT(sendable(), ElementsAre(2));
  instances_.answered(*instances_.find(SandboxId(2)));
  EXPECT_THAT(sendable(), ElementsAre(3));
}

TEST_F(KernelInstancesTest, ASuspectStaysOneUntilItIsCleared) {
  running(1);
  instances_.suspect(key_);
  instances_.remove(SandboxId(1), false);
  EXPECT_EQ(instances_.given(key_, invocation(1)), nullptr);
  running(2);
  instances_.give(instances_.add(SandboxId(3), observer_), invocation(1));
  instances_.find(SandboxId(3))->key = key_;
  instances_.find(SandboxId(3))->waiting.emplace();
  EXPECT_THAT(sendable(), IsEmpty());
  instances_.remove(SandboxId(2), true);
  EXPECT_THAT(sendable(), ElementsAre(3));
}

TEST_F(KernelInstancesTest, OnlyOneThatIsBusyIsToldByItself) {
  running(1);
  EXPECT_EQ(instances_.only_busy(key_)->id, SandboxId(1));
  running(2);
  EXPECT_EQ(instances_.only_busy(key_), nullptr);
}

TEST_F(KernelInstancesTest, NeedsWhatItHadAtMostOrItsConstantsWhileIdle) {
  KernelInstance& instance = running(1);
  instance.spec.gpu.memory = Bytes::mib(64);
  instance.constants = Bytes::mib(8);
  EXPECT_EQ(instance.needed_memory(false), Bytes::mib(64)) << "while it is loaded";
  instance.ready = true;
  EXPECT_EQ(instance.needed_memory(false), Bytes::mib(64)) << "nothing was measured";
  instance.device_memory_peak = Bytes::mib(20);
  EXPECT_EQ(instance.needed_memory(false), Bytes::mib(20));
  instances_.answered(instance);
  EXPECT_EQ(instance.needed_memory(true), Bytes::mib(20)) << "its queue is not empty";
  EXPECT_EQ(instance.needed_memory(false), Bytes::mib(8));
}

}  // namespace
}  // namespace lambent::worker
