// The body of a function of PTX as C++: registers are variables, labels are labels, and each
// instruction is a call of lambent/host/ptx.h or ptx_module.h. Pure; used by ptx_source.cc.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "gpu/bundle/ptx_module.h"

namespace lambent::bundle::ptx {

// What the names of a module stand for: the address of a variable or function as C++, in shared
// memory its offset.
using Symbols = std::map<std::string, std::string, std::less<>>;

// Those that a function sees, the nearest first.
struct Scope {
  std::vector<const Symbols*> symbols;

  const std::string* find(std::string_view name) const;
};

struct FunctionCode {
  std::string text;  // what stands between the braces
};

// How the lanes of a warp come to accesses of shared memory: each when it does, or all together, as
// programs expect that were written for GPUs before Volta.
enum class Lanes { kApart, kInLockstep };

// INVALID_ARGUMENT for what is no PTX and UNIMPLEMENTED for what the host cannot do, with the line
// and the instruction. `sites` counts the calls of
// activemask, and accesses in lockstep, in all functions: threads of a warp at the same one are
// together.
Result<FunctionCode> translate(const Function& function, const Scope& scope, Lanes lanes,
                               unsigned& sites);

// The name of a register, a parameter or a label as C++.
std::string cxx_name(std::string_view prefix, std::string_view name);

}  // namespace lambent::bundle::ptx
