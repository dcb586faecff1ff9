// The facts as the installed toolkit's cuda.h states them; none where there is no toolkit.
#include <cstddef>
#include <vector>

#if __has_include(<cuda.h>)
#include <cuda.h>
#define TOOLKIT 1
#elif __has_include("/usr/local/cuda/include/cuda.h")
#include "/usr/local/cuda/include/cuda.h"
#define TOOLKIT 1
#endif

std::vector<long long> toolkit_facts() {
  std::vector<long long> facts;
#if defined(TOOLKIT) && CUDA_VERSION == 13000
#define FACT(expression) facts.push_back(static_cast<long long>(expression));
#include "gpu/cuda_abi/driver_facts.inc"
#endif
  return facts;
}
