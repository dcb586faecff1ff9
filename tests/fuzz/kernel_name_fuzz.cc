// Names of kernels: the symbols of compiled modules, as they are written in C++, and what programs
// of nvcc register, as it is called in the code for the host.
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/check.h"
#include "gpu/bundle/program_kernels.h"
#include "gpu/cuda_abi/device_names.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent;
  const std::string text{reinterpret_cast<const char*>(data), size};
  const std::string symbol = text.substr(0, text.find('\0'));
  const auto expression = bundle::expression_of_symbol(symbol);
  CHECK(expression.parameters.empty() || expression.parameters.front() == '(',
        "parameters stand in parentheses");
  const std::string name = cuda_abi::name_in_host_code(text);
  CHECK(name.size() <= 2 * size + 32, "names do not grow without bound");
  return 0;
}
