// What the words of PTX mean to C++: types, modifiers, instructions, special registers. Pure;
// shared by inline PTX (inline_ptx.cc) and whole modules (ptx_function.cc).
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace lambent::bundle::ptx {

// The namespace of lambent/host/ptx.h.
inline constexpr std::string_view kSpace = "lambent::host::ptx::";

std::string trimmed(std::string_view text);
// The parts between `by`, outside of braces and brackets, without blanks around them.
std::vector<std::string> split(std::string_view text, char by);
// Without comments, and with as many lines.
std::string without_comments(std::string_view text);

// A number as C++ writes it; empty if this is none. Floats may be written by their bits, as
// `0f3F800000`.
std::string literal(std::string word);

// The types of C++ by their names, without the dot.
const std::map<std::string, std::string>& types();
// Modifiers that change nothing here: a rounding to nearest, an approximation, a cache, an order.
// Of those with `::` hints for caches only: the others name another memory or another form.
bool is_idle(const std::string& modifier);
// Instructions of ptx.h by their name and what is not idle of their modifiers: how many operands
// they have behind the first, which they write.
const std::map<std::string, size_t>& calculations();
// Whether PTX has it, known here or not: `mma` of `mma.sync.aligned`.
bool is_instruction(const std::string& name);
// Without their percent sign.
const std::set<std::string>& special_registers();
std::string with_underscores(std::string name);

}  // namespace lambent::bundle::ptx
