// How sandboxes that the program before this one kept become dispatch's: those without a GPU as
// instances of their functions that are started before any call and are ready at once, those with
// one by SandboxReady::kept_of, with their memory where it is. Used by the worker in its recovery,
// on the loop thread.
#pragma once

#include "core/base/log.h"
#include "core/domain/secret.h"
#include "decide/dispatch/dispatcher.h"
#include "node/worker/code_store.h"
#include "node/worker/deployments.h"
#include "node/worker/dispatch_driver.h"
#include "node/worker/function_registry.h"
#include "node/worker/sandbox_hand_over.h"
#include "node/worker/sandbox_host.h"
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
  SandboxHost& host;
  BackendObserver& reports;
  LogSink& log;
  bool has_links = false;  // sandboxes take turns on the links of devices
};

// Dispatch has those afterwards that fit their functions, but where it has no room for more, or its
// policy keeps no instances; all others are ended. Before any sandbox is started, which would take
// the memory of one that is there.
void adopt_sandboxes(const AdoptionUses& uses);

}  // namespace lambent::worker
