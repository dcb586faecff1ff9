// Inline PTX of a kernel as C++ for the host: one asm statement whose text is a literal,
// instruction by instruction, through the functions of lambent/host/ptx.h. Pure. Used by
// program_source.cc.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lambent::bundle {

struct AsmStatement {
  size_t end = 0;       // behind its parentheses; 0: there is no statement that can be read
  bool is_ptx = false;  // otherwise assembly of the host
  bool is_empty = false;
  std::string code;     // a statement of C++ without its semicolon, on as many lines
  std::string refusal;  // why there is no code
};

// Of the statement whose word `asm` ends at `at`.
AsmStatement read_asm(std::string_view text, size_t at);

}  // namespace lambent::bundle
