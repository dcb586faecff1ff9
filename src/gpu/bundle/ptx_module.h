// A module of PTX, taken apart: its variables, its functions and their statements. Pure; what the
// statements mean is ptx_function.cc's. Used by ptx_source.cc.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace lambent::bundle::ptx {

struct Parameter {
  std::string name;
  std::string type;    // as C++ has it, of one element
  uint64_t count = 0;  // elements of an array; 0: no array
  uint64_t alignment = 1;

  uint64_t bytes() const;
};

// Who sees a name: its own module, or all modules; of those that are weak one is kept.
enum class Linkage { kModule, kVisible, kWeak, kExternal };

enum class Space { kGlobal, kConstant, kShared, kLocal };

inline constexpr size_t kNowhere = static_cast<size_t>(-1);

struct Variable {
  Parameter shape;
  Space space = Space::kGlobal;
  Linkage linkage = Linkage::kModule;
  size_t module = 0;           // of those that were read
  size_t function = kNowhere;  // in whose body it stands, by its place in Module::functions
  bool is_managed = false;
  std::string initial;  // what stands behind the equals sign
};

struct Statement {
  enum class Kind { kInstruction, kLabel, kOpen, kClose };
  Kind kind = Kind::kInstruction;
  std::string text;  // of a label its name
  size_t line = 0;   // of its module, from 1
};

struct Function {
  std::string name;
  Linkage linkage = Linkage::kModule;
  size_t module = 0;
  bool is_entry = false;
  bool has_body = false;
  uint64_t most_threads = 0;  // of a block, by .maxntid or .reqntid; 0: it does not say
  std::vector<Parameter> results;
  std::vector<Parameter> parameters;
  std::vector<Statement> body;
};

struct Module {
  bool has_version = false, has_target = false;  // the last that was read
  unsigned target = 0;                           // 75 for sm_75; the newest of those read
  size_t modules = 0;                            // that were read
  std::vector<Variable> variables;
  std::vector<Function> functions;
};

// Adds what `text` holds. INVALID_ARGUMENT, with its line and beginning, for what cannot be read.
Result<void> read_module(std::string_view text, Module& module);

// `.align 8 .b8 name[24]`, behind the words that say which kind of variable it is.
Result<Parameter> read_declaration(const std::string& text);

}  // namespace lambent::bundle::ptx
