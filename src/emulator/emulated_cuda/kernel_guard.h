// Keeps a fault in the body of a kernel from ending the program: the signal that it raises on a
// thread of the driver becomes a result. Used by the threads that run blocks.
#pragma once

#include "gpu/cuda_abi/driver_types.h"

namespace lambent::emulated_cuda {

// Once for each thread that runs blocks: lets the signals of faults through, on a stack of their
// own, so that the overflow of a kernel's stack is caught as well.
void prepare_thread_for_kernels();

// Calls body(argument). If it faults the call ends there, with the error that a GPU would report:
// the thread's stacks and the state that the module keeps for it are then beyond use, and the
// thread must run no more blocks.
CUresult run_guarded(void (*body)(void*), void* argument);

// Ends the guarded call of this thread from within with an error.
[[noreturn]] void abandon_guarded_call(CUresult error);

}  // namespace lambent::emulated_cuda
