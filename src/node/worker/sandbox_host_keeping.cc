// The part of SandboxHost that keeps sandboxes for the program that the worker becomes, and goes on
// with those that the program before it kept.
#include <utility>

#include "node/worker/hosted_sandbox.h"

namespace lambent::worker {

bool SandboxHost::keep(HostedSandbox& sandbox, const Error& error, const std::string& error_type) {
  const bool rests = sandbox.initialised && !sandbox.end_words && sandbox.in_flight.empty();
  const bool stays = rests && !sandbox.plan_digest.empty();
  std::optional<runtime_api::HandedOverRuntime> runtime;
  if (stays && sandbox.session) runtime = sandbox.session->hand_over();
  if (!stays || !(runtime || (sandbox.relay && sandbox.relay->rests()))) {
    log_.info("sandbox_not_kept", {{"sandbox", static_cast<int64_t>(sandbox.id.value)},
                                   {"tenant", int64_t{sandbox.spec.name.tenant.value}},
                                   {"function", sandbox.spec.name.name}});
    return false;
  }
  read_output(sandbox, kOutputAtEnd);
  SandboxHandOver& next = *uses_.hand_over;
  KeptSandbox kept{.function = sandbox.spec.id,
                   .plan = sandbox.plan_digest,
                   .pid = sandbox.pid,
                   .age = loop_.clock().now() - sandbox.requested_at,
                   .sandbox_time = sandbox.sandbox_time,
                   .init_time = sandbox.init_time,
                   .invocations = sandbox.invocations};
  if (runtime) {
    kept.listener = next.add(std::move(runtime->listener));
    kept.waiting = next.add(std::move(runtime->waiting));
    kept.resting = next.add(std::move(runtime->resting));
  }
  sandbox.output_watch.reset();
  kept.output = next.add(std::move(sandbox.output));
  if (sandbox.refusals) kept.refusals = next.add(sandbox.refusals->release());
  sandbox.refusals.reset();
  kept.memory = next.add(std::move(sandbox.host_memory).release());
  next.keep(sandbox.id, std::move(kept));
  sandbox.end_words = EndWords{error, error_type};
  sandbox.relay.reset();
  // The caller is in the middle of handling an event.
  loop_.call_after(Duration(0), [this, id = sandbox.id, error, error_type] {
    finish(id, error, error_type, Bytes(0));
  });
  return true;
}

// False: there is none that would be started in the same way.
bool SandboxHost::adopt(HostedSandbox& sandbox) {
  if (uses_.hand_over == nullptr) return false;
  auto kept = uses_.hand_over->take(sandbox.id, sandbox.spec.id, sandbox.plan_digest,
                                    sandbox.spec.kind != FunctionKind::kHttp);
  if (!kept) return false;
  sandbox.pid = kept->sandbox.pid;
  sandbox.requested_at = loop_.clock().now() - kept->sandbox.age;
  sandbox.executed_at = sandbox.requested_at + kept->sandbox.sandbox_time;
  sandbox.executed = true;
  sandbox.initialised = true;
  sandbox.warm_up = HostedSandbox::WarmUp::kDone;
  sandbox.sandbox_time = kept->sandbox.sandbox_time;
  sandbox.init_time = kept->sandbox.init_time;
  sandbox.invocations = kept->sandbox.invocations;
  sandbox.output = std::move(kept->output);
  kept->memory.resize(2);
  sandbox.host_memory =
      sandbox::MemoryMeter(std::move(kept->memory[0]), std::move(kept->memory[1]));
  hear(sandbox, std::move(kept->refusals));
  if (kept->waiting.valid()) {
    sandbox.session = std::make_unique<runtime_api::Session>(
        loop_,
        runtime_api::HandedOverRuntime{std::move(kept->listener), std::move(kept->waiting),
                                       std::move(kept->resting)},
        session_options(sandbox), session_callbacks(sandbox));
  } else {
    open_relay(sandbox);
  }
  sandbox.observer.on_adopted(sandbox.id, sandbox.sandbox_time, sandbox.init_time);
  return true;
}

}  // namespace lambent::worker
