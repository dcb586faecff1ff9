// What a store does when its folder does not: too small a disk, another writer, no permission.
#include "node/journal_store/segment_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "decide/scheduling/make_policy.h"
#include "node/journal_store/segment_files.h"

namespace lambent::journal_store {
namespace {

using journal::BlockType;
using testing::HasSubstr;
using testing::SizeIs;

// While it lives no file of this process can grow beyond the limit; a write past it is cut short,
// and the next one fails, as on a disk that is full.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(uint64_t bytes) : old_action_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &old_limit_);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = old_limit_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &old_limit_);
    std::signal(SIGXFSZ, old_action_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  void (*old_action_)(int);
  rlimit old_limit_{};
};

// Read once the store has synced, so that its thread rests.
class EventNames final : public LogSink {
 public:
  void write(LogLevel, std::string_view event, std::initializer_list<LogField>) override {
    names.emplace_back(event);
  }
  std::vector<std::string> names;
};

class SegmentStores : public testing::Test {
 protected:
  SegmentStores()
      : folder_(std::filesystem::temp_directory_path() /
                ("lambent-segment-store-test-" + std::to_string(getpid()))) {
    std::filesystem::remove_all(folder_);
  }
  ~SegmentStores() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<SegmentStore> open(bool waits = false) {
    SegmentStoreOptions options;
    options.folder = folder_;
    options.waits = waits;
    auto store = SegmentStore::open(options, clock_, log_);
    EXPECT_TRUE(store.ok());
    return std::move(store).value();
  }
  uint64_t bytes_of(uint64_t segment) const {
    return std::filesystem::file_size(folder_ / segment_name(segment));
  }

  const std::filesystem::path folder_;
  FakeClock clock_;
  EventNames log_;
};

// A worker's journal, as far as the store is concerned: events that replay.
class Recorded {
 public:
  explicit Recorded(SegmentStore& store)
      : dispatcher_({}, scheduling::make_policy("fcfs").value()),
        recorder_({.version = "test", .policy = "fcfs", .options = {}, .run = 7}, store, {}) {
    recorder_.begin(dispatcher_, Duration(0));
  }
  void events(int count) {
    for (int i = 0; i < count; ++i) {
      now_ += milliseconds(1);
      std::vector<dispatch::Action> actions;
      dispatcher_.handle(dispatch::TimerFired{}, now_, actions);
      recorder_.record(dispatch::TimerFired{}, now_, dispatcher_);
    }
    recorder_.flush(dispatcher_, Duration(0));
  }
  const journal::Recorder& recorder() const { return recorder_; }

 private:
  dispatch::Dispatcher dispatcher_;
  journal::Recorder recorder_;
  Instant now_{};
};

TEST_F(SegmentStores, OnAFullDiskLoseEventsThatTheReplayCountsAndGoOnLater) {
  const auto store = open();
  uint64_t recorded = 0;
  {
    Recorded worker(*store);
    worker.events(100);
    ASSERT_TRUE(store->sync().ok());
    {
      const FileSizeLimit in_the_middle_of_a_block(bytes_of(1) + 10);
      worker.events(100);
      const auto failed = store->sync();
      ASSERT_FALSE(failed.ok());
      EXPECT_THAT(failed.error().message, HasSubstr("write"));
      EXPECT_THAT(log_.names, testing::ElementsAre("journal_not_written"));
    }
    worker.events(100);
    EXPECT_FALSE(worker.recorder().recording());
    worker.events(100);
    EXPECT_FALSE(worker.recorder().recording()) << "it was tried again at once";
    EXPECT_FALSE(store->sync().ok());

    clock_.advance(seconds(10));
    {
      const FileSizeLimit before_the_first_byte(0);
      worker.events(100);
      ASSERT_FALSE(store->sync().ok());
      EXPECT_EQ(bytes_of(2), 0u);
      EXPECT_THAT(log_.names, SizeIs(2));
    }
    worker.events(100);
    clock_.advance(seconds(10));
    worker.events(100);
    EXPECT_TRUE(worker.recorder().recording());
    worker.events(100);
    ASSERT_TRUE(store->sync().ok());
    recorded = worker.recorder().events();
  }
  ASSERT_TRUE(store->sync().ok());

  const auto segments = open_journal(folder_);
  ASSERT_TRUE(segments.ok());
  journal::ReplayTotals totals;
  const auto replayed = journal::replay(*segments, {}, totals);
  ASSERT_TRUE(replayed.ok()) << to_string(replayed.error());
  EXPECT_EQ(totals.segments, 3u);
  EXPECT_EQ(totals.runs, 1u);
  EXPECT_FALSE(totals.difference.has_value());
  EXPECT_FALSE(totals.torn);
  EXPECT_EQ(recorded, 800u);
  EXPECT_EQ(totals.events, 200u);
  EXPECT_EQ(totals.lost_events, 600u);
  EXPECT_THAT(totals.notes, testing::Contains(HasSubstr("600 events before it were not recorded")));
}

TEST_F(SegmentStores, WriteWhatWaitsWhenTheRecorderIsFlushed) {
  const auto store = open();
  Recorded worker(*store);
  ASSERT_TRUE(store->sync().ok());
  const uint64_t before = bytes_of(1);
  // Its thread rests, and so few events do not wake it; the flush behind them does.
  worker.events(10);
  const SystemClock clock;
  const Instant begin = clock.now();
  while (bytes_of(1) == before && clock.now() - begin < seconds(60)) std::this_thread::yield();
  EXPECT_GT(bytes_of(1), before);
}

TEST_F(SegmentStores, ThatMayWaitTellOfAFullDiskAndDoNotTryAgain) {
  const auto store = open(true);
  ASSERT_TRUE(store->begin_segment());
  {
    const FileSizeLimit limit(1000);
    // More than may wait in memory: the failure releases the thread that appends.
    bool taken = true;
    for (int i = 0; i < 4096 && taken; ++i) {
      taken = store->append(BlockType::kEvents, std::string(4096, 'x'));
    }
    EXPECT_FALSE(taken);
    EXPECT_FALSE(store->sync().ok());
  }
  clock_.advance(seconds(60));
  EXPECT_FALSE(store->begin_segment());
  EXPECT_FALSE(store->sync().ok());
}

TEST_F(SegmentStores, HaveAFolderOfTheirOwn) {
  const auto store = open();
  SegmentStoreOptions options;
  options.folder = folder_;
  const auto second = SegmentStore::open(options, clock_, log_);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, ErrorCode::kAlreadyExists);
  EXPECT_THAT(second.error().message, HasSubstr("give each one a folder of its own"));

  // In a file no user can make a folder.
  options.folder = folder_ / "lock" / "journal";
  const auto third = SegmentStore::open(options, clock_, log_);
  ASSERT_FALSE(third.ok());
  EXPECT_EQ(third.error().code, ErrorCode::kPermissionDenied);
  EXPECT_THAT(third.error().message, HasSubstr("--journal"));
}

TEST_F(SegmentStores, WhoseFolderIsTakenAwayFailAndGoOnWhenItIsBack) {
  const auto store = open();
  std::filesystem::remove_all(folder_);
  ASSERT_TRUE(store->begin_segment());
  const auto failed = store->sync();
  ASSERT_FALSE(failed.ok());
  EXPECT_THAT(failed.error().message, HasSubstr(segment_name(1)));
  EXPECT_FALSE(store->append(BlockType::kEvents, "lost"));
  std::filesystem::create_directories(folder_);
  clock_.advance(seconds(10));
  ASSERT_TRUE(store->begin_segment());
  ASSERT_TRUE(store->append(BlockType::kEnd, ""));
  EXPECT_TRUE(store->sync().ok());
  EXPECT_THAT(list_segments(folder_).value(), SizeIs(1));
}

}  // namespace
}  // namespace lambent::journal_store
