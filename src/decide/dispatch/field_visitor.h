// What visitors of fields() share. An event or an action describes its fields once, as calls of a
// visitor, and what has to know them all is such a visitor: LogHash, the journal's codec and its
// batches, the text of a trace. A field more is a line more, in one place. Pure.
//
//   visit(name, field)                a number, an id, an instant, an amount, a text
//   visit.flag<N>(name, field)        a bool or a direction, which the journal keeps in bit N of an
//                                     event's head
//   visit.flags(names, a, b, ...)     bools that are one word of the hash, kept from bit 0 on
//   visit.bits(names, a, b, ...)      the same, kept as a number beside the other fields
//   visit.within(name, field, l, m)   a number that is refused unless it is l to m
//   visit.unhashed(name, field)       a field that the log hash leaves out: old journals have their
//                                     digests so. A retry or an outcome that follows from it is
//                                     hashed, the field itself never
//   visit.maybe(name, field)          an optional field
//   visit.unless_zero<N>(name, field) an amount that is there only if it is not zero, which bit N
//   of
//                                     an event's head tells; last, and on its own in the hash
//   visit.part<N>(set, fields)        fields that are there only if `set`, which bit N of an
//                                     event's head tells; last, and on their own in the hash
//   visit.only_if(set, fields)        fields that are there only then; last, and on their own in
//                                     the hash
//
// Names of several are joined by commas. The order is that of the hash and of the journal's bytes:
// neither may change for a field that is there, or journals of before do not replay.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/base/units.h"

namespace lambent::dispatch {

// A field as one word; an InvocationId, which has two, and texts are none.
template <typename Tag, typename Number>
constexpr uint64_t word_of(StrongId<Tag, Number> id) {
  return id.value;
}
constexpr uint64_t word_of(Bytes amount) { return amount.count; }
constexpr uint64_t word_of(Duration duration) { return static_cast<uint64_t>(duration.count()); }
constexpr uint64_t word_of(Instant instant) { return word_of(instant.time_since_epoch()); }
constexpr uint64_t word_of(double number) { return std::bit_cast<uint64_t>(number); }
inline uint64_t word_of(const std::optional<Error>& error) {
  return error ? static_cast<uint64_t>(error->code) : 0;
}
template <typename Number>
requires std::is_integral_v<Number> || std::is_enum_v<Number>
constexpr uint64_t word_of(Number number) { return static_cast<uint64_t>(number); }

// Bools as the bits of a number, the first one lowest.
template <typename... Bools>
constexpr uint64_t bits_of(const Bools&... bools) {
  uint64_t bits = 0;
  unsigned place = 0;
  ((bits |= uint64_t{bools} << place++), ...);
  return bits;
}
// The other way round.
template <typename... Bools>
constexpr void set_bits(uint64_t bits, Bools&... bools) {
  ((bools = (bits & 1) != 0, bits >>= 1), ...);
}

}  // namespace lambent::dispatch
