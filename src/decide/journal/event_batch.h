// EventBatch: events as the thread that decides leaves them, one line of its cache each, for
// another thread to encode. Filled on the loop thread; then a value that one thread holds at a
// time.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/base/check.h"
#include "decide/dispatch/event.h"
#include "decide/dispatch/field_visitor.h"
#include "decide/journal/event_kind.h"
#include "decide/journal/limits.h"

namespace lambent::journal {

struct RecordedEvent {
  uint64_t number = 0;  // counts from 1 since the worker's start
  Instant now{};
  uint32_t digest = 0;  // low bits of the log hash
  dispatch::Event event;
};

// The kind in the lowest byte, flags in the next, the digest in the upper half; the instant; what
// the event carries.
using PackedEvent = std::array<uint64_t, 8>;

// The event is kept as it is, at this place among the others.
constexpr uint64_t kKeptWhole = uint64_t{1} << 16;

// Puts fields into the words from the third on. A visitor of fields.
class Packer {
 public:
  explicit Packer(PackedEvent& words) : words_(words) {}
  // False if there are more than a line has room for, texts, or fields that may be missing.
  bool fits() const { return fits_; }

  template <typename Field>
  void operator()(std::string_view, const Field& field) {
    word(dispatch::word_of(field));
  }
  void operator()(std::string_view, const InvocationId& id) {
    word(id.high);
    word(id.low);
  }
  template <unsigned kBit, typename Field>
  void flag(std::string_view, const Field& field) {
    words_[0] |= dispatch::word_of(field) << (kFirstFlag + kBit);
  }
  template <typename... Bools>
  void flags(std::string_view, const Bools&... bools) {
    words_[0] |= dispatch::bits_of(bools...) << kFirstFlag;
  }
  template <typename... Bools>
  void bits(std::string_view, const Bools&... bools) {
    word(dispatch::bits_of(bools...));
  }
  void within(std::string_view, double field, double, double) { word(dispatch::word_of(field)); }
  template <typename Field>
  void unhashed(std::string_view, const Field&) {
    fits_ = false;
  }
  template <typename Field>
  void maybe(std::string_view, const std::optional<Field>&) {
    fits_ = false;
  }
  template <unsigned, typename Field>
  void unless_zero(std::string_view name, const Field& field) {
    (*this)(name, field);
  }
  template <unsigned, typename Fields>
  void part(bool, Fields fields) {
    fields(*this);
  }
  template <typename Fields>
  void only_if(bool set, Fields fields) {
    if (set) fields(*this);
  }

  static constexpr unsigned kFirstFlag = 8;

 private:
  void word(uint64_t word) {
    if (next_ < words_.size()) {
      words_[next_++] = word;
    } else {
      fits_ = false;
    }
  }

  PackedEvent& words_;
  size_t next_ = 2;
  bool fits_ = true;
};

// The other way round, of an event that did fit.
class Unpacker {
 public:
  explicit Unpacker(const PackedEvent& words) : words_(words) {}

  template <typename Tag, typename Number>
  void operator()(std::string_view, StrongId<Tag, Number>& field) {
    field = StrongId<Tag, Number>(static_cast<Number>(word()));
  }
  void operator()(std::string_view, InvocationId& field) {
    field.high = word();
    field.low = word();
  }
  void operator()(std::string_view, Bytes& field) { field.count = word(); }
  void operator()(std::string_view, Duration& field) {
    field = Duration(static_cast<int64_t>(word()));
  }
  void operator()(std::string_view, double& field) { field = std::bit_cast<double>(word()); }
  template <typename Number>
  requires std::is_integral_v<Number>
  void operator()(std::string_view, Number& field) { field = static_cast<Number>(word()); }
  template <unsigned kBit, typename Field>
  void flag(std::string_view, Field& field) {
    field = static_cast<Field>(words_[0] >> (Packer::kFirstFlag + kBit) & 1);
  }
  template <typename... Bools>
  void flags(std::string_view, Bools&... bools) {
    dispatch::set_bits(words_[0] >> Packer::kFirstFlag, bools...);
  }
  template <typename... Bools>
  void bits(std::string_view, Bools&... bools) {
    dispatch::set_bits(word(), bools...);
  }
  void within(std::string_view name, double& field, double, double) { (*this)(name, field); }
  template <typename Field>
  void unhashed(std::string_view, Field&) {}
  template <typename Field>
  void maybe(std::string_view, std::optional<Field>&) {}
  template <unsigned, typename Field>
  void unless_zero(std::string_view name, Field& field) {
    (*this)(name, field);
  }
  template <unsigned, typename Fields>
  void part(bool, Fields fields) {
    fields(*this);
  }
  template <typename Fields>
  void only_if(bool set, Fields fields) {
    if (set) fields(*this);
  }

 private:
  uint64_t word() { return next_ < words_.size() ? words_[next_++] : 0; }

  const PackedEvent& words_;
  size_t next_ = 2;
};

// The fields of events as machine words: the deciding thread writes a line of words per event, with
// the same instructions for every kind.
class EventBatch {
 public:
  EventBatch() = default;
  EventBatch(EventBatch&&) = default;
  EventBatch& operator=(EventBatch&&) = default;

  bool empty() const { return count_ == 0; }
  bool full() const { return count_ == kCapacity; }
  size_t size() const { return count_; }
  // What it takes in memory.
  size_t bytes() const { return room_ * sizeof(Line) + others_.size() * sizeof(dispatch::Event); }

  // The event that has this number; of all but the first in a batch it is the one before's and one.
  // Not when full(). Inlined, because it follows every decision: as a call, which is the compiler's
  // choice, it takes 71 instructions and not 50.
  [[gnu::always_inline]] void add(uint64_t number, const dispatch::Event& event, Instant now,
                                  uint64_t log_hash) {
    CHECK(!full(), "a full batch is handed over before the next event");
    if (count_ == 0) begin(number);
    Line& line = lines_[count_++];
    const uint64_t head = event.index() | log_hash << 32;
    const auto at = static_cast<uint64_t>(now.time_since_epoch().count());
    if (const auto* e = std::get_if<dispatch::InvocationFinished>(&event)) {
      line.words = packed(head, at, *e);
    } else if (const auto* e = std::get_if<dispatch::InvocationSubmitted>(&event)) {
      line.words = packed(head, at, *e);
    } else {
      add_seldom(line, event, head, at);
    }
  }
  void clear();
  // All that was added, in at most about twice the memory that it needs; nothing is left here.
  EventBatch take();

  // As it was added.
  RecordedEvent operator[](size_t index) const;
  // All of them in their order: `visit(now, digest, event)` with each as the kind that it is. The
  // frequent two are never made into events of any kind.
  template <typename Visit>
  void for_each(Visit visit) const;
  // The number of the first.
  uint64_t first() const { return first_; }

 private:
  struct alignas(64) Line {
    PackedEvent words;
  };

  // Of an event of a kind that fits.
  template <typename Kind>
  static PackedEvent packed(uint64_t head, uint64_t at, const Kind& event) {
    PackedEvent words{head, at};
    Packer packer(words);
    Kind::fields(event, packer);
    return words;
  }
  void begin(uint64_t number);
  void add_seldom(Line& line, const dispatch::Event& event, uint64_t head, uint64_t at);

  static constexpr size_t kCapacity = limits::kJournalBlock.count / sizeof(Line);

  std::unique_ptr<Line[]> lines_;  // made for the first event
  size_t room_ = 0;                // of these there are so many
  // Events that carry text or many numbers: seldom, and kept as they are.
  std::vector<dispatch::Event> others_;
  size_t count_ = 0;
  uint64_t first_ = 0;
};

template <typename Visit>
void EventBatch::for_each(Visit visit) const {
  const auto visit_as = [&]<typename Kind>(const PackedEvent& words, Kind event) {
    Unpacker unpacker(words);
    Kind::fields(event, unpacker);
    visit(Instant(Duration(static_cast<int64_t>(words[1]))), static_cast<uint32_t>(words[0] >> 32),
          event);
  };
  for (size_t i = 0; i < count_; ++i) {
    const PackedEvent& words = lines_[i].words;
    const size_t kind = words[0] & 0xff;
    if (kind == kind_of<dispatch::InvocationFinished>()) {
      visit_as(words, dispatch::InvocationFinished{});
    } else if (kind == kind_of<dispatch::InvocationSubmitted>()) {
      visit_as(words, dispatch::InvocationSubmitted{});
    } else {
      const RecordedEvent seldom = (*this)[i];
      std::visit([&](const auto& event) { visit(seldom.now, seldom.digest, event); }, seldom.event);
    }
  }
}

}  // namespace lambent::journal
