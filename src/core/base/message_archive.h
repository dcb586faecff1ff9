// What messages between our processes need beside the fields of StateArchive: limits on what a
// process may send that is not trusted, signed numbers, and messages of several kinds. Pure
// functions; used by the codecs of messages, on any thread.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/state_archive.h"
#include "core/base/varint.h"

namespace lambent {

// Writes at most the first `most` bytes; refuses a longer text while reading.
void archive_text(StateArchive& archive, std::string& text, size_t most);

// Refuses a key that appears twice.
void archive_map(StateArchive& archive, std::map<std::string, std::string>& entries);

template <std::signed_integral T>
void archive_signed(StateArchive& archive, T& value) {
  uint64_t word = zigzag(value);
  archive.field(word);
  if (!archive.reading()) return;
  const int64_t wide = from_zigzag(word);
  archive.expect(std::in_range<T>(wide));
  if (archive.ok()) value = static_cast<T>(wide);
}

// Writes `most` for a greater number; refuses one while reading.
template <std::unsigned_integral T>
void archive_at_most(StateArchive& archive, T& value, T most) {
  T number = std::min(value, most);
  archive.field(number);
  if (!archive.reading()) return;
  archive.expect(number <= most);
  if (archive.ok()) value = number;
}

// A value that may be missing, by `element(T&)`.
template <typename T, typename Element>
void archive_optional(StateArchive& archive, std::optional<T>& value, Element element) {
  bool given = value.has_value();
  archive.field(given);
  if (archive.reading()) {
    value.reset();
    if (given && archive.ok()) value.emplace();
  }
  if (value) element(*value);
}

// A list, each of its elements by `element(T&)`. Writes at most the first `most` of them; refuses
// more while reading. The list grows only as its elements are read.
template <typename T, typename Element>
void archive_list(StateArchive& archive, std::vector<T>& values, size_t most, Element element) {
  const size_t size = archive.count(std::min(values.size(), most));
  if (!archive.reading()) {
    for (size_t i = 0; i < size; ++i) element(values[i]);
    return;
  }
  archive.expect(size <= most);
  values.clear();
  while (archive.ok() && values.size() < size) element(values.emplace_back());
}

// A message of one of several kinds: the kind's number in the variant, then the message by
// `body(Kind&)`.
template <typename... Kinds, typename Body>
void archive_kind(StateArchive& archive, std::variant<Kinds...>& message, Body body) {
  auto kind = static_cast<uint32_t>(message.index());
  archive.field(kind);
  archive.expect(kind < sizeof...(Kinds));
  if (!archive.ok()) return;
  if (archive.reading()) {
    uint32_t number = 0;
    ((number++ == kind ? static_cast<void>(message.template emplace<Kinds>()) : void()), ...);
  }
  std::visit(body, message);
}

}  // namespace lambent
