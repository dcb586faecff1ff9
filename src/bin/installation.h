// Where the pieces of an installation lie, relative to the running program: bin/, lib/ and share/
// side by side, in a build folder and in an unpacked package alike. Used by the mains.
#pragma once

#include <string>

#include "core/base/result.h"

namespace lambent {

struct Installation {
  std::string prefix;

  std::string program(const std::string& name) const { return prefix + "/bin/" + name; }
  std::string emulated_driver() const { return prefix + "/lib/emulated"; }
  std::string emulated_runtime() const { return prefix + "/lib/emulated_runtime"; }
  std::string shim() const { return prefix + "/lib/shim"; }
  std::string forwarded_driver() const { return prefix + "/lib/forward"; }
  std::string kernels() const { return prefix + "/share/lambent/kernels"; }
  std::string python() const { return prefix + "/share/lambent/python"; }
};

// From /proc/self/exe.
Result<Installation> find_installation();

}  // namespace lambent
