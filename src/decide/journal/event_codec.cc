#include "decide/journal/event_codec.h"

#include <bit>
#include <cstring>

#include "core/base/check.h"
#include "core/base/varint.h"
#include "core/domain/limits.h"
#include "decide/journal/event_kind.h"

namespace lambent::journal {
namespace {

using namespace dispatch;

// Room for the longest event: the numbers of a profile, or an error type.
constexpr size_t kMostEventSize = 512;
constexpr size_t kFirstCapacity = 48 * 1024;

// An event's kind is its place among the alternatives.
static_assert(std::variant_size_v<Event> == 13, "a new event comes last, with a put and a take");

constexpr uint8_t kFlag = 0x10;
constexpr uint8_t kAcknowledged = 0x20;  // of an invocation
constexpr uint8_t kWithinRun = 0x40;     // of an invocation
constexpr uint8_t kLost = 0x20;          // of a device
constexpr uint8_t kOut = 0x20;           // of a move

// Writes at a place that has room.
struct Encoder {
  uint8_t* at;

  void fixed(uint64_t word) {
    std::memcpy(at, &word, sizeof(word));
    at += sizeof(word);
  }
  void fixed32(uint32_t word) {
    std::memcpy(at, &word, sizeof(word));
    at += sizeof(word);
  }
  void number(uint64_t word) { at = put_varint(at, word); }
  void duration(Duration value) { number(zigzag(value.count())); }
  void id(InvocationId value) {
    fixed(value.high);
    fixed(value.low);
  }
  void text(std::string_view value) {
    value = value.substr(0, kLongestErrorType);
    number(value.size());
    std::memcpy(at, value.data(), value.size());
    at += value.size();
  }

  void put(const FunctionRegistered& e) {
    number(e.profile.id.value);
    number(e.profile.tenant.value);
    number(e.profile.revision);
    fixed(std::bit_cast<uint64_t>(e.profile.weight));
    number(e.profile.max_concurrency);
    number(e.profile.device_memory.count);
    duration(e.profile.timeout);
    number(uint64_t{e.profile.memory_moves} | uint64_t{e.profile.checkpoints} << 1 |
           uint64_t{e.profile.has_cpu_variant} << 2);
    duration(e.profile.mean_execution);
    duration(e.profile.mean_interarrival);
    duration(e.profile.mean_cold_start);
    number(e.profile.completed);
    if (!e.profile.has_cpu_variant) return;
    fixed(std::bit_cast<uint64_t>(e.profile.gpu_speedup));
    duration(e.profile.mean_host_execution);
    duration(e.profile.mean_host_cold_start);
    number(e.profile.completed_on_host);
  }
  void put(const FunctionRemoved& e) { number(e.function.value); }
  void put(const InvocationSubmitted& e) {
    id(e.invocation);
    number(e.function.value);
  }
  void put(const InvocationCancelled& e) { id(e.invocation); }
  void put(const SandboxReady& e) {
    number(e.sandbox.value);
    duration(e.sandbox_time);
    duration(e.init_time);
  }
  void put(const SandboxExited& e) {
    number(e.sandbox.value);
    number(static_cast<uint64_t>(e.error.code));
    text(e.error_type);
  }
  void put(const InvocationFinished& e) {
    id(e.invocation);
    duration(e.execution);
    number(e.device_memory.count);
  }
  void put(const DeviceReading& e) {
    number(e.device.value);
    fixed(std::bit_cast<uint64_t>(e.utilisation));
    number(e.memory_used.count);
  }
  void put(const TimerFired&) {}
  void put(const DrainStarted&) {}
  void put(const MemoryMoved& e) {
    number(e.sandbox.value);
    number(e.moved.count);
    number(e.left.count);
    number(e.offloaded.count);
    duration(e.duration);
  }
  void put(const MemoryWanted& e) {
    number(e.sandbox.value);
    number(e.bytes.count);
  }
  void put(const DeviceTaken& e) {
    number(e.device.value);
    number(e.bytes.count);
  }
};

constexpr uint8_t flag(bool set, uint8_t bit) { return set ? bit : uint8_t{0}; }

template <typename Plain>
uint8_t flags_of(const Plain&) {
  return 0;
}
uint8_t flags_of(const InvocationSubmitted& e) {
  return flag(e.asynchronous, kFlag) | flag(e.acknowledged, kAcknowledged) |
         flag(e.within_run, kWithinRun);
}
uint8_t flags_of(const SandboxExited& e) { return flag(e.undelivered, kFlag); }
uint8_t flags_of(const InvocationFinished& e) { return flag(e.succeeded, kFlag); }
uint8_t flags_of(const DeviceReading& e) { return flag(e.healthy, kFlag) | flag(e.lost, kLost); }
uint8_t flags_of(const MemoryMoved& e) {
  return flag(e.done, kFlag) | flag(e.direction == MoveDirection::kOut, kOut);
}

// Reads from the front of bytes; false stays.
struct Decoder {
  std::string_view& bytes;
  bool ok = true;

  template <typename Word>
  void fixed(Word& word) {
    ok = ok && bytes.size() >= sizeof(word);
    if (!ok) return;
    std::memcpy(&word, bytes.data(), sizeof(word));
    bytes.remove_prefix(sizeof(word));
  }
  void number(uint64_t& word) { ok = ok && take_varint(bytes, word); }
  template <typename Tag, typename Number>
  void id(StrongId<Tag, Number>& value) {
    uint64_t word = 0;
    number(word);
    ok = ok && static_cast<Number>(word) == word;
    value = StrongId<Tag, Number>(static_cast<Number>(word));
  }
  void function(FunctionId& value) {
    id(value);
    ok = ok && value.value <= limits::kJournalFunctions;
  }
  void id(InvocationId& value) {
    fixed(value.high);
    fixed(value.low);
  }
  void duration(Duration& value) {
    uint64_t word = 0;
    number(word);
    value = Duration(from_zigzag(word));
  }
  void text(std::string& value) {
    uint64_t size = 0;
    number(size);
    ok = ok && size <= kLongestErrorType && size <= bytes.size();
    if (!ok) return;
    value.assign(bytes.substr(0, size));
    bytes.remove_prefix(size);
  }

  void take(FunctionRegistered& e);
  void take(FunctionRemoved& e) { function(e.function); }
  void take(InvocationSubmitted& e) {
    id(e.invocation);
    function(e.function);
  }
  void take(InvocationCancelled& e) { id(e.invocation); }
  void take(SandboxReady& e) {
    id(e.sandbox);
    duration(e.sandbox_time);
    duration(e.init_time);
  }
  void take(SandboxExited& e) {
    id(e.sandbox);
    uint64_t code = 0;
    number(code);
    ok = ok && code <= static_cast<uint64_t>(ErrorCode::kUnauthenticated);
    e.error.code = static_cast<ErrorCode>(code);
    text(e.error_type);
  }
  void take(InvocationFinished& e) {
    id(e.invocation);
    duration(e.execution);
    number(e.device_memory.count);
  }
  void take(DeviceReading& e) {
    id(e.device);
    uint64_t bits = 0;
    fixed(bits);
    e.utilisation = std::bit_cast<double>(bits);
    number(e.memory_used.count);
  }
  void take(TimerFired&) {}
  void take(DrainStarted&) {}
  void take(MemoryMoved& e) {
    id(e.sandbox);
    number(e.moved.count);
    number(e.left.count);
    number(e.offloaded.count);
    duration(e.duration);
  }
  void take(MemoryWanted& e) {
    id(e.sandbox);
    number(e.bytes.count);
  }
  void take(DeviceTaken& e) {
    id(e.device);
    number(e.bytes.count);
  }
};

void Decoder::take(FunctionRegistered& e) {
  function(e.profile.id);
  id(e.profile.tenant);
  number(e.profile.revision);
  uint64_t bits = 0;
  fixed(bits);
  e.profile.weight = std::bit_cast<double>(bits);
  uint64_t concurrency = 0;
  number(concurrency);
  ok = ok && concurrency <= ~0U;
  e.profile.max_concurrency = static_cast<unsigned>(concurrency);
  number(e.profile.device_memory.count);
  duration(e.profile.timeout);
  uint64_t may = 0;
  number(may);
  ok = ok && may <= 7;
  e.profile.memory_moves = (may & 1) != 0;
  e.profile.checkpoints = (may & 2) != 0;
  e.profile.has_cpu_variant = (may & 4) != 0;
  duration(e.profile.mean_execution);
  duration(e.profile.mean_interarrival);
  duration(e.profile.mean_cold_start);
  number(e.profile.completed);
  if (!e.profile.has_cpu_variant) return;
  fixed(bits);
  e.profile.gpu_speedup = std::bit_cast<double>(bits);
  ok = ok && e.profile.gpu_speedup >= 0 && e.profile.gpu_speedup <= limits::kMostGpuSpeedup;
  duration(e.profile.mean_host_execution);
  duration(e.profile.mean_host_cold_start);
  number(e.profile.completed_on_host);
}

void set_flags(Event& event, uint8_t head) {
  const bool flag = (head & kFlag) != 0;
  if (auto* e = std::get_if<InvocationSubmitted>(&event)) {
    e->asynchronous = flag;
    e->acknowledged = (head & kAcknowledged) != 0;
    e->within_run = (head & kWithinRun) != 0;
  }
  if (auto* e = std::get_if<SandboxExited>(&event)) e->undelivered = flag;
  if (auto* e = std::get_if<InvocationFinished>(&event)) e->succeeded = flag;
  if (auto* e = std::get_if<DeviceReading>(&event)) {
    e->healthy = flag;
    e->lost = (head & kLost) != 0;
  }
  if (auto* e = std::get_if<MemoryMoved>(&event)) {
    e->done = flag;
    e->direction = (head & kOut) != 0 ? MoveDirection::kOut : MoveDirection::kIn;
  }
}

}  // namespace

BatchWriter::BatchWriter() { bytes_.resize(kFirstCapacity); }

void BatchWriter::grow() { bytes_.resize(bytes_.size() * 2); }

template <typename Kind>
void BatchWriter::put(uint64_t number, const Kind& event, Instant now, uint32_t digest) {
  if (bytes_.size() - size_ < kMostEventSize) grow();
  if (count_ == 0) {
    first_ = number;
    base_ = now;
    last_ = now;
  }
  Encoder encoder{reinterpret_cast<uint8_t*>(bytes_.data()) + size_};
  *encoder.at++ = static_cast<uint8_t>(kind_of<Kind>() | flags_of(event));
  encoder.number(static_cast<uint64_t>((now - last_).count()));
  encoder.put(event);
  encoder.fixed32(digest);
  size_ = static_cast<size_t>(encoder.at - reinterpret_cast<uint8_t*>(bytes_.data()));
  last_ = now;
  ++count_;
}

void BatchWriter::add(uint64_t number, const Event& event, Instant now, uint64_t log_hash) {
  std::visit([&](const auto& e) { put(number, e, now, static_cast<uint32_t>(log_hash)); }, event);
}

void BatchWriter::add(const EventBatch& batch) {
  CHECK(empty(), "a batch is a block of its own");
  batch.for_each([&](Instant now, uint32_t digest, const auto& event) {
    put(batch.first() + count_, event, now, digest);
  });
}

std::string_view BatchWriter::finish() {
  Encoder encoder{reinterpret_cast<uint8_t*>(bytes_.data())};
  encoder.fixed(first_);
  encoder.fixed(static_cast<uint64_t>(base_.time_since_epoch().count()));
  encoder.fixed32(count_);
  const std::string_view batch = std::string_view(bytes_).substr(0, size_);
  size_ = kBatchHeadSize;
  count_ = 0;
  return batch;
}

std::string encoded(const EventBatch& batch) {
  BatchWriter writer;
  writer.add(batch);
  return writer.take();
}

Result<void> BatchReader::open() {
  Decoder decoder{bytes_};
  uint64_t base = 0;
  decoder.fixed(number_);
  decoder.fixed(base);
  decoder.fixed(left_);
  if (!decoder.ok) return Error{ErrorCode::kInvalidArgument, "a batch of events ends in its head"};
  now_ = Instant(Duration(static_cast<int64_t>(base)));
  return {};
}

Result<void> BatchReader::next(RecordedEvent& event) {
  CHECK(!done(), "no event is left in the batch");
  Decoder decoder{bytes_};
  uint8_t head = 0;
  uint64_t passed = 0;
  decoder.fixed(head);
  decoder.number(passed);
  const size_t kind = head & 0x0f;
  const int64_t before = now_.time_since_epoch().count();
  if (!decoder.ok || kind >= std::variant_size_v<Event> ||
      head > (kFlag | kLost | kWithinRun | 0x0f) || passed > static_cast<uint64_t>(INT64_MAX) ||
      before > INT64_MAX - static_cast<int64_t>(passed)) {
    return Error{ErrorCode::kInvalidArgument,
                 "event " + std::to_string(number_) + " has no head that makes sense"};
  }
  now_ += Duration(static_cast<int64_t>(passed));
  emplace_kind(event.event, kind);
  set_flags(event.event, head);
  std::visit([&](auto& e) { decoder.take(e); }, event.event);
  decoder.fixed(event.digest);
  if (!decoder.ok) {
    return Error{ErrorCode::kInvalidArgument,
                 "event " + std::to_string(number_) + " has fields that make no sense"};
  }
  event.number = number_++;
  event.now = now_;
  --left_;
  return {};
}

}  // namespace lambent::journal
