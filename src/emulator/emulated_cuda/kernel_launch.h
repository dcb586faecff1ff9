// One launch of a kernel as a value: what is launched, its shape and its own copy of the
// parameters. Built and checked by the API functions, run by whichever thread performs it.
#pragma once

#include <memory>
#include <vector>

#include "gpu/cuda_abi/driver_types.h"
#include "gpu/cuda_abi/emulated_kernel.h"

namespace lambent::emulated_cuda {

class Process;
struct Context;
struct Function;

// A launch's own copy of its parameters; never changed once made, so that launches can share it.
struct Parameters {
  std::vector<unsigned char> bytes;
  std::vector<void*> pointers;  // into `bytes`, one for each parameter and a null
};

struct KernelLaunch {
  std::shared_ptr<Function> function;
  emulated_launch shape{};
  std::shared_ptr<const Parameters> parameters;
  int64_t ready_ns = 0;   // when the overhead of the launch itself is over
  uint64_t sequence = 0;  // order among launches that may begin at the same instant
  int priority = 0;       // of the stream that it is launched into
  bool cooperative = false;
  std::vector<CUlaunchAttribute> attributes;  // those that were given, to be asked for
};

// Launch attributes: those that change something here are honoured, those that are hints are kept,
// the rest is refused.
CUresult set_attribute(KernelLaunch& launch, CUlaunchAttributeID id,
                       const CUlaunchAttributeValue& value);
CUresult get_attribute(const KernelLaunch& launch, CUlaunchAttributeID id,
                       CUlaunchAttributeValue* value);

// Copies parameters given as an array of pointers or packed in one buffer (`extra`).
CUresult copy_parameters(const emulated_kernel& kernel, void** given, void** extra,
                         std::shared_ptr<const Parameters>* parameters);

// Whether the device of the context can run a launch of this shape.
CUresult check_launch(const Process& process, const Context& context, const Function& function,
                      const emulated_launch& shape);

// Whether all blocks of a cooperative launch can be resident, and run, at a time.
CUresult check_cooperative(const Process& process, const Context& context, const Function& function,
                           const emulated_launch& shape);

// Runs the launch, which may begin at `begin_ns`, and returns when it ended.
int64_t perform(Process& process, Context& context, const KernelLaunch& launch, int64_t begin_ns);

}  // namespace lambent::emulated_cuda
