// PTX that the cases make while they run. A GPU's driver compiles it; so does the emulated one.
#pragma once

#include <string>

namespace lambent::conformance {

inline std::string ptx_module(const std::string& text) {
  return ".version 7.0\n.target sm_70\n.address_size 64\n" + text;
}

// `name` stores `value` at the address that it is given.
inline std::string ptx_storing(const std::string& name, int value) {
  return ptx_module(".visible .entry " + name + "(.param .u64 out)\n{\n.reg .b64 %rd<2>;\n" +
                    "ld.param.u64 %rd1, [out];\nst.global.u32 [%rd1], " + std::to_string(value) +
                    ";\nret;\n}\n");
}

}  // namespace lambent::conformance
