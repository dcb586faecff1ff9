// What every file of API functions begins with: their prototypes and a few short-cuts. A function
// defined after this header is named emulated_NAME; the exported NAME is a generated stub before
// it.
#pragma once

#include "entry_names.h"

#pragma GCC visibility push(default)
#include "gpu/cuda_abi/driver.h"
#pragma GCC visibility pop

#include "emulator/emulated_cuda/operations.h"
#include "emulator/emulated_cuda/process.h"

// Declares `process`, or returns the reason why there is none.
#define WITH_PROCESS()                                  \
  ::lambent::emulated_cuda::Process* process = nullptr; \
  if (CUresult result_ = ::lambent::emulated_cuda::Process::get(&process)) return result_

// Declares `process` and `context`, the one current to this thread.
#define WITH_CONTEXT()                                        \
  ::lambent::emulated_cuda::Process* process = nullptr;       \
  std::shared_ptr<::lambent::emulated_cuda::Context> context; \
  if (CUresult result_ = ::lambent::emulated_cuda::current(&process, &context)) return result_

// The same and `stream`, resolved from a handle.
#define WITH_STREAM(handle)                                                              \
  WITH_CONTEXT();                                                                        \
  std::shared_ptr<::lambent::emulated_cuda::Stream> stream;                              \
  if (CUresult result_ =                                                                 \
          ::lambent::emulated_cuda::resolve_stream(*process, handle, &context, &stream)) \
  return result_
