// The part of SandboxHost that keeps sandboxes for the program that the worker becomes, and goes on
// with those that the program before it kept.
#include <utility>

#include "node/worker/hosted_sandbox.h"

namespace lambent::worker {
namespace {

void go_on_with_ledgers(HostedSandbox& sandbox, std::vector<OwnedFd> ledgers) {
  for (OwnedFd& each : ledgers) {
    auto ledger = ledger::go_on_with_ledger(std::move(each), sandbox.spec.gpu.memory);
    if (!sandbox.ledger) {
      sandbox.ledger.emplace(std::move(ledger));
    } else {
      sandbox.ledgers_beside.push_back(std::move(ledger));
    }
  }
}

}  // namespace

SandboxKeeping::Host SandboxHost::keeping_uses() {
  return {
      .loop = loop_,
      .log = log_,
      .hand_over = uses_.hand_over,
      .find =
          [this](SandboxId id) {
            const auto found = sandboxes_.find(id);
            return found == sandboxes_.end() ? nullptr : found->second.get();
          },
      .read_output = [this](HostedSandbox& sandbox) { read_output(sandbox, kOutputAtEnd); },
      .finish = [this](SandboxId id,
                       const EndWords& words) { finish(id, words.error, words.type, Bytes(0)); },
      .end = [this](SandboxId id, Duration grace,
                    const EndWords& words) { end(id, grace, words.error, words.type); }};
}

// False: there is none that would be started in the same way.
bool SandboxHost::adopt(HostedSandbox& sandbox) {
  if (uses_.hand_over == nullptr) return false;
  std::vector<DeviceId> devices;
  if (sandbox.spec.gpu.memory > Bytes(0)) {
    devices = {sandbox.device};
    devices.insert(devices.end(), sandbox.beside.begin(), sandbox.beside.end());
  }
  auto kept = uses_.hand_over->take(sandbox.id, sandbox.spec.id, sandbox.plan_digest,
                                    sandbox.spec.kind != FunctionKind::kHttp, devices);
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
  go_on_with_ledgers(sandbox, std::move(kept->ledgers));
  if (kept->moves) {
    sandbox.memory = std::make_unique<MemoryChannel>(loop_, log_, std::move(*kept->moves),
                                                     on_moved_of(sandbox), on_wanted_of(sandbox));
    sandbox.memory_is_away = sandbox.memory->place().is_out;
  }
  if (kept->link.valid() && uses_.links != nullptr) {
    sandbox.link_listener = std::move(kept->link);
    serve_link(*uses_.links, sandbox);
  }
  read_ledger(sandbox);
  hear(sandbox, std::move(kept->refusals));
  if (kept->listener.valid()) {
    sandbox.session = std::make_unique<runtime_api::Session>(
        loop_,
        runtime_api::HandedOverRuntime{std::move(kept->listener), std::move(kept->waiting),
                                       std::move(kept->resting)},
        session_options(sandbox), session_callbacks(sandbox));
  } else {
    open_relay(sandbox);
  }
  return true;
}

std::optional<KeptOnDevices> SandboxHost::adopt_on_devices(BackendStart start, std::string plan,
                                                           BackendObserver& observer) {
  if (uses_.hand_over == nullptr) return std::nullopt;
  auto owned = std::make_unique<Sandbox>(observer);
  Sandbox& sandbox = *owned;
  sandbox.id = start.sandbox;
  sandbox.spec = start.spec;
  sandbox.device = start.device;
  sandbox.beside = start.beside;
  sandbox.most_response = start.extras.most_response;
  sandbox.most_in_flight = most_in_flight(start.spec, start.extras);
  sandbox.plan_digest = std::move(plan);
  sandboxes_[start.sandbox] = std::move(owned);
  if (!adopt(sandbox)) {
    sandboxes_.erase(start.sandbox);
    return std::nullopt;
  }
  KeptOnDevices kept{.sandbox = sandbox.id,
                     .function = sandbox.spec.id,
                     .devices = {sandbox.device},
                     .sandbox_time = sandbox.sandbox_time,
                     .init_time = sandbox.init_time};
  kept.devices.insert(kept.devices.end(), sandbox.beside.begin(), sandbox.beside.end());
  if (sandbox.memory == nullptr) return kept;
  const MemoryPlace place = sandbox.memory->place();
  kept.memory_is_out = place.is_out;
  kept.deep = place.deep;
  kept.left = place.left;
  kept.offloaded = place.offloaded;
  return kept;
}

}  // namespace lambent::worker
