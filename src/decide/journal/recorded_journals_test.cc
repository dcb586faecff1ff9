// Journals that an earlier build recorded (tests/journals): the bytes of their events and the
// hashes beside them are what this build writes, and it decides as that one did.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "decide/journal/testing/testing.h"

namespace lambent::journal {
namespace {

struct Recording {
  std::string_view folder;
  uint64_t events;
  uint64_t log_hash;  // after the last event, by the build that recorded it
};
constexpr Recording kRecordings[] = {
    {"mqfq-sticky", 346, 0x8b52d971d7f328d6}, {"density", 353, 0x2319d0322cc4cf50},
    {"fcfs", 300, 0x5969ac3d5d53ab88},        {"tenants", 245, 0x338e67e29f958277},
    {"density-22", 404, 0xebd53216901a65e},   {"density-23", 528, 0xd1d53d5410ab3e17}};

MemoryJournal journal_of(const Recording& recording) {
  const std::filesystem::path folder =
      std::filesystem::path(LAMBENT_SOURCE_DIR "/tests/journals") / recording.folder;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  MemoryJournal journal;
  for (const auto& file : files) {
    std::ifstream in(file, std::ios::binary);
    journal.segments.emplace_back(std::istreambuf_iterator<char>(in),
                                  std::istreambuf_iterator<char>());
  }
  return journal;
}

// Calls `visit` with the payload of each block of events.
template <typename Visit>
void for_each_batch(const MemoryJournal& journal, Visit visit) {
  const SegmentSource segments = journal.source();
  while (true) {
    auto segment = segments();
    ASSERT_TRUE(segment.ok());
    if (*segment == nullptr) return;
    ASSERT_TRUE((*segment)->open().ok());
    while (true) {
      const auto block = (*segment)->next();
      ASSERT_TRUE(block.ok()) << to_string(block.error());
      if (!block->has_value()) break;
      if ((*block)->type == BlockType::kEvents) visit((*block)->payload);
    }
    ASSERT_FALSE((*segment)->torn_end());
  }
}

// Holds whatever the state version: no decision is made.
TEST(RecordedJournals, AreWrittenAgainByteForByte) {
  std::set<size_t> kinds;
  for (const Recording& recording : kRecordings) {
    SCOPED_TRACE(recording.folder);
    uint64_t events = 0;
    for_each_batch(journal_of(recording), [&](const std::string& payload) {
      BatchWriter writer;
      EventBatch batch;
      BatchReader reader(payload);
      ASSERT_TRUE(reader.open().ok());
      while (!reader.done()) {
        RecordedEvent event;
        ASSERT_TRUE(reader.next(event).ok()) << events;
        writer.add(event.number, event.event, event.now, event.digest);
        batch.add(event.number, event.event, event.now, event.digest);
        kinds.insert(event.event.index());
        ++events;
      }
      EXPECT_EQ(reader.rest(), 0u);
      EXPECT_EQ(writer.take(), payload);
      EXPECT_EQ(encoded(batch), payload);
    });
    EXPECT_EQ(events, recording.events);
  }
  // None was recorded since InvocationUndelivered, CallForeseen, SandboxCrowdedOut and GpuTimeUsed
  // came; codec_test.cc has their bytes.
  EXPECT_EQ(kinds.size() + 4, std::variant_size_v<dispatch::Event>);
}

// A build of another state version, or one that decides otherwise on purpose, cannot do this:
// tests/journals/README.md says how to go on.
TEST(RecordedJournals, ReplayToTheSameDecisions) {
  for (const Recording& recording : kRecordings) {
    SCOPED_TRACE(recording.folder);
    const MemoryJournal journal = journal_of(recording);
    uint64_t log_hash = 0;
    ReplaySinks sinks;
    sinks.step = [&](const ReplayStep& step) { log_hash = step.dispatcher.log_hash(); };
    ReplayTotals totals;
    const auto replayed = replay(journal.source(), sinks, totals);
    ASSERT_TRUE(replayed.ok()) << to_string(replayed.error());
    ASSERT_FALSE(totals.difference)
        << totals.difference->event << " " << totals.difference->event_in_words;
    EXPECT_EQ(totals.events, recording.events);
    EXPECT_EQ(log_hash, recording.log_hash);
    EXPECT_FALSE(totals.torn);
  }
}

}  // namespace
}  // namespace lambent::journal
