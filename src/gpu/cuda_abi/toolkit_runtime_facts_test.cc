// The facts as the installed toolkit's cuda_runtime_api.h states them; none where there is no
// toolkit.
#include <cstddef>
#include <vector>

#if __has_include(<cuda_runtime_api.h>)
#include <cuda_runtime_api.h>
#define TOOLKIT 1
#elif __has_include("/usr/local/cuda/include/cuda_runtime_api.h")
#include "/usr/local/cuda/include/cuda_runtime_api.h"
#define TOOLKIT 1
#endif

std::vector<long long> toolkit_runtime_facts() {
  std::vector<long long> facts;
#if defined(TOOLKIT) && CUDART_VERSION == 13000
#define FACT(expression) facts.push_back(static_cast<long long>(expression));
#include "gpu/cuda_abi/runtime_facts.inc"
#endif
  return facts;
}
