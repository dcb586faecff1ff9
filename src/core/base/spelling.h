// How far words are apart, the closest of a few known ones, and what an error says of it: "did you
// mean ...?". Pure functions; any module, any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lambent {

// Insertions, deletions, changes and swaps of neighbours that turn one word into the other.
size_t edit_distance(std::string_view a, std::string_view b);

// Nothing if no known word is within a third of its length (at least one edit) of `word`.
std::optional<std::string_view> closest_word(std::string_view word,
                                             std::span<const std::string_view> known);

// How a suggestion begins, at the end of an error's message.
inline constexpr std::string_view kSuggests = "; did you mean ";
// "; did you mean 'x'?", or nothing if no word was meant. `prefix` is what users write before it.
std::string suggestion(std::optional<std::string_view> meant, std::string_view prefix = "");
// Suggests the closest word.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> known,
                         std::string_view prefix = "");
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known,
                         std::string_view prefix = "");

}  // namespace lambent
