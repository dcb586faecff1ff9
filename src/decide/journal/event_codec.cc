#include "decide/journal/event_codec.h"

#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>

#include "core/base/check.h"
#include "core/base/varint.h"
#include "decide/dispatch/field_visitor.h"
#include "decide/journal/event_kind.h"
#include "decide/journal/limits.h"

namespace lambent::journal {
namespace {

using namespace dispatch;

// Room for the longest event: the numbers of a profile, or an error type.
constexpr size_t kMostEventSize = 512;
constexpr size_t kFirstCapacity = 48 * 1024;

// An event's kind is its place among the alternatives.
static_assert(std::variant_size_v<Event> == 18, "a new event comes last");

// The kind is in the low four bits of an event's head, its flags are above. Kinds from the last of
// these on have no flags: what is above counts on from there.
constexpr unsigned kFirstFlag = 4;
constexpr size_t kLastWithFlags = 0x0f;

constexpr uint8_t head_of(size_t kind) {
  if (kind <= kLastWithFlags) return static_cast<uint8_t>(kind);
  return static_cast<uint8_t>(kLastWithFlags | (kind - kLastWithFlags) << kFirstFlag);
}
constexpr size_t kind_in(uint8_t head) {
  const size_t kind = head & kLastWithFlags;
  return kind < kLastWithFlags ? kind : kind + (head >> kFirstFlag);
}

// Writes at a place that has room. A visitor of fields.
struct Encoder {
  uint8_t* at;
  uint8_t head = 0;

  void fixed(uint64_t word) {
    std::memcpy(at, &word, sizeof(word));
    at += sizeof(word);
  }
  void fixed32(uint32_t word) {
    std::memcpy(at, &word, sizeof(word));
    at += sizeof(word);
  }
  void number(uint64_t word) { at = put_varint(at, word); }

  void put(const InvocationId& value) {
    fixed(value.high);
    fixed(value.low);
  }
  void put(double value) { fixed(word_of(value)); }
  void put(Duration value) { number(zigzag(value.count())); }
  void put(std::string_view value) {
    value = value.substr(0, kLongestErrorType);
    number(value.size());
    std::memcpy(at, value.data(), value.size());
    at += value.size();
  }
  template <typename Field>
  void put(const Field& value) {
    if constexpr (std::is_convertible_v<const Field&, std::string_view>) {
      put(std::string_view(value));
    } else {
      number(word_of(value));
    }
  }

  template <typename Field>
  void operator()(std::string_view, const Field& field) {
    put(field);
  }
  template <unsigned kBit, typename Field>
  void flag(std::string_view, const Field& field) {
    head |= static_cast<uint8_t>(word_of(field) << (kFirstFlag + kBit));
  }
  template <typename... Bools>
  void flags(std::string_view, const Bools&... bools) {
    head |= static_cast<uint8_t>(bits_of(bools...) << kFirstFlag);
  }
  template <typename... Bools>
  void bits(std::string_view, const Bools&... bools) {
    number(bits_of(bools...));
  }
  void within(std::string_view, double field, double, double) { put(field); }
  template <typename Field>
  void unhashed(std::string_view, const Field& field) {
    put(field);
  }
  template <typename Field>
  void maybe(std::string_view, const std::optional<Field>& field) {
    number(field ? 1 : 0);
    if (field) put(*field);
  }
  template <unsigned kBit, typename Field>
  void unless_zero(std::string_view, const Field& field) {
    if (word_of(field) == 0) return;
    head |= static_cast<uint8_t>(1U << (kFirstFlag + kBit));
    put(field);
  }
  template <unsigned kBit, typename Fields>
  void part(bool set, Fields fields) {
    if (!set) return;
    head |= static_cast<uint8_t>(1U << (kFirstFlag + kBit));
    fields(*this);
  }
  template <typename Fields>
  void only_if(bool set, Fields fields) {
    if (set) fields(*this);
  }
};

// Reads from the front of bytes; false stays. A visitor of fields.
struct Decoder {
  std::string_view& bytes;
  uint8_t head = 0;
  bool ok = true;

  template <typename Word>
  void fixed(Word& word) {
    ok = ok && bytes.size() >= sizeof(word);
    if (!ok) return;
    std::memcpy(&word, bytes.data(), sizeof(word));
    bytes.remove_prefix(sizeof(word));
  }
  void number(uint64_t& word) { ok = ok && take_varint(bytes, word); }
  // A number that is `most` at most.
  uint64_t bounded(uint64_t most) {
    uint64_t word = 0;
    number(word);
    ok = ok && word <= most;
    return word;
  }

  template <typename Tag, typename Number>
  void take(StrongId<Tag, Number>& value) {
    constexpr bool kFunction = std::is_same_v<StrongId<Tag, Number>, FunctionId>;
    value = StrongId<Tag, Number>(static_cast<Number>(
        bounded(kFunction ? limits::kJournalFunctions : std::numeric_limits<Number>::max())));
  }
  void take(InvocationId& value) {
    fixed(value.high);
    fixed(value.low);
  }
  void take(Bytes& value) { number(value.count); }
  void take(uint64_t& value) { number(value); }
  void take(unsigned& value) { value = static_cast<unsigned>(bounded(~0U)); }
  void take(Duration& value) {
    uint64_t word = 0;
    number(word);
    value = Duration(from_zigzag(word));
  }
  void take(double& value) {
    uint64_t bits = 0;
    fixed(bits);
    value = std::bit_cast<double>(bits);
  }
  void take(ErrorCode& value) {
    value = static_cast<ErrorCode>(bounded(static_cast<uint64_t>(kLastErrorCode)));
  }
  void take(std::string& value) {
    const uint64_t size = bounded(kLongestErrorType);
    ok = ok && size <= bytes.size();
    if (!ok) return;
    value.assign(bytes.substr(0, size));
    bytes.remove_prefix(size);
  }

  template <typename Field>
  void operator()(std::string_view, Field& field) {
    take(field);
  }
  template <unsigned kBit, typename Field>
  void flag(std::string_view, Field& field) {
    field = static_cast<Field>(head >> (kFirstFlag + kBit) & 1);
  }
  template <typename... Bools>
  void flags(std::string_view, Bools&... bools) {
    set_bits(head >> kFirstFlag, bools...);
  }
  template <typename... Bools>
  void bits(std::string_view, Bools&... bools) {
    set_bits(bounded((uint64_t{1} << sizeof...(bools)) - 1), bools...);
  }
  void within(std::string_view, double& field, double least, double most) {
    take(field);
    ok = ok && field >= least && field <= most;
  }
  template <typename Field>
  void unhashed(std::string_view, Field& field) {
    take(field);
  }
  template <typename Field>
  void maybe(std::string_view, std::optional<Field>& field) {
    field.reset();
    if (bounded(1) == 0) return;
    take(field.emplace());
  }
  template <unsigned kBit, typename Field>
  void unless_zero(std::string_view, Field& field) {
    if ((head >> (kFirstFlag + kBit) & 1) == 0) return;
    take(field);
    ok = ok && word_of(field) != 0;
  }
  template <unsigned kBit, typename Fields>
  void part(bool, Fields fields) {
    if ((head >> (kFirstFlag + kBit) & 1) != 0) fields(*this);
  }
  template <typename Fields>
  void only_if(bool set, Fields fields) {
    if (set) fields(*this);
  }
};

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
  uint8_t* const head = reinterpret_cast<uint8_t*>(bytes_.data()) + size_;
  constexpr uint8_t kHead = head_of(kind_of<Kind>());
  Encoder encoder{head + 1, kHead};
  encoder.number(static_cast<uint64_t>((now - last_).count()));
  Kind::fields(event, encoder);
  encoder.fixed32(digest);
  if constexpr (kind_of<Kind>() >= kLastWithFlags) {
    CHECK(encoder.head == kHead, "an event of this kind has no flags");
  }
  *head = encoder.head;
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
  uint64_t passed = 0;
  decoder.fixed(decoder.head);
  decoder.number(passed);
  const size_t kind = kind_in(decoder.head);
  const int64_t before = now_.time_since_epoch().count();
  if (!decoder.ok || kind >= std::variant_size_v<Event> ||
      passed > static_cast<uint64_t>(INT64_MAX) ||
      before > INT64_MAX - static_cast<int64_t>(passed)) {
    return Error{ErrorCode::kInvalidArgument,
                 "event " + std::to_string(number_) + " has no head that makes sense"};
  }
  now_ += Duration(static_cast<int64_t>(passed));
  emplace_kind(event.event, kind);
  std::visit([&]<typename Kind>(Kind& e) { Kind::fields(e, decoder); }, event.event);
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
