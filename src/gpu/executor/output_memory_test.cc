#include "gpu/executor/output_memory.h"

#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <string>

#include "core/base/sealed_memory.h"
#include "gpu/executor/limits.h"
#include "gpu/executor/testing/parts_testing.h"

namespace lambent::executor {
namespace {

Bytes pages_of(int file) {
  struct stat status {};
  EXPECT_EQ(fstat(file, &status), 0);
  return Bytes(static_cast<uint64_t>(status.st_blocks) * 512);
}

class OutputMemoryTest : public ExecutorParts {
 protected:
  void SetUp() override {
    ExecutorParts::SetUp();
    if (!IsSkipped()) thread_ = std::make_unique<DeviceThread>(loop_, *context_);
    if (!IsSkipped()) memory_.emplace(*thread_);
  }
  void TearDown() override {
    memory_.reset();
    thread_.reset();
    ExecutorParts::TearDown();
  }
  EarlyMemory make(Bytes size) {
    auto made = memory_->make(size);
    CHECK(made.ok(), "a test has memory");
    return std::move(*made);
  }
  // What was asked of the thread has been done.
  void settle() {
    bool settled = false;
    thread_->run([] {}, [&] { settled = true; });
    turn_until([&] { return settled; });
  }

  std::unique_ptr<DeviceThread> thread_;
  std::optional<OutputMemory> memory_;
};

constexpr Bytes kSize = Bytes::mib(4);

TEST_F(OutputMemoryTest, PagesAreThereBeforeTheyAreWrittenAndAreZero) {
  const EarlyMemory early = make(kSize);
  settle();
  EXPECT_EQ(pages_of(early.file()), kSize);
  const std::string content = ExecutorProcess::content_of(early.file());
  EXPECT_EQ(content.size(), kSize.count);
  EXPECT_TRUE(std::all_of(content.begin(), content.end(), [](char each) { return each == 0; }));
}

TEST_F(OutputMemoryTest, WhatIsTakenCanBeWrittenAndSealedAtAnyMoment) {
  for (const bool at_once : {true, false}) {
    EarlyMemory early = make(kSize);
    if (!at_once) settle();
    const OwnedFd file = EarlyMemory::take(std::move(early));
    ASSERT_TRUE(write_all(file.get(), std::string(kSize.count, 'x')).ok());
    ASSERT_TRUE(seal(file.get()).ok());
    settle();
    EXPECT_EQ(*check_sealed(file.get()), kSize);
    EXPECT_EQ(ExecutorProcess::content_of(file.get()), std::string(kSize.count, 'x'));
  }
}

TEST_F(OutputMemoryTest, SmallMemoryIsNotMadeEarly) {
  const EarlyMemory early = make(Bytes::kib(64));
  settle();
  EXPECT_EQ(pages_of(early.file()), Bytes(0));
}

TEST_F(OutputMemoryTest, WhatIsMadeEarlyHasALimitUntilItIsTakenOrDropped) {
  const Bytes most = limits::kExecutorEarlyBytes;
  const auto is_early = [&](const EarlyMemory& memory) {
    settle();
    return pages_of(memory.file()) > Bytes(0);
  };
  EXPECT_FALSE(is_early(make(most + Bytes(1))));
  std::optional<EarlyMemory> large(make(most - kSize));
  EXPECT_TRUE(is_early(*large));
  EarlyMemory small = make(kSize);
  EXPECT_TRUE(is_early(small));
  EXPECT_FALSE(is_early(make(kSize))) << "beyond the limit";
  const OwnedFd taken = EarlyMemory::take(std::move(small));
  EXPECT_TRUE(is_early(make(kSize))) << "one was taken";
  EXPECT_FALSE(is_early(make(most - kSize)));
  large.reset();
  EXPECT_TRUE(is_early(make(most - kSize))) << "one was dropped";
}

}  // namespace
}  // namespace lambent::executor
