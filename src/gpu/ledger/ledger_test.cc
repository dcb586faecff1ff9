#include "gpu/ledger/ledger.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <thread>
#include <vector>

#include "core/base/testing/testing.h"
#include "gpu/ledger/layout.h"
#include "gpu/ledger/writer.h"

namespace lambent::ledger {
namespace {

class Ledger : public testing::Test {
 protected:
  LedgerReader created(uint64_t limit) {
    auto reader = create_ledger(path_, Bytes(limit));
    EXPECT_TRUE(reader.ok());
    return std::move(reader).value();
  }

  // A child process that does `work` and then dies by SIGKILL.
  template <typename Work>
  void in_killed_process(Work work) {
    const pid_t child = fork();
    if (child == 0) {
      work();
      raise(SIGKILL);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
  }

  TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_ / "ledger";
};

// An allocation that the driver grants.
bool allocate(LedgerWriter& writer, uint64_t bytes) {
  if (!writer.try_reserve(bytes)) return false;
  writer.keep(bytes);
  return true;
}

TEST_F(Ledger, WhatIsReservedIsUsedUntilItIsReleasedAndThePeakStays) {
  LedgerReader reader = created(1000);
  LedgerWriter writer;
  ASSERT_TRUE(writer.attach(path_.c_str()));
  EXPECT_TRUE(allocate(writer, 600));
  EXPECT_TRUE(allocate(writer, 300));
  writer.release(600);
  const LedgerReadings readings = *reader.read();
  EXPECT_EQ(readings.used, Bytes(300));
  EXPECT_EQ(readings.peak, Bytes(900));
  EXPECT_EQ(readings.allocations, 2u);
  EXPECT_EQ(readings.processes, 1u);
  EXPECT_FALSE(readings.tampered);
}

TEST_F(Ledger, WhatTheDriverRefusesWasNeverInThePeak) {
  LedgerReader reader = created(1000);
  LedgerWriter writer;
  LedgerWriter other;
  ASSERT_TRUE(writer.attach(path_.c_str()));
  ASSERT_TRUE(other.attach(path_.c_str()));
  ASSERT_TRUE(writer.try_reserve(700));
  EXPECT_FALSE(other.try_reserve(400)) << "it may yet be got";
  ASSERT_TRUE(allocate(other, 100)) << "while the driver thinks about the other";
  writer.cancel(700);
  const LedgerReadings readings = *reader.read();
  EXPECT_EQ(readings.used, Bytes(100));
  EXPECT_EQ(readings.peak, Bytes(100));
  EXPECT_EQ(readings.allocations, 1u);
  EXPECT_TRUE(allocate(other, 900));
}

TEST_F(Ledger, WhatAProcessWantedThatDiedMeanwhileIsFreeForTheNext) {
  created(1000);
  in_killed_process([this] {
    auto* dying = new LedgerWriter;  // never detached
    if (!dying->attach(path_.c_str()) || !dying->try_reserve(900)) _exit(1);
  });
  LedgerWriter writer;
  ASSERT_TRUE(writer.attach(path_.c_str()));
  EXPECT_TRUE(allocate(writer, 1000));
}

TEST_F(Ledger, DeniesWhatWouldPassTheLimitAndCountsIt) {
  LedgerReader reader = created(1000);
  LedgerWriter writer;
  ASSERT_TRUE(writer.attach(path_.c_str()));
  EXPECT_TRUE(allocate(writer, 1000));
  EXPECT_FALSE(allocate(writer, 1));
  EXPECT_FALSE(allocate(writer, UINT64_MAX));
  EXPECT_EQ(writer.used_bytes(), 1000u);
  EXPECT_EQ(reader.read()->denied, 2u);
}

TEST_F(Ledger, WhatIsTakenAlreadyIsCountedUpToTheLimit) {
  LedgerReader reader = created(1000);
  LedgerWriter writer;
  ASSERT_TRUE(writer.attach(path_.c_str()));
  EXPECT_EQ(writer.reserve_what_fits(700), 700u);
  EXPECT_EQ(writer.reserve_what_fits(700), 300u);
  EXPECT_EQ(writer.reserve_what_fits(700), 0u);
  const LedgerReadings readings = *reader.read();
  EXPECT_EQ(readings.used, Bytes(1000));
  EXPECT_EQ(readings.denied, 0u) << "no process was refused anything";
  EXPECT_FALSE(readings.tampered);
}

TEST_F(Ledger, ALimitOfZeroCountsAndDeniesNothing) {
  LedgerReader reader = created(0);
  LedgerWriter writer;
  ASSERT_TRUE(writer.attach(path_.c_str()));
  EXPECT_TRUE(allocate(writer, uint64_t{1} << 50));
  EXPECT_EQ(reader.read()->used, Bytes(uint64_t{1} << 50));
}

TEST_F(Ledger, APeakThatIsResetStartsFromWhatIsUsedNow) {
  LedgerReader reader = created(1000);
  LedgerWriter writer;
  ASSERT_TRUE(writer.attach(path_.c_str()));
  ASSERT_TRUE(allocate(writer, 900));
  writer.release(700);
  ASSERT_TRUE(reader.reset_peak().ok());
  EXPECT_EQ(reader.read()->peak, Bytes(200));
  ASSERT_TRUE(allocate(writer, 50));
  EXPECT_EQ(reader.read()->peak, Bytes(250));
}

TEST_F(Ledger, ABrokenContextIsToldWhileItsProcessLivesAndHasIt) {
  LedgerReader reader = created(1000);
  LedgerWriter writer;
  ASSERT_TRUE(writer.attach(path_.c_str()));
  EXPECT_EQ(reader.read()->context_error, 0u);
  writer.context_is_broken(700);
  EXPECT_EQ(reader.read()->context_error, 700u);
  EXPECT_FALSE(reader.read()->tampered);
  writer.context_is_whole();
  EXPECT_EQ(reader.read()->context_error, 0u);
  in_killed_process([this] {
    LedgerWriter child;
    if (child.attach(path_.c_str())) child.context_is_broken(719);
  });
  EXPECT_EQ(reader.read()->context_error, 0u) << "of a process that is gone";
}

TEST_F(Ledger, ProcessesShareOneLimit) {
  LedgerReader reader = created(1000);
  LedgerWriter first;
  LedgerWriter second;
  ASSERT_TRUE(first.attach(path_.c_str()));
  ASSERT_TRUE(second.attach(path_.c_str()));
  EXPECT_TRUE(allocate(first, 700));
  EXPECT_FALSE(allocate(second, 400));
  EXPECT_TRUE(allocate(second, 300));
  first.detach();
  EXPECT_EQ(reader.read()->used, Bytes(300));
}

TEST_F(Ledger, TheReaderReclaimsWhatAKilledProcessHeld) {
  LedgerReader reader = created(1000);
  in_killed_process([this] {
    auto* dying = new LedgerWriter;  // never detached
    if (!dying->attach(path_.c_str()) || !allocate(*dying, 800)) _exit(1);
  });
  const LedgerReadings readings = *reader.read();
  EXPECT_EQ(readings.used, Bytes(0));
  EXPECT_EQ(readings.peak, Bytes(800));
  EXPECT_EQ(readings.processes, 0u);
}

TEST_F(Ledger, AViewLeavesOutWhatAKilledProcessHeld) {
  LedgerReader reader = created(1000);
  LedgerWriter writer;
  ASSERT_TRUE(writer.attach(path_.c_str()));
  ASSERT_TRUE(allocate(writer, 300));
  in_killed_process([this] {
    auto* dying = new LedgerWriter;  // never detached
    if (!dying->attach(path_.c_str()) || !allocate(*dying, 200)) _exit(1);
  });
  LedgerView view;
  ASSERT_TRUE(view.attach(path_.c_str()));
  EXPECT_EQ(view.used_bytes(), 500u) << "its row is not cleared yet";
  EXPECT_EQ(view.living_bytes(path_.c_str()), 300u);
  EXPECT_EQ(view.living_bytes("/nonexistent"), 500u);
}

TEST_F(Ledger, AWriterReclaimsADeadProcessBeforeItDenies) {
  LedgerReader reader = created(1000);
  LedgerWriter writer;
  ASSERT_TRUE(writer.attach(path_.c_str()));
  in_killed_process([this] {
    auto* dying = new LedgerWriter;  // never detached
    if (!dying->attach(path_.c_str()) || !allocate(*dying, 800)) _exit(1);
  });
  EXPECT_EQ(writer.used_bytes(), 800u);
  EXPECT_TRUE(allocate(writer, 1000));
}

TEST_F(Ledger, AForkedChildLeavesTheRowOfItsParentAlone) {
  LedgerReader reader = created(1000);
  LedgerWriter writer;
  ASSERT_TRUE(writer.attach(path_.c_str()));
  ASSERT_TRUE(allocate(writer, 400));
  in_killed_process([&] {
    writer.forget_after_fork();
    if (!writer.attach(path_.c_str()) || !allocate(writer, 100)) _exit(1);
  });
  EXPECT_EQ(reader.read()->used, Bytes(400));
}

// As programs do that close all descriptors which they have not opened themselves. What they open
// next has the number of one that was ours.
TEST_F(Ledger, ARowOutlastsItsDescriptorAndWhateverHasItsNumberIsLeftAlone) {
  LedgerReader reader = created(1000);
  const int number = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 900);  // where it will be
  close(number);
  LedgerWriter writer;
  ASSERT_TRUE(writer.attach(path_.c_str()));
  ASSERT_GE(fcntl(number, F_GETFD), 0);
  ASSERT_TRUE(allocate(writer, 600));
  LedgerWriter neighbour;
  ASSERT_TRUE(neighbour.attach(path_.c_str()));
  ASSERT_TRUE(allocate(neighbour, 300));
  const int other = open((folder_ / "other").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(dup2(other, number), number);
  EXPECT_FALSE(allocate(writer, 101)) << "it looks for rows of the dead, and finds none";
  EXPECT_EQ(reader.read()->used, Bytes(900));
  writer.forget_after_fork();
  EXPECT_GE(fcntl(number, F_GETFD), 0);
  close(number);
  close(other);
  EXPECT_EQ(reader.read()->used, Bytes(300));
}

TEST_F(Ledger, ProcessesBeyondTheRowsShareTheLastOne) {
  LedgerReader reader = created(10000);
  std::vector<std::unique_ptr<LedgerWriter>> writers;
  for (uint32_t i = 0; i < kLedgerRows + 5; ++i) {
    writers.push_back(std::make_unique<LedgerWriter>());
    ASSERT_TRUE(writers.back()->attach(path_.c_str()));
    ASSERT_TRUE(allocate(*writers.back(), 10));
  }
  EXPECT_EQ(reader.read()->used, Bytes(10 * (kLedgerRows + 5)));
  while (writers.size() > kLedgerOverflowRow) writers.pop_back();
  EXPECT_EQ(reader.read()->used, Bytes(10 * kLedgerOverflowRow));
}

TEST_F(Ledger, ThreadsThatHammerTheLimitNeverPassItTogether) {
  LedgerReader reader = created(64);
  std::atomic<int64_t> held = 0;
  std::atomic<bool> passed = false;
  const auto hammer = [&] {
    LedgerWriter writer;
    if (!writer.attach(path_.c_str())) return;
    for (int i = 0; i < 20000; ++i) {
      const uint64_t bytes = 1 + i % 40;
      if (!allocate(writer, bytes)) continue;
      if (held.fetch_add(bytes) + static_cast<int64_t>(bytes) > 64) passed = true;
      held.fetch_sub(bytes);
      writer.release(bytes);
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(hammer);
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(passed);
  EXPECT_EQ(reader.read()->used, Bytes(0));
  EXPECT_LE(reader.read()->peak, Bytes(64));
}

TEST_F(Ledger, WhatATenantScribblesIsClampedAndMarked) {
  LedgerReader reader = created(1000);
  const int fd = open(path_.c_str(), O_RDWR);
  const std::vector<char> ones(sizeof(LedgerPage), '\xff');
  ASSERT_EQ(pwrite(fd, ones.data(), ones.size(), 0), static_cast<ssize_t>(ones.size()));
  LedgerReadings readings = *reader.read();
  EXPECT_TRUE(readings.tampered);
  EXPECT_LE(readings.used, Bytes(1000));
  EXPECT_LE(readings.peak, Bytes(1000));
  ASSERT_EQ(ftruncate(fd, 10), 0);
  readings = *reader.read();
  EXPECT_TRUE(readings.tampered);
  EXPECT_EQ(readings.used, Bytes(0));
  close(fd);
}

TEST_F(Ledger, WhatATenantAppendsIsCutOffAndMarked) {
  LedgerReader reader = created(1000);
  LedgerWriter writer;
  ASSERT_TRUE(writer.attach(path_.c_str()));
  ASSERT_TRUE(allocate(writer, 600));
  EXPECT_FALSE(reader.read()->tampered);
  std::filesystem::resize_file(path_, 1 << 20);
  const LedgerReadings readings = *reader.read();
  EXPECT_TRUE(readings.tampered);
  EXPECT_EQ(readings.used, Bytes(600));
  EXPECT_EQ(std::filesystem::file_size(path_), sizeof(LedgerPage));
}

TEST_F(Ledger, AWriterRefusesAFileThatIsNoLedger) {
  LedgerWriter writer;
  EXPECT_FALSE(writer.attach(path_.c_str()));
  std::filesystem::path other = folder_ / "other";
  const int fd = open(other.c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_EQ(ftruncate(fd, sizeof(LedgerPage)), 0);
  close(fd);
  EXPECT_FALSE(writer.attach(other.c_str()));
  EXPECT_TRUE(allocate(writer, uint64_t{1} << 60));
}

TEST_F(Ledger, AnotherProgramGoesOnWithItThoughItsPathIsGone) {
  LedgerReader reader = created(1000);
  LedgerWriter writer;
  ASSERT_TRUE(writer.attach(path_.c_str()));
  EXPECT_TRUE(allocate(writer, 600));
  OwnedFd file = std::move(reader).release();
  std::filesystem::remove(path_);
  LedgerReader next = go_on_with_ledger(std::move(file), Bytes(1000));
  EXPECT_EQ(next.read()->used, Bytes(600));
  EXPECT_TRUE(allocate(writer, 300));
  EXPECT_EQ(next.read()->used, Bytes(900));
  EXPECT_FALSE(next.read()->tampered);
}

TEST_F(Ledger, IsNotCreatedTwice) {
  LedgerReader reader = created(1);
  EXPECT_EQ(create_ledger(path_, Bytes(1)).error().code, ErrorCode::kAlreadyExists);
}

}  // namespace
}  // namespace lambent::ledger
