// Where the comments, literals, words and brackets of a C++ text end. Pure; what is not closed ends
// with the text. Used by program_source.cc.
#pragma once

#include <cstddef>
#include <string_view>

namespace lambent::bundle {

bool in_word(char c);
bool is_space(char c);
bool starts(std::string_view text, size_t at, std::string_view with);

// Each says what is behind the thing that begins at `at`.
size_t end_of_comment(std::string_view text, size_t at);     // `at` if there is none
size_t end_of_literal(std::string_view text, size_t at);     // at its quote
size_t end_of_raw_string(std::string_view text, size_t at);  // at its quote, behind the R
size_t end_of_word(std::string_view text, size_t at);        // or number
size_t end_of_brackets(std::string_view text, size_t at);    // or behind a semicolon in them
size_t skip_blanks(std::string_view text, size_t at);        // and comments

// Whether the end of a line, which is at `at`, belongs to what stands before it.
bool is_continued(std::string_view text, size_t at);

}  // namespace lambent::bundle
