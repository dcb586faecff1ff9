// How the installed toolkit's cuda.h declares the gated functions; nothing where there is no
// toolkit. For gated_functions_test.cc, apart from it since cuda.h and cuda_abi name the same
// things.
#include <map>
#include <string>

#include "gpu/shim/testing/signature.h"

#define __CUDA_API_VERSION_INTERNAL  // the old versions of functions too
#if __has_include(<cuda.h>)
#include <cuda.h>
#elif __has_include("/usr/local/cuda/include/cuda.h")
#include "/usr/local/cuda/include/cuda.h"
#endif

std::map<std::string, std::string> toolkit_signatures() {
  std::map<std::string, std::string> signatures;
#if defined(CUDA_VERSION) && CUDA_VERSION == 13000
#define GATED(name, ...) \
  signatures[#name] = lambent::shim::signature_of(static_cast<decltype(&name)>(nullptr));
#include "driver_gated.inc"
#undef GATED
#endif
  return signatures;
}
