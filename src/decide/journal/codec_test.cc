// Blocks and events as bytes: what is written is what is read, and what is cut short is refused.
#include <gtest/gtest.h>

#include "core/base/random.h"
#include "decide/dispatch/log_hash.h"
#include "decide/journal/block.h"
#include "decide/journal/crc32c.h"
#include "decide/journal/event_batch.h"
#include "decide/journal/event_codec.h"
#include "decide/journal/words.h"

namespace lambent::journal {
namespace {

using namespace dispatch;

TEST(Crc32c, IsTheKnownOneAndTheSameByTableAndInstruction) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c_by_table("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c("6789", crc32c("12345")), 0xe3069283u);
  SeededRandom random(3);
  std::string bytes;
  for (int i = 0; i < 300; ++i) {
    bytes.push_back(static_cast<char>(random.next()));
    EXPECT_EQ(crc32c(bytes), crc32c_by_table(bytes));
  }
}

std::vector<Event> one_of_each() {
  FunctionProfile profile{.id = FunctionId{7},
                          .tenant = TenantId{3},
                          .revision = 12,
                          .weight = 0.3,
                          .max_concurrency = 4,
                          .device_memory = Bytes::gib(2),
                          .timeout = seconds(30),
                          .memory_moves = false,
                          .checkpoints = true,
                          .has_cpu_variant = true,
                          .gpu_speedup = 12.5,
                          .mean_execution = milliseconds(120),
                          .mean_interarrival = seconds(2),
                          .mean_cold_start = seconds(4),
                          .completed = 99,
                          .mean_host_execution = milliseconds(1500),
                          .mean_host_cold_start = seconds(2),
                          .completed_on_host = 7};
  return {FunctionRegistered{profile},
          FunctionRemoved{FunctionId{9}},
          InvocationSubmitted{{1, 2}, FunctionId{7}, true, true},
          InvocationSubmitted{{1, 3}, FunctionId{7}, false, false, true},
          InvocationCancelled{{~uint64_t{0}, 5}},
          SandboxReady{SandboxId{1ull << 40}, milliseconds(3), seconds(1)},
          SandboxExited{SandboxId{4}, {ErrorCode::kUnknown, ""}, "Runtime.ExitError", true},
          InvocationFinished{{3, 4}, milliseconds(17), true, Bytes::mib(900)},
          DeviceReading{DeviceId{2}, 0.75, Bytes::gib(3), false, true},
          DeviceTaken{DeviceId{3}, Bytes::mib(1536)},
          TimerFired{},
          DrainStarted{},
          MemoryMoved{SandboxId{5}, MoveDirection::kOut, false, Bytes::gib(3), Bytes::mib(500),
                      Bytes::mib(20), milliseconds(70)},
          MemoryWanted{SandboxId{5}, Bytes::mib(7)}};
}

uint64_t hash_of(const Event& event) {
  LogHash hash;
  hash.add(event, Instant{});
  return hash.value();
}

TEST(EventCodec, GivesBackEveryKindOfEvent) {
  BatchWriter writer;
  const std::vector<Event> events = one_of_each();
  Instant now{seconds(5)};
  for (size_t i = 0; i < events.size(); ++i) {
    now += milliseconds(i * i);
    writer.add(100 + i, events[i], now, 0x1234567890ull + i);
  }
  const std::string payload = writer.take();
  EXPECT_TRUE(writer.empty());
  BatchReader reader(payload);
  ASSERT_TRUE(reader.open().ok());
  RecordedEvent read;
  now = Instant{seconds(5)};
  for (size_t i = 0; i < events.size(); ++i) {
    ASSERT_FALSE(reader.done());
    ASSERT_TRUE(reader.next(read).ok()) << i;
    now += milliseconds(i * i);
    EXPECT_EQ(read.number, 100 + i);
    EXPECT_EQ(read.now, now);
    EXPECT_EQ(read.digest, 0x34567890u + i);
    EXPECT_EQ(read.event.index(), events[i].index());
    EXPECT_EQ(hash_of(read.event), hash_of(events[i])) << in_words(events[i], {});
  }
  EXPECT_TRUE(reader.done());
  EXPECT_EQ(reader.rest(), 0u);
}

TEST(EventCodec, KeepsTheTypeOfAnErrorAndNotItsMessage) {
  BatchWriter writer;
  writer.add(1, SandboxExited{SandboxId{4}, {ErrorCode::kUnknown, "it said: secret"}, "E"}, {}, 0);
  const std::string payload = writer.take();
  EXPECT_EQ(payload.find("secret"), std::string::npos);
  BatchReader reader(payload);
  ASSERT_TRUE(reader.open().ok());
  RecordedEvent read;
  ASSERT_TRUE(reader.next(read).ok());
  EXPECT_EQ(std::get<SandboxExited>(read.event).error_type, "E");
}

TEST(EventCodec, RefusesBatchesThatAreCutShort) {
  BatchWriter writer;
  const std::vector<Event> events = one_of_each();
  for (size_t i = 0; i < events.size(); ++i) writer.add(1 + i, events[i], Instant{}, 0);
  const std::string payload = writer.take();
  for (size_t size = 0; size < payload.size(); ++size) {
    BatchReader reader(std::string_view(payload).substr(0, size));
    bool ok = reader.open().ok();
    RecordedEvent read;
    while (ok && !reader.done()) ok = reader.next(read).ok();
    EXPECT_FALSE(ok) << size << " of " << payload.size() << " bytes";
  }
}

TEST(EventCodec, HoldsMoreThanItsFirstRoom) {
  BatchWriter writer;
  for (uint64_t i = 1; i <= 20'000; ++i) {
    writer.add(i, InvocationSubmitted{{i, i}, FunctionId{1}}, Instant(seconds(i)), i);
  }
  const std::string payload = writer.take();
  BatchReader reader(payload);
  ASSERT_TRUE(reader.open().ok());
  RecordedEvent read;
  while (!reader.done()) ASSERT_TRUE(reader.next(read).ok());
  EXPECT_EQ(read.number, 20'000u);
  EXPECT_EQ(read.now, Instant(seconds(20'000)));
}

TEST(EventBatch, GivesBackEveryKindOfEventInTheBytesOfTheCodec) {
  EventBatch batch;
  BatchWriter writer;
  const std::vector<Event> events = one_of_each();
  // Twice, for a batch is filled again and again.
  for (const uint64_t first : {100, 500}) {
    batch.clear();
    EXPECT_TRUE(batch.empty());
    Instant now{seconds(5)};
    for (size_t i = 0; i < 3 * events.size(); ++i) {
      const Event& event = events[i % events.size()];
      now += milliseconds(i * i);
      batch.add(first + i, event, now, 0xabcdef0012345678ull + i);
      writer.add(first + i, event, now, 0xabcdef0012345678ull + i);
    }
    ASSERT_EQ(batch.size(), 3 * events.size());
    now = Instant{seconds(5)};
    for (size_t i = 0; i < batch.size(); ++i) {
      now += milliseconds(i * i);
      const RecordedEvent read = batch[i];
      EXPECT_EQ(read.number, first + i);
      EXPECT_EQ(read.now, now);
      EXPECT_EQ(read.digest, 0x12345678u + i);
      EXPECT_EQ(read.event.index(), events[i % events.size()].index());
      EXPECT_EQ(hash_of(read.event), hash_of(events[i % events.size()]));
    }
    EXPECT_EQ(encoded(batch), writer.take());
  }
}

TEST(EventBatch, IsTakenInTheMemoryThatItNeeds) {
  EventBatch batch;
  for (uint64_t i = 1; i <= 3; ++i) batch.add(i, TimerFired{}, Instant(seconds(i)), i);
  const EventBatch few = batch.take();
  EXPECT_TRUE(batch.empty());
  ASSERT_EQ(few.size(), 3u);
  EXPECT_EQ(few.bytes(), 3 * 64u);
  EXPECT_EQ(few[2].number, 3u);
  EXPECT_EQ(few[2].now, Instant(seconds(3)));
  for (uint64_t i = 4; !batch.full(); ++i) batch.add(i, TimerFired{}, Instant(seconds(i)), i);
  const EventBatch many = batch.take();
  EXPECT_EQ(batch.bytes(), 0u);
  EXPECT_EQ(many[1023].number, 1027u);
}

TEST(EventBatch, IsFullAtItsLimit) {
  EventBatch batch;
  for (uint64_t i = 1; !batch.full(); ++i) batch.add(i, TimerFired{}, Instant(seconds(i)), i);
  EXPECT_EQ(batch.bytes(), limits::kJournalBlock.count);
  EXPECT_EQ(batch[1023].now, Instant(seconds(1024)));
}

}  // namespace
}  // namespace lambent::journal
