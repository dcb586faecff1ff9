// The process's connection to the executor: one, made by the first cuInit, its own after a fork.
// Any thread; throws nothing, and says nothing but in the results of CUDA.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/cuda_abi/driver_types.h"
#include "gpu/forward_ring/calls.h"
#include "gpu/forward_ring/greeting.h"

namespace lambent::forward_client {

using forward_ring::Call;
using forward_ring::CallCode;

// Connects if that has not been done. NO_DEVICE if there is no executor to connect to.
CUresult connect_once();
// SUCCESS while connected; NOT_INITIALIZED before, what broke the context or DEVICE_UNAVAILABLE
// after.
CUresult connection_state();
// Counts connections of this process and of those that it was forked from: what was learnt in
// another is void.
uint32_t connection_number();
// What is called between these two, on this thread, may not call the driver: NOT_PERMITTED.
void enter_host_function();
void leave_host_function();
// Set while connected.
const forward_ring::Welcome& device();

// More data of a call, in a second part.
struct Data {
  const void* bytes = nullptr;
  size_t size = 0;
  const void* more = nullptr;
  size_t more_size = 0;
};

Call make_call(CallCode code, uint64_t a0 = 0, uint64_t a1 = 0, uint64_t a2 = 0, uint64_t a3 = 0,
               uint64_t a4 = 0, uint64_t a5 = 0, uint64_t a6 = 0);
// A call that is not answered: SUCCESS means that it is on its way.
CUresult send(const Call& call, const Data& data = {});
// A call that is answered in a slot; as many values as there is room for.
CUresult ask(Call call, uint64_t* values = nullptr, size_t count = 0, const Data& data = {});

// A chunk of the shared memory, the caller's until it is given on or back.
struct Chunk {
  uint32_t number = 0;
  char* bytes = nullptr;
};
CUresult take_chunk(Chunk* chunk);
// Sends a call that names the chunk, which is the executor's from then on.
CUresult send_with_chunk(const Call& call, const Chunk& chunk);
// The same, and waits until the executor has done with it: it is the caller's again. `code` and
// slot as in ask().
CUresult ask_with_chunk(const Call& call, const Chunk& chunk, uint64_t* values = nullptr,
                        size_t count = 0);
void give_back(const Chunk& chunk);

}  // namespace lambent::forward_client
