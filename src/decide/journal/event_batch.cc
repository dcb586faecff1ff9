#include "decide/journal/event_batch.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "decide/journal/event_kind.h"

namespace lambent::journal {
void EventBatch::begin(uint64_t number) {
  first_ = number;
  if (room_ == kCapacity) return;
  lines_ = std::make_unique_for_overwrite<Line[]>(kCapacity);
  room_ = kCapacity;
}

void EventBatch::add_seldom(Line& line, const dispatch::Event& event, uint64_t head, uint64_t at) {
  line.words = {head, at};
  std::visit(
      [&]<typename Kind>(const Kind& e) {
        Packer packer(line.words);
        Kind::fields(e, packer);
        if (packer.fits()) return;
        line.words = {head | kKeptWhole, at, others_.size()};
        others_.push_back(event);
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
  const PackedEvent& words = lines_[index].words;
  RecordedEvent recorded{.number = first_ + index,
                         .now = Instant(Duration(static_cast<int64_t>(words[1]))),
                         .digest = static_cast<uint32_t>(words[0] >> 32),
                         .event = {}};
  if ((words[0] & kKeptWhole) != 0) {
    recorded.event = others_[words[2]];
    return recorded;
  }
  emplace_kind(recorded.event, words[0] & 0xff);
  std::visit(
      [&]<typename Kind>(Kind& e) {
        Unpacker unpacker(words);
        Kind::fields(e, unpacker);
      },
      recorded.event);
  return recorded;
}

}  // namespace lambent::journal
