// Which version of the PTX language a program of it needs: compilers state their own, and drivers
// refuse any that is newer than theirs, whatever the program uses. Pure.
#pragma once

#include <string>

namespace lambent::bundle {

// The program with `.version 7.0`, which drivers from 450 on take, if all words in it are known to
// be of that version; else as it is. What the compiler knew for its target stays valid: features
// of later GPUs have words of their own.
std::string with_least_version(std::string ptx);

}  // namespace lambent::bundle
