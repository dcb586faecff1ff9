// The command that starts the program of an HTTP function, as one line of text and as its words.
// Free functions; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace lambent {

// Words that are separated by blanks. In double quotes a word may have blanks or be empty; a
// backslash takes the character after it as it is. There are no variables and no shell.
// INVALID_ARGUMENT: a quote that does not end, a backslash at the end, control characters, more
// than limits::kCommandWords words.
Result<std::vector<std::string>> command_words(std::string_view text);

// The text that command_words() reads as these words.
std::string command_text(const std::vector<std::string>& words);

}  // namespace lambent
