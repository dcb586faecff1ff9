#include "decide/journal/event_batch.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/base/check.h"
#include "decide/journal/event_kind.h"

namespace lambent::journal {
namespace {

using namespace dispatch;
using Words = PackedEvent;
using journal::unpack;

constexpr uint64_t kFlag = 0x100;
constexpr uint64_t kSecondFlag = 0x200;

uint64_t flags(bool first, bool second = false) {
  return (first ? kFlag : 0) | (second ? kSecondFlag : 0);
}
uint64_t word(Duration value) { return static_cast<uint64_t>(value.count()); }
Duration duration(uint64_t word) { return Duration(static_cast<int64_t>(word)); }

// What an event carries, all of it: each is taken apart, so that one with a member more does not
// compile before that is here. Those that carry text do not fit into a line.
void pack(const FunctionRemoved& e, Words& words) {
  const auto& [function] = e;
  words[2] = function.value;
}
void unpack(const Words& words, FunctionRemoved& e) {
  e.function = FunctionId(static_cast<uint32_t>(words[2]));
}

void pack(const InvocationCancelled& e, Words& words) {
  const auto& [invocation] = e;
  words[2] = invocation.high;
  words[3] = invocation.low;
}
void unpack(const Words& words, InvocationCancelled& e) { e.invocation = {words[2], words[3]}; }

void pack(const SandboxReady& e, Words& words) {
  const auto& [sandbox, sandbox_time, init_time] = e;
  words[2] = sandbox.value;
  words[3] = word(sandbox_time);
  words[4] = word(init_time);
}
void unpack(const Words& words, SandboxReady& e) {
  e.sandbox = SandboxId(words[2]);
  e.sandbox_time = duration(words[3]);
  e.init_time = duration(words[4]);
}

void pack(const DeviceReading& e, Words& words) {
  const auto& [device, utilisation, memory_used, healthy, lost] = e;
  words[0] |= flags(healthy, lost);
  words[2] = device.value;
  words[3] = std::bit_cast<uint64_t>(utilisation);
  words[4] = memory_used.count;
}
void unpack(const Words& words, DeviceReading& e) {
  e.healthy = (words[0] & kFlag) != 0;
  e.lost = (words[0] & kSecondFlag) != 0;
  e.device = DeviceId(static_cast<uint32_t>(words[2]));
  e.utilisation = std::bit_cast<double>(words[3]);
  e.memory_used = Bytes(words[4]);
}

void pack(const TimerFired&, Words&) {}
void unpack(const Words&, TimerFired&) {}

void pack(const DrainStarted&, Words&) {}
void unpack(const Words&, DrainStarted&) {}

void pack(const MemoryMoved& e, Words& words) {
  const auto& [sandbox, direction, done, moved, left, offloaded, duration] = e;
  words[0] |= flags(done, direction == MoveDirection::kOut);
  words[2] = sandbox.value;
  words[3] = moved.count;
  words[4] = left.count;
  words[5] = word(duration);
  words[6] = offloaded.count;
}
void unpack(const Words& words, MemoryMoved& e) {
  e.done = (words[0] & kFlag) != 0;
  e.direction = (words[0] & kSecondFlag) != 0 ? MoveDirection::kOut : MoveDirection::kIn;
  e.sandbox = SandboxId(words[2]);
  e.moved = Bytes(words[3]);
  e.left = Bytes(words[4]);
  e.duration = duration(words[5]);
  e.offloaded = Bytes(words[6]);
}

void pack(const MemoryWanted& e, Words& words) {
  const auto& [sandbox, bytes] = e;
  words[2] = sandbox.value;
  words[3] = bytes.count;
}
void unpack(const Words& words, MemoryWanted& e) {
  e.sandbox = SandboxId(words[2]);
  e.bytes = Bytes(words[3]);
}

void pack(const DeviceTaken& e, Words& words) {
  const auto& [device, bytes] = e;
  words[2] = device.value;
  words[3] = bytes.count;
}
void unpack(const Words& words, DeviceTaken& e) {
  e.device = DeviceId(static_cast<uint32_t>(words[2]));
  e.bytes = Bytes(words[3]);
}

template <typename Kind>
concept FitsIntoALine = requires(const Words& words, Kind& e) {
  unpack(words, e);
};

}  // namespace

void EventBatch::begin(uint64_t number) {
  first_ = number;
  if (room_ == kCapacity) return;
  lines_ = std::make_unique_for_overwrite<Line[]>(kCapacity);
  room_ = kCapacity;
}

void EventBatch::add_seldom(Line& line, const Event& event, uint64_t head, Instant now) {
  line.words = {head, word(now.time_since_epoch())};
  std::visit(
      [&]<typename Kind>(const Kind& e) {
        if constexpr (requires { pack(e, line.words); }) {
          pack(e, line.words);
        } else {
          line.words[2] = others_.size();
          others_.push_back(event);
        }
      },
      event);
}

void EventBatch::clear() {
  count_ = 0;
  others_.clear();
}

EventBatch EventBatch::take() {
  if (2 * count_ >= kCapacity) return std::exchange(*this, EventBatch());
  EventBatch taken;
  if (count_ > 0) taken.lines_ = std::make_unique_for_overwrite<Line[]>(count_);
  std::copy_n(lines_.get(), count_, taken.lines_.get());
  taken.room_ = taken.count_ = count_;
  taken.first_ = first_;
  taken.others_ = std::move(others_);
  clear();
  return taken;
}

RecordedEvent EventBatch::operator[](size_t index) const {
  CHECK(index < count_, "only what was added can be read");
  const Words& words = lines_[index].words;
  RecordedEvent recorded{.number = first_ + index,
                         .now = Instant(duration(words[1])),
                         .digest = static_cast<uint32_t>(words[0] >> 32),
                         .event = {}};
  emplace_kind(recorded.event, words[0] & 0xff);
  std::visit(
      [&]<typename Kind>(Kind& e) {
        if constexpr (FitsIntoALine<Kind>) {
          unpack(words, e);
        } else {
          e = std::get<Kind>(others_[words[2]]);
        }
      },
      recorded.event);
  return recorded;
}

}  // namespace lambent::journal
