// How far words are apart, and the closest of a few known ones: "did you mean ...?". Pure
// functions; any room, any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace lambent {

// Insertions, deletions, changes and swaps of neighbours that turn one word into the other.
size_t edit_distance(std::string_view a, std::string_view b);

// Nothing if no known word is within a third of its length (at least one edit) of `word`.
std::optional<std::string_view> closest_word(std::string_view word,
                                             std::span<const std::string_view> known);

}  // namespace lambent
