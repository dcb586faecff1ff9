// How sandboxes that the program before this one kept become dispatch's: as instances of their
// functions that are started before any call and are ready at once. Used by the worker in its
// recovery, on the loop thread.
#pragma once

#include "core/base/log.h"
#include "core/domain/secret.h"
#include "decide/dispatch/dispatcher.h"
#include "node/worker/code_store.h"
#include "node/worker/deployments.h"
#include "node/worker/dispatch_driver.h"
#include "node/worker/function_registry.h"
#include "node/worker/sandbox_hand_over.h"
#include "node/worker/sandbox_plan.h"

namespace lambent::worker {

struct AdoptionUses {
  SandboxHandOver& hand_over;
  const SandboxSetting& setting;
  const SecretService* secrets;  // null: functions refer to none
  const FunctionRegistry& functions;
  const CodeStore& code;
  const Deployments& deployments;
  const dispatch::Dispatcher& dispatcher;
  DispatchDriver& driver;
  LogSink& log;
};

// Dispatch has those afterwards that fit their functions, but where it has no room for more, or its
// policy keeps no instances; all others are ended.
void adopt_sandboxes(const AdoptionUses& uses);

}  // namespace lambent::worker
