// Functions: the kernels that one process has found in its modules: their handles, what it asks
// about them, and their launches. A resource of the process's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "gpu/cuda/driver.h"
#include "gpu/forward_ring/calls.h"
#include "gpu/forward_ring/layout.h"
#include "gpu/forward_server/answers.h"
#include "gpu/forward_server/client_memory.h"
#include "gpu/forward_server/handles.h"
#include "gpu/forward_server/streams.h"

namespace lambent::forward_server {

// Shared by a function and all the nodes that run it.
using ParameterPlaces = std::shared_ptr<const std::vector<forward_ring::ParameterPlace>>;

struct Function {
  CUfunction function = nullptr;
  uint64_t module = 0;
  ParameterPlaces parameters;
  uint64_t parameter_bytes = 0;
};

class Functions {
 public:
  using Call = forward_ring::Call;

  // All outlive it.
  Functions(const cuda::Driver& driver, ClientMemory& memory, forward_ring::SharedPages& pages,
            Streams& streams, Answers& answers)
      : driver_(driver), memory_(memory), pages_(pages), streams_(streams), answers_(answers) {}
  Functions(const Functions&) = delete;
  Functions& operator=(const Functions&) = delete;

  // False if the call is not one about a function. `data` came behind the call.
  bool handle(const Call& call, std::span<char> data);

  // A function of this module; what is known of it counts against the client's host memory.
  CUresult add(uint64_t module, CUfunction function, uint64_t* number);
  void erase(uint64_t number);
  // Null if there is none of this number.
  const Function* find(uint64_t number) { return table_.find(number); }

 private:
  // What the driver says of its parameters.
  CUresult read_parameters(Function* function) const;
  void name(const Call& call);
  void parameters(const Call& call);
  // Of a call that asks the driver about a function: its result, and what else is answered.
  CUresult ask(const Call& call, uint64_t* value);
  CUresult launch(const Call& call, std::span<char> parameters);

  const cuda::Driver& driver_;
  ClientMemory& memory_;
  forward_ring::SharedPages& pages_;
  Streams& streams_;
  Answers& answers_;
  HandleTable<Function> table_{&memory_.quotas.functions};
  std::vector<void*> pointers_;  // of the launch that is made
};

}  // namespace lambent::forward_server
