// Our declarations against those of the toolkit's header, compiled only: where there is no toolkit,
// there is nothing to hold them against.
#if __has_include("/usr/local/cuda/include/cublas_v2.h")
#include <type_traits>

#include "/usr/local/cuda/include/cublas_v2.h"

namespace lambent::cublas {
namespace {

// Our own words for its types, which cannot be had in one file with those of the toolkit.
using RawHandle = struct RawContext*;
using CUstream = cudaStream_t;
struct Complex {
  float real, imaginary;
};
struct Functions {
#define CUBLAS_FUNCTION(name, symbol, parameters) int(*name) parameters = nullptr;
#include "gpu/cublas/functions.inc"
#undef CUBLAS_FUNCTION
};

// As it is passed: enumerations as integers of their size, pointers by the size of what they point
// to.
template <typename T>
struct Passed {
  using type = T;
};
template <typename T>
requires std::is_enum_v<T>
struct Passed<T> {
  static_assert(sizeof(T) == sizeof(int));
  using type = int;
};
template <typename T>
concept Complete = requires {
  sizeof(T);
};
template <size_t size>
struct PointerTo {};
template <typename T>
struct Passed<T*> {
  static constexpr size_t size() {
    if constexpr (Complete<T>) {
      return sizeof(T);
    } else {
      return 0;
    }
  }
  using type = PointerTo<size()>;
};

template <typename Function>
struct Signature;
template <typename R, typename... Arguments>
struct Signature<R (*)(Arguments...)> {
  using type = typename Passed<R>::type (*)(typename Passed<Arguments>::type...);
};
template <typename One, typename Other>
constexpr bool kSame =
    std::is_same_v<typename Signature<One>::type, typename Signature<Other>::type>;

#define CUBLAS_FUNCTION(name, symbol, parameters) \
  static_assert(kSame<decltype(Functions::name), decltype(&::symbol)>, #symbol);
#include "gpu/cublas/functions.inc"
#undef CUBLAS_FUNCTION
#define CUBLAS_STATUS(name, symbol, value, was_refused) static_assert(symbol == value);
#include "gpu/cublas/statuses.inc"
#undef CUBLAS_STATUS
static_assert(CUBLAS_OP_N == 0 && CUBLAS_OP_T == 1 && CUBLAS_OP_C == 2);
static_assert(CUBLAS_POINTER_MODE_HOST == 0 && CUBLAS_ATOMICS_NOT_ALLOWED == 0);
static_assert(CUBLAS_DEFAULT_MATH == 0);

}  // namespace
}  // namespace lambent::cublas
#endif
