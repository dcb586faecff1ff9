// HostKernels: a test that runs once for the modules of each compiler that was found.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "run_kernel.h"

namespace lambent {

class HostKernels : public testing::TestWithParam<std::string> {
 protected:
  HostModule open(const std::string& name) {
    const std::string modules = LAMBENT_KERNEL_MODULES;  // the folder of the built modules
    return HostModule(modules + "/" + GetParam() + "/" + name + "/host-x86_64.so");
  }
};

inline std::string compiler_name(const testing::TestParamInfo<std::string>& info) {
  return info.param;
}

inline std::vector<std::string> compilers() {
  std::vector<std::string> names;
  std::string list = LAMBENT_KERNEL_COMPILERS;
  for (char* name = strtok(list.data(), ","); name != nullptr; name = strtok(nullptr, ",")) {
    names.emplace_back(name);
  }
  return names;
}

}  // namespace lambent
