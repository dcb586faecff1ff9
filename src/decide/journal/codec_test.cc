// Blocks and events as bytes: what is written is what is read, and what is cut short is refused.
#include <gtest/gtest.h>

#include "core/base/random.h"
#include "decide/dispatch/log_hash.h"
#include "decide/journal/block.h"
#include "decide/journal/crc32c.h"
#include "decide/journal/event_batch.h"
#include "decide/journal/event_codec.h"
#include "decide/journal/limits.h"
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

// What version 2 of the format added.
std::vector<Event> of_version_2() {
  const FunctionProfile profile{.id = FunctionId{7},
                                .tenant = TenantId{3},
                                .device_memory = Bytes::gib(2),
                                .host_memory = Bytes::mib(1536)};
  return {FunctionRegistered{profile},
          TenantChanged{.tenant = TenantId{70'000},
                        .weight = 3,
                        .concurrency = 0,
                        .gpu_memory = Bytes::gib(8),
                        .gpu_time_per_hour = seconds(600),
                        .host_memory = Bytes::gib(64)},
          TenantChanged{.tenant = TenantId{2}, .weight = 0.5, .gpu_memory = Bytes(0)}};
}

// What version 3 of the format added.
std::vector<Event> of_version_3() {
  const FunctionProfile profile{.id = FunctionId{7},
                                .tenant = TenantId{3},
                                .device_memory = Bytes::gib(2),
                                .max_queue_time = seconds(60)};
  return {FunctionRegistered{profile},
          InvocationSubmitted{.invocation = {1, 4}, .function = FunctionId{7}, .promised = true}};
}

// What version 4 of the format added.
std::vector<Event> of_version_4() {
  const FunctionProfile profile{.id = FunctionId{9},
                                .tenant = TenantId{3},
                                .device_memory = Bytes::gib(2),
                                .account = FunctionId{7}};
  return {FunctionRegistered{profile}};
}

// What version 5 of the format added.
std::vector<Event> of_version_5() {
  const FunctionProfile profile{.id = FunctionId{9},
                                .tenant = TenantId{3},
                                .device_memory = Bytes::gib(2),
                                .sandbox_concurrency = 16};
  return {FunctionRegistered{profile}, InvocationUndelivered{{1, 4}}};
}

// What version 6 of the format added.
std::vector<Event> of_version_6() {
  const FunctionProfile profile{
      .id = FunctionId{9}, .tenant = TenantId{3}, .device_memory = Bytes::gib(2), .gpu_count = 2};
  return {FunctionRegistered{profile}};
}

// What version 7 of the format added.
std::vector<Event> of_version_7() { return {CallForeseen{FunctionId{9}, milliseconds(1500), 0.5}}; }

// What version 8 of the format added.
std::vector<Event> of_version_8() {
  return {SandboxCrowdedOut{SandboxId{5}}, SandboxReady{.sandbox = SandboxId{4},
                                                        .sandbox_time = milliseconds(3),
                                                        .init_time = seconds(1),
                                                        .kept_of = FunctionId{9},
                                                        .device = DeviceId{2},
                                                        .beside = 4,
                                                        .memory_is_out = true,
                                                        .left = Bytes::mib(300),
                                                        .offloaded = Bytes::mib(20)}};
}

// What version 9 of the format added.
std::vector<Event> of_version_9() {
  return {GpuTimeUsed{TenantId{3}, milliseconds(1500), seconds(42)}};
}

// What state version 23 added; programs of before refuse its journals.
std::vector<Event> of_state_version_23() {
  const FunctionProfile profile{.id = FunctionId{9},
                                .tenant = TenantId{3},
                                .mean_cold_start = seconds(4),
                                .cold_starts = 3,
                                .host_cold_starts = 300};
  return {FunctionRegistered{profile}};
}

std::vector<Event> all_events() {
  std::vector<Event> events = one_of_each();
  for (Event& event : of_version_2()) events.push_back(std::move(event));
  for (Event& event : of_version_3()) events.push_back(std::move(event));
  for (Event& event : of_version_4()) events.push_back(std::move(event));
  for (Event& event : of_version_5()) events.push_back(std::move(event));
  for (Event& event : of_version_6()) events.push_back(std::move(event));
  for (Event& event : of_version_7()) events.push_back(std::move(event));
  for (Event& event : of_version_8()) events.push_back(std::move(event));
  for (Event& event : of_version_9()) events.push_back(std::move(event));
  for (Event& event : of_state_version_23()) events.push_back(std::move(event));
  return events;
}

uint64_t hash_of(const Event& event) {
  LogHash hash;
  hash.add(event, Instant{});
  return hash.value();
}

TEST(EventCodec, GivesBackEveryKindOfEvent) {
  BatchWriter writer;
  const std::vector<Event> events = all_events();
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

// Journals that were recorded before must replay: their bytes and hashes are these.
void expect_written_as(const std::vector<Event>& events, const std::vector<uint64_t>& hashes,
                       const std::string& bytes) {
  BatchWriter writer;
  LogHash hash;
  uint64_t number = 1;
  for (const Event& event : events) {
    const Instant now{milliseconds(10 * number)};
    hash.add(event, now);
    EXPECT_EQ(hash.value(), hashes.at(number - 1)) << in_words(event, {});
    writer.add(number++, event, now, hash.value());
  }
  std::string written;
  for (const char each : writer.take()) {
    char two[3];
    std::snprintf(two, sizeof(two), "%02x", static_cast<unsigned char>(each));
    written += two;
  }
  EXPECT_EQ(written, bytes);
}

TEST(EventCodec, WritesAndHashesEveryKindOfEventAsItAlwaysDid) {
  const std::vector<uint64_t> hashes = {0x00848e997747a351, 0xebf512726c174267, 0x9afb041e57276501,
                                        0x75b320aae86457bc, 0xaf8c94d840bc58bb, 0xe8b8668fa962aa53,
                                        0x733267a9c8cb18cc, 0x25db5c2eba45972b, 0x1253a5b04efcd9c1,
                                        0x83c50993e6daa5f0, 0x85db66629c3e5c59, 0x1884ee7400b4766d,
                                        0x22582b63eef1f760, 0x21f7b220ee34f3ec};
  const std::string bytes =
      "010000000000000080969800000000000e000000000007030c333333333333d33f04808080800880"
      "b09dc2df010680b8b87280d0acf30e80a0d9e61d63000000000000294080bcc1960b80d0acf30e07"
      "51a347770180ade204096742176c3280ade204010000000000000002000000000000000701652757"
      "4280ade2040100000000000000030000000000000007bc5764e80380ade204ffffffffffffffff05"
      "00000000000000bb58bc400480ade204808080808020809bee0280a8d6b90753aa62a91580ade204"
      "04021152756e74696d652e457869744572726f72cc18cbc81680ade2040300000000000000040000"
      "000000000080999b10808080c2032b9745ba2780ade20402000000000000e83f808080800cc1d9fc"
      "4e0c80ade204038080808006f0a5dae60880ade204595c3e9c0980ade2046d76b4002a80ade20405"
      "808080800c808080fa018080800a80f6e04260f7f1ee0b80ade204058080c003ecf334ee";
  expect_written_as(one_of_each(), hashes, bytes);
}

TEST(EventCodec, WritesAndHashesWhatVersionTwoAddedAsItAlwaysDid) {
  expect_written_as(
      of_version_2(), {0xdad392e8028efa34, 0xba16636e38f79f2a, 0x4940ace34df673e1},
      "01000000000000008096980000000000030000001000070301000000000000f03f01808080800800"
      "0100000000808080800634fa8e020d80ade204f0a204000000000000084001000180808080200180"
      "c0cbacf622018080808080022a9ff7380d80ade20402000000000000e03f0001000000e173f64d");
}

TEST(EventCodec, WritesAndHashesWhatVersionThreeAddedAsItAlwaysDid) {
  expect_written_as(
      of_version_3(), {5868030144688237846u, 18274541413685544058u},
      "01000000000000008096980000000000020000002000070301000000000000f03f018080808008000100"
      "00000080e0ba84bf03162d6d918280ade20401000000000000000400000000000000077a44e4d3");
}

TEST(EventCodec, WritesAndHashesWhatVersionFiveAddedAsItAlwaysDid) {
  expect_written_as(
      of_version_5(), {365072772894574379u, 4366450580320702895u},
      "01000000000000008096980000000000020000008000090301000000000000f03f018080808008000100"
      "0000000000102b478cb10e80ade20401000000000000000400000000000000af515019");
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
  const std::vector<Event> events = all_events();
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
