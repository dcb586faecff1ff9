// The forms of functions for programs compiled with a default stream for each thread, where what is
// said of the default stream is meant for the thread's own. For the api_variants files.
#pragma once

#include "emulator/emulated_runtime/api.h"

namespace lambent::emulated_runtime {

inline cudaStream_t own(cudaStream_t stream) { return stream ? stream : CU_STREAM_PER_THREAD; }

}  // namespace lambent::emulated_runtime

// STREAM_LAST((parameters before the stream), (their names)): name##_ptsz from name.
#define UNPACK(...) __VA_ARGS__
#define STREAM_LAST(name, parameters, names)                        \
  RUNTIME_API name(UNPACK parameters, cudaStream_t stream);         \
  RUNTIME_API name##_ptsz(UNPACK parameters, cudaStream_t stream) { \
    return name(UNPACK names, own(stream));                         \
  }
#define STREAM_FIRST(name, parameters, names)                       \
  RUNTIME_API name(cudaStream_t stream, UNPACK parameters);         \
  RUNTIME_API name##_ptsz(cudaStream_t stream, UNPACK parameters) { \
    return name(own(stream), UNPACK names);                         \
  }
#define STREAM_ONLY(name)                \
  RUNTIME_API name(cudaStream_t stream); \
  RUNTIME_API name##_ptsz(cudaStream_t stream) { return name(own(stream)); }
