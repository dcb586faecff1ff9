#include "node/worker/log_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <utility>

#include "core/base/testing/testing.h"
#include "node/worker/log_times.h"

namespace lambent::worker {
namespace {

using testing::EndsWith;

const FunctionId kF{1};
const FunctionId kG{2};

TenantId tenant_of(FunctionId function) {
  return TenantId(static_cast<uint32_t>(function.value) + 10);
}

// What a worker has of its logs, from its start to its end.
class LogFilesTest : public testing::Test {
 protected:
  struct Life {
    explicit Life(const LogFilesTest& test) : logs(test.per_function_) {
      LogFilesOptions options{.folder = test.folder_ / "logs",
                              .per_function = test.per_function_,
                              .age = test.age_,
                              .written_after = milliseconds(1),
                              .most_waiting = test.most_waiting_,
                              .most_restored = test.most_restored_};
      options.tenant_of = [](FunctionId function) { return tenant_of(function); };
      options.may_grow = [this, &test](TenantId tenant, Bytes more) {
        return files->used(tenant) + more <= test.quota_;
      };
      files = std::make_unique<LogFiles>(loop, log, std::move(options));
      files->restore(test.functions_, logs);
      logs.observe(
          {.appended = [this](FunctionId function, uint64_t offset, std::string_view text,
                              const auto& mark) { files->append(function, offset, text, mark); },
           .removed = {}});
    }
    void print(FunctionId function, std::string_view text, Duration at = seconds(1'000)) {
      logs.append(function, text, at);
    }
    std::vector<LogMark> marks(FunctionId function) {
      return logs.read(function, 0, 1 << 20).marks;
    }
    // All from there on, however many chunks it takes.
    std::string read(FunctionId function, uint64_t offset = 0) {
      std::string text;
      for (;;) {
        const LogChunk chunk = logs.read(function, offset, 1 << 20);
        text += chunk.text;
        offset = chunk.next_offset;
        if (!chunk.has_more()) return text;
      }
    }
    // Until it is on disk, and counted.
    void print_and_wait(const LogFilesTest& test, FunctionId function, const std::string& text) {
      print(function, text);
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (!test.is_on_disk(text) ||
             files->used(tenant_of(function)) != test.bytes_of(function)) {
        ASSERT_LT(std::chrono::steady_clock::now(), deadline) << text;
        loop.run_once(milliseconds(5));
      }
    }
    uint64_t end(FunctionId function) { return logs.read(function, 0, 1).end; }
    void wait_until_written(const LogFilesTest& test, size_t bytes) {
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (test.bytes_on_disk(".log") < bytes && std::chrono::steady_clock::now() < deadline) {
        loop.run_once(milliseconds(5));
      }
      ASSERT_EQ(test.bytes_on_disk(".log"), bytes);
    }

    SystemClock clock;
    loop::EventLoop loop{clock};
    NullLogSink log;
    LogStore logs;
    std::unique_ptr<LogFiles> files;
  };

  size_t bytes_on_disk(std::string_view of_files = "") const {
    size_t bytes = 0;
    for (const auto& file : std::filesystem::directory_iterator(folder_ / "logs")) {
      if (file.path().filename() == "life") continue;
      if (file.path().native().ends_with(of_files)) bytes += file.file_size();
    }
    return bytes;
  }
  Bytes bytes_of(FunctionId function) const {
    Bytes bytes;
    for (const auto& file : std::filesystem::directory_iterator(folder_ / "logs")) {
      const std::string name = file.path().filename();
      if (name.starts_with(std::to_string(function.value) + "-")) bytes += Bytes(file.file_size());
    }
    return bytes;
  }
  bool is_on_disk(const std::string& text) const {
    for (const auto& file : std::filesystem::directory_iterator(folder_ / "logs")) {
      const auto bytes = read_file(file.path(), 1 << 20);
      if (bytes.ok() && bytes->find(text) != std::string::npos) return true;
    }
    return false;
  }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / ("logs/" + name)) << bytes;
  }

  // What is on disk now is what a kill leaves; call restore_kill() once the life is over.
  void keep_as_killed() const { std::filesystem::copy(folder_ / "logs", folder_ / "killed"); }
  void restore_kill() const {
    std::filesystem::remove_all(folder_ / "logs");
    std::filesystem::rename(folder_ / "killed", folder_ / "logs");
  }

  const TemporaryFolder folder_;
  std::vector<FunctionId> functions_ = {kF, kG};
  Bytes per_function_ = Bytes(1000);
  Duration age_ = std::chrono::hours(1);
  Bytes most_waiting_ = Bytes::mib(1);
  Bytes most_restored_ = Bytes::mib(1);
  Bytes quota_ = Bytes::mib(1);  // of each tenant
};

TEST_F(LogFilesTest, WhatWasPrintedIsThereAfterARestartAtItsOffset) {
  {
    Life life(*this);
    life.print(kF, "one\n");
    life.print(kG, "other\n");
    life.print(kF, "two\n");
  }
  Life life(*this);
  EXPECT_EQ(life.read(kF), "one\ntwo\n");
  EXPECT_EQ(life.read(kG), "other\n");
  EXPECT_EQ(life.read(kF, 4), "two\n");
  life.print(kF, "three\n");
  EXPECT_EQ(life.read(kF, 8), "three\n");
}

TEST_F(LogFilesTest, TheNewestBytesAreKeptAndOffsetsStayTrueOverManyRestarts) {
  std::string all;
  for (int round = 0; round < 5; ++round) {
    Life life(*this);
    for (int i = 0; i < 50; ++i) {
      const std::string line =
          "round " + std::to_string(round) + " line " + std::to_string(i) + "\n";
      life.print(kF, line);
      all += line;
    }
    EXPECT_LE(bytes_on_disk(), 2 * per_function_.count);
  }
  Life life(*this);
  const auto kept = life.logs.read(kF, 0, 1 << 20);
  EXPECT_EQ(kept.next_offset, all.size());
  EXPECT_GE(kept.text.size() + bytes_on_disk(".times"), per_function_.count / 2);
  EXPECT_EQ(kept.text, all.substr(all.size() - kept.text.size()));
}

TEST_F(LogFilesTest, TheLoopWritesAMomentLater) {
  Life life(*this);
  life.print(kF, "one\n");
  life.wait_until_written(*this, 4);
}

TEST_F(LogFilesTest, ARemovedFunctionsLogGoes) {
  {
    Life life(*this);
    life.print(kF, "one\n");
  }
  {
    Life life(*this);
    life.files->remove(kF);
    life.logs.remove(kF);
  }
  EXPECT_EQ(bytes_on_disk(), 0u);
}

TEST_F(LogFilesTest, WhatIsOfNoFunctionOrTooOldGoesAndWhatIsNoLogStays) {
  {
    Life life(*this);
    life.print(kF, "one\n");
    life.print(kG, "two\n");
  }
  std::ofstream(folder_ / "logs/notes.txt") << "kept";
  functions_ = {kG};
  { Life life(*this); }
  EXPECT_EQ(bytes_on_disk(".log"), 4u);
  EXPECT_EQ(bytes_on_disk(".txt"), 4u);
  age_ = Duration(0);
  { Life life(*this); }
  EXPECT_EQ(bytes_on_disk(), 4u);
}

TEST_F(LogFilesTest, OffsetsOfALogThatIsTooOldAreNotUsedAgain) {
  {
    Life life(*this);
    life.print(kF, "one, seen by a client\n");
  }
  const Duration age = std::exchange(age_, Duration(0));
  for (int i = 0; i < 2; ++i) {
    Life life(*this);
    EXPECT_EQ(life.end(kF), 22U) << "also where it printed nothing meanwhile";
    EXPECT_EQ(life.read(kF), "");
    EXPECT_FALSE(life.logs.read(kF, 0, 100).is_after_step) << "its older lines are gone";
  }
  EXPECT_EQ(bytes_on_disk(), 0U);
  age_ = age;
  {
    Life life(*this);
    life.print(kF, "two\n");
    EXPECT_EQ(life.read(kF, 22), "two\n");
  }
  {
    Life life(*this);
    EXPECT_EQ(life.read(kF, 22), "two\n");
  }
  functions_ = {kG};
  { Life life(*this); }
  for (const auto& file : std::filesystem::directory_iterator(folder_ / "logs")) {
    EXPECT_EQ(file.path().filename(), "life") << "nothing stays of a function that is gone";
  }
}

TEST_F(LogFilesTest, OffsetsOfALogThatGrewTooOldWhileTheWorkerRanAreNotUsedAgain) {
  {
    FakeClock clock;
    loop::EventLoop loop(clock);
    NullLogSink log;
    LogStore logs;
    LogFiles files(loop, log, {.folder = folder_ / "logs", .written_after = milliseconds(1)});
    files.restore(functions_, logs);
    const auto run_until = [&](size_t bytes) {
      for (int turn = 0; bytes_on_disk(".log") != bytes && turn < 2000; ++turn) {
        clock.advance(milliseconds(1));
        loop.run_once(milliseconds(5));
      }
      ASSERT_EQ(bytes_on_disk(".log"), bytes);
    };
    files.append(kF, 0, "one\n", LogMark{0, seconds(1)});
    run_until(4);
    clock.advance(std::chrono::hours(24 * 365 * 20));  // its wall clock began in 2019
    run_until(0);
  }
  Life life(*this);
  EXPECT_EQ(life.end(kF), 4U);
  life.print(kF, "two\n");
  EXPECT_EQ(life.read(kF, 4), "two\n");
}

TEST_F(LogFilesTest, AtTheLastStepOfOffsetsLogsGoOnFromTheirEnd) {
  constexpr uint64_t kLast = uint64_t{131'070} << 36;
  std::filesystem::create_directory(folder_ / "logs");
  const std::string line = std::string(399, 'x') + "\n";
  for (uint64_t kills = 0; kills < 3; ++kills) {
    write("life", "131070 running\n");
    Life life(*this);
    for (int i = 0; i < 3; ++i) life.print(kF, line);
    EXPECT_EQ(life.end(kF), kLast + 1200 * (kills + 1));
  }
  Life life(*this);
  EXPECT_THAT(life.read(kF), EndsWith(line)) << "what lies behind the step is read back";
  EXPECT_LE(bytes_on_disk(".log"), 1200U) << "and removed as it gets older";
}

TEST_F(LogFilesTest, TextThatTheDiskDidNotTakeLeavesAGapAndNoWrongOffset) {
  most_waiting_ = Bytes(4 + sizeof(LogMark));
  {
    Life life(*this);
    life.print(kF, "one\n");
    life.print(kF, "lost too\n" + std::string(100, 'x'));
  }
  Life life(*this);
  EXPECT_EQ(life.read(kF), "one\n");
}

TEST_F(LogFilesTest, AFunctionThatPrintsTooMuchLosesItsOwnLinesAndNoOthers) {
  most_waiting_ = Bytes(1000);
  {
    Life life(*this);
    life.print(kG, "quiet\n");
    for (int i = 0; i < 100; ++i) life.print(kF, std::string(99, 'x') + "\n");
    life.print(kF, "the last\n");
  }
  Life life(*this);
  EXPECT_EQ(life.read(kG), "quiet\n");
  EXPECT_THAT(life.read(kF), EndsWith("the last\n"));
}

TEST_F(LogFilesTest, AGapIsNamedAndDeletesNothing) {
  most_waiting_ = Bytes(200);
  const std::string lost(150, 'x');
  {
    Life life(*this);
    life.print(kF, "before\n");
  }
  {
    Life life(*this);
    life.print(kF, lost);
    life.print(kF, std::string(99, 'y') + "\n");  // for which what waits is dropped
  }
  Life life(*this);
  EXPECT_EQ(life.read(kF), "before\n\n[150 bytes were not kept]\n" + std::string(99, 'y') + "\n");
  EXPECT_EQ(life.logs.read(kF, 100, 1 << 20).next_offset, 7u + 150u + 100u);
}

TEST_F(LogFilesTest, OffsetsThatAKilledWorkerHadNotWrittenAreNotUsedAgain) {
  uint64_t followed = 0;
  {
    Life life(*this);
    life.print(kF, "one\n");
    life.wait_until_written(*this, 4);
    keep_as_killed();
    life.print(kF, "two\n");
    followed = life.end(kF);
    ASSERT_EQ(followed, 8u);
  }
  restore_kill();
  {
    Life life(*this);
    EXPECT_EQ(life.read(kF, followed), "") << "nothing that it has seen comes again";
    life.print(kF, "a longer line than was lost\n");
    EXPECT_EQ(life.read(kF, followed), "a longer line than was lost\n") << "nothing is skipped";
    EXPECT_EQ(life.read(kF), "one\na longer line than was lost\n");
    life.wait_until_written(*this, 32);
    keep_as_killed();
    life.print(kF, "three\n");
    followed = life.end(kF);
  }
  restore_kill();
  // A second kill, and then an orderly stop.
  { Life life(*this); }
  Life life(*this);
  life.print(kF, "four, which is long\n");
  EXPECT_EQ(life.read(kF, followed), "four, which is long\n");
  EXPECT_EQ(life.read(kF), "one\na longer line than was lost\nfour, which is long\n");
  EXPECT_LT(life.end(kF), uint64_t{1} << 53) << "readers of JSON have it as a whole number";
}

TEST_F(LogFilesTest, WhatAKilledWorkerPrintedLastIsALineOfItsOwn) {
  {
    Life life(*this);
    life.print(kF, "half a li");
    life.wait_until_written(*this, 9);
    keep_as_killed();
    life.print(kF, "ne\n");
  }
  restore_kill();
  {
    Life life(*this);
    life.print(kF, "the next\n");
    EXPECT_EQ(life.read(kF), "half a li\nthe next\n");
    EXPECT_EQ(life.read(kF, 9), "\nthe next\n") << "a client that has seen it all";
    EXPECT_TRUE(life.logs.read(kF, 10, 100).is_after_step);
  }
  // The same from the disk, twice.
  for (int i = 0; i < 2; ++i) {
    Life life(*this);
    EXPECT_EQ(life.read(kF), "half a li\nthe next\n");
  }
}

TEST_F(LogFilesTest, TheFirstLinesOfAFunctionThatAKillLostAreNotTakenForLaterOnes) {
  {
    Life life(*this);
    keep_as_killed();
    life.print(kF, "lost\n");
  }
  restore_kill();
  Life life(*this);
  life.print(kF, "what comes later\n");
  EXPECT_EQ(life.read(kF, 5), "what comes later\n");
  EXPECT_FALSE(life.logs.read(kF, 5, 100).is_after_step) << "what was lost is told";
  EXPECT_TRUE(life.logs.read(kF, 0, 100).is_after_step);
}

TEST_F(LogFilesTest, AfterAnOrderlyStopOffsetsGoOn) {
  for (int i = 0; i < 3; ++i) {
    Life life(*this);
    life.print(kF, "line\n");
  }
  Life life(*this);
  EXPECT_EQ(life.end(kF), 15u);
}

TEST_F(LogFilesTest, OfALogThatIsLargerThanItMayBeOnlyTheEndIsRead) {
  { Life life(*this); }
  std::string text;
  std::string times;
  for (int i = 0; text.size() < 5'000; ++i) {
    times += log_time_line(text.size(), seconds(i));
    text += "line " + std::to_string(i) + "\n";
  }
  write("1-0.log", text);
  write("1-0.times", times);
  // More than memory has: only its end can be read.
  write("2-0.log", "");
  std::filesystem::resize_file(folder_ / "logs/2-0.log", uintmax_t{1} << 42);
  Life life(*this);
  EXPECT_EQ(life.read(kF), text.substr(text.size() - 1000));
  const LogChunk chunk = life.logs.read(kF, 0, 1 << 20);
  const auto lines = lines_of(chunk);
  ASSERT_GT(lines.size(), 10u);
  EXPECT_EQ("line " + std::to_string(lines.back().at->count() / 1'000'000'000) + "\n",
            lines.back().text);
  EXPECT_EQ(life.read(kG), std::string(1000, '\0'));
  EXPECT_EQ(life.end(kG), uint64_t{1} << 42);
}

TEST_F(LogFilesTest, OneLargeTextIsBoundedAsManySmallOnesAre) {
  {
    Life life(*this);
    life.print(kF, std::string(100'000, 'x') + "end");
  }
  EXPECT_LE(bytes_on_disk(), per_function_.count);
  Life life(*this);
  EXPECT_THAT(life.read(kF), EndsWith("xend"));
  EXPECT_EQ(life.logs.read(kF, 0, 1 << 20).next_offset, 100'003u);
}

TEST_F(LogFilesTest, AStartReadsNoMoreThanItMay) {
  {
    Life life(*this);
    life.print(kF, "0123456789");
  }
  most_restored_ = Bytes(5);
  Life life(*this);
  EXPECT_EQ(life.read(kF), "");
  life.print(kF, "x");
  EXPECT_EQ(life.read(kF, 10), "x");
}

// ---- Times of lines

TEST_F(LogFilesTest, WhatALogTakesIsItsTenants) {
  {
    Life life(*this);
    life.print_and_wait(*this, kF, "one\n");
    life.print_and_wait(*this, kG, "of another\n");
    EXPECT_GT(life.files->used(tenant_of(kG)), life.files->used(tenant_of(kF)));
  }
  Life life(*this);
  EXPECT_EQ(life.files->used(tenant_of(kF)), bytes_of(kF));
  EXPECT_GT(bytes_of(kF), Bytes(0));
  life.files->remove(kF);
  EXPECT_EQ(life.files->used(tenant_of(kF)), Bytes(0));
  EXPECT_EQ(life.files->used(tenant_of(kG)), bytes_of(kG));
}

TEST_F(LogFilesTest, AtItsQuotaATenantsNewestLinesAreKept) {
  quota_ = Bytes(400);
  per_function_ = Bytes(2000);
  {
    Life life(*this);
    for (int i = 0; i < 60; ++i) {
      life.print_and_wait(*this, kF, "line " + std::to_string(i) + " of many\n");
      ASSERT_LE(life.files->used(tenant_of(kF)), quota_);
    }
    life.print_and_wait(*this, kG, "of another\n");
  }
  Life life(*this);
  EXPECT_THAT(life.read(kF), EndsWith("line 59 of many\n"));
  EXPECT_EQ(life.read(kG), "of another\n");
}

TEST_F(LogFilesTest, TextThatHasNoRoomBelowAQuotaIsNotKeptAndItsOffsetsAreNotUsedAgain) {
  {
    Life life(*this);
    life.print_and_wait(*this, kF, "kept\n");
    quota_ = Bytes(0);
    life.print(kF, std::string(200, 'x') + "\n");
    for (int i = 0; i < 50; ++i) life.loop.run_once(milliseconds(2));
  }
  EXPECT_FALSE(is_on_disk("xx"));
  quota_ = Bytes::mib(1);
  Life life(*this);
  EXPECT_THAT(life.read(kF), testing::StartsWith("kept\n"));
  const uint64_t end = life.end(kF);
  EXPECT_GE(end, 5u + 201u);
}

TEST_F(LogFilesTest, TimesAreThereAfterARestart) {
  {
    Life life(*this);
    life.print(kF, "one\ntwo\n", seconds(1'000));
    life.print(kF, "half", seconds(1'001));
    life.print(kF, " a line\nthree\n", seconds(1'002));
  }
  Life life(*this);
  EXPECT_EQ(life.marks(kF),
            (std::vector<LogMark>{{0, seconds(1'000)}, {8, seconds(1'001)}, {20, seconds(1'002)}}));
  life.print(kF, "four\n", seconds(1'003));
  EXPECT_EQ(life.marks(kF).back(), (LogMark{26, seconds(1'003)}));
}

TEST_F(LogFilesTest, TimesStayTrueWhereFilesTakeTurns) {
  for (int round = 0; round < 4; ++round) {
    Life life(*this);
    for (int i = 0; i < 60; ++i) {
      const int number = round * 60 + i;
      life.print(kF, std::to_string(number) + "\n", seconds(number));
    }
    EXPECT_LE(bytes_on_disk(), 2 * per_function_.count);
  }
  Life life(*this);
  const LogChunk chunk = life.logs.read(kF, 0, 1 << 20);
  const auto lines = lines_of(chunk);
  ASSERT_GT(lines.size(), 10u);
  for (const LogLine& line : lines) {
    if (&line == &lines.front()) continue;  // it may be cut
    EXPECT_EQ(line.at, seconds(std::stoi(std::string(line.text)))) << line.text;
  }
  EXPECT_EQ(lines.back().text, "239\n");
}

TEST_F(LogFilesTest, TimesOfShortLinesAreBoundedOnDiskToo) {
  {
    Life life(*this);
    for (int i = 0; i < 5'000; ++i) life.print(kF, "\n", milliseconds(i));
  }
  EXPECT_LE(bytes_on_disk(), per_function_.count + 64);
  Life life(*this);
  const auto marks = life.marks(kF);
  ASSERT_GT(marks.size(), 10u);
  for (const LogMark& mark : marks) EXPECT_EQ(mark.at, milliseconds(mark.offset));
}

TEST_F(LogFilesTest, AnOlderWorkersLogIsReadAndGoesOn) {
  { Life life(*this); }
  write("1-0.log", "one\ntwo\n");
  Life life(*this);
  EXPECT_EQ(life.read(kF), "one\ntwo\n");
  EXPECT_EQ(life.marks(kF), std::vector<LogMark>());
  life.print(kF, "three\n", seconds(1'000));
  EXPECT_EQ(life.marks(kF), (std::vector<LogMark>{{8, seconds(1'000)}}));
}

TEST_F(LogFilesTest, TimesThatAreCutOffWrongOrOfTextThatNeverCameSpoilNoOthers) {
  { Life life(*this); }
  write("1-0.log", "one\ntwo\n");
  write("1-0.times", "@0 5000\n@4 60@4 7000\nrubbish\n@9999 1\n@7 9000\n@8 9500\n@5 x");
  {
    Life life(*this);
    EXPECT_EQ(life.read(kF), "one\ntwo\n");
    EXPECT_EQ(life.marks(kF),
              (std::vector<LogMark>{{0, seconds(5)}, {4, seconds(7)}, {7, seconds(9)}}));
    life.print(kF, "three\n", seconds(10));
  }
  Life life(*this);
  EXPECT_EQ(life.marks(kF).back(), (LogMark{8, seconds(10)}));
}

TEST_F(LogFilesTest, TimesGoWithTheirLogs) {
  {
    Life life(*this);
    life.print(kF, "one\n");
    life.print(kG, "two\n");
  }
  EXPECT_GT(bytes_on_disk(".times"), 0u);
  std::filesystem::remove(folder_ / "logs/2-0.log");  // by an older worker, which knows no times
  {
    Life life(*this);
    life.files->remove(kF);
  }
  EXPECT_EQ(bytes_on_disk(), 0u);
}

}  // namespace
}  // namespace lambent::worker
