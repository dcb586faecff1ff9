// Gates: what all later work of a context waits for; and what stands in the order of several
// contexts, such as a copy between two of them. Used by the API functions.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "emulator/emulated_cuda/process.h"

namespace lambent::emulated_cuda {

// All later work of the context begins after that.
void add_gate(Context& context, const CompletionPtr& end);

// Calls `submit_it`, which puts something into the legacy stream of the current context, so that it
// comes behind all that is pending in the contexts, that one included, and before whatever comes
// there later.
CUresult submit_between(Process& process, Context& current,
                        const std::vector<std::shared_ptr<Context>>& contexts,
                        const std::function<CUresult()>& submit_it);

}  // namespace lambent::emulated_cuda
