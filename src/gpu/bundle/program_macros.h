// The macros of a program whose files are compiled as one: which of them end with their file, and
// which cannot, since files share the header that they are in or that they are meant for. Pure.
// Used by program_files.cc.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/base/result.h"

namespace lambent::bundle {

struct MacroEvent {
  enum Kind { kUsed, kDefined, kIncluded };  // a word, seen first; a macro; a header's path
  Kind kind;
  std::string name;
  std::string definition;
};

struct MacrosOfFile {
  std::vector<MacroEvent> events;  // in the order of the text
  bool is_guarded = false;         // read once, however often it is included
};

// For each of `files` the macros that are defined by it and by headers that no other file includes.
// INVALID_ARGUMENT, with the macro and both files, where a file would see what another defines.
Result<std::vector<std::set<std::string>>> macros_of_each(
    const std::vector<std::string>& files, const std::map<std::string, MacrosOfFile>& macros);

}  // namespace lambent::bundle
