// prospect_of: what dispatch knows of the next call of a function. A free function; loop thread.
#pragma once

#include "core/base/ids.h"
#include "decide/dispatch/dispatcher.h"
#include "decide/workflow/outlook.h"

namespace lambent::worker {

// A function that dispatch does not know, or that uses no GPU, needs no start: none is made ahead
// for it. One whose memory is on the host needs that brought in.
workflow::Prospect prospect_of(const dispatch::Dispatcher& dispatcher, FunctionId function);

}  // namespace lambent::worker
