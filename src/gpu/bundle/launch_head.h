// Where the expression begins that a launch of a kernel launches. Pure. Used by program_source.cc.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "gpu/bundle/source_text.h"

namespace lambent::bundle {

// A word, a literal's quote or one character of a statement or a directive.
struct Token {
  size_t at, length;  // in the text that was written so far
  char first;
  bool is_word() const { return in_word(first); }
  std::string_view of(std::string_view text) const { return text.substr(at, length); }
};

// Where in `text`, whose last statement or directive has these tokens, the kernel begins whose
// `<<<` comes next: `a::k<T, (n > 1)>`, `k_##T`, `kernels[i]`, `(*k)`. npos if there is none.
size_t head_of_launch(std::span<const Token> tokens, std::string_view text, bool in_directive);

}  // namespace lambent::bundle
