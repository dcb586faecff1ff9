// SharedEvent: an event of a process, shared between its handle and the graphs that have it in a
// node: a program may destroy the handle first. Of the process's thread.
#pragma once

#include <memory>

#include "gpu/cuda/driver.h"
#include "gpu/forward_server/client_quotas.h"

namespace lambent::forward_server {

using SharedEvent = std::shared_ptr<CUevent_st>;

CUresult make_event(const cuda::Driver& driver, unsigned flags, SharedEvent* event);
// Its handle is destroyed: if graphs still have the event, it counts against the quota until the
// last of them releases it.
void keep_counted(const SharedEvent& event, Quota& quota);

}  // namespace lambent::forward_server
