// The closest of a few known words to one that is not known: "did you mean ...?". Pure.
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace lambent::cli {

// Nothing if no word is within a third of its length (at least one change) of `word`.
std::optional<std::string_view> closest_word(std::string_view word,
                                             std::span<const std::string_view> known);

}  // namespace lambent::cli
