#include "node/worker/sandbox_adoption.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace lambent::worker {
namespace {

// What one with a GPU would be connected to. Only whether there are some counts: a digest leaves
// out where they are.
void name_connections(const FunctionSpec& spec, const AdoptionUses& uses, SandboxRequest& request) {
  constexpr char kSome[] = "-";
  request.ledger_path = kSome;
  request.ledgers_beside.assign(request.beside.size(), kSome);
  if (!moves_memory(uses.setting, spec, request.device, request.beside)) return;
  request.memory_path = kSome;
  if (uses.has_links) request.link_path = kSome;
}

// Of the plan that its next sandbox would be started with; none: it could not be started, or none
// of the kind is kept.
std::optional<std::string> digest_for(const FunctionSpec& spec, const AdoptionUses& uses,
                                      const std::vector<DeviceId>& devices = {}) {
  FunctionSpec resolved = spec;
  SandboxRequest request{SandboxId(), DeviceId(), uses.code.folder(spec), ""};
  if (uses.secrets != nullptr) {
    auto variables = resolve_secrets(spec.environment, [&](const std::string& name) {
      return uses.secrets->find_secret(spec.name.tenant, name);
    });
    if (!variables.ok()) return std::nullopt;
    resolved.environment = std::move(variables->variables);
    request.secret_files = std::move(variables->files);
  }
  if (!devices.empty()) {
    request.device = devices.front();
    request.beside.assign(devices.begin() + 1, devices.end());
    name_connections(spec, uses, request);
  }
  if (find_folders(uses.setting, spec, request)) return std::nullopt;
  return digest_of(plan_sandbox(uses.setting, resolved, request));
}

// Dispatch starts what a function's min_instances says, so that is raised by one after the other. A
// start that is adopted is ready while the event is handled.
void adopt_those_of(const FunctionSpec& spec, const AdoptionUses& uses) {
  const auto digest = digest_for(spec, uses);
  if (!digest) return;
  const dispatch::FunctionProfile profile = uses.deployments.profile(spec);
  dispatch::FunctionProfile wants = profile;
  size_t left = uses.hand_over.count(spec.id, *digest);
  while (left > 0) {
    const dispatch::InstanceStatus now = uses.dispatcher.instances(spec.id);
    wants.min_instances = std::max(wants.min_instances, now.ready + now.starting) + 1;
    uses.driver.handle(dispatch::FunctionRegistered{wants});
    const size_t after = uses.hand_over.count(spec.id, *digest);
    if (after == left) break;
    left = after;
  }
  // What is beyond its own number rests until its keep-alive is over.
  if (wants.min_instances != profile.min_instances) {
    uses.driver.handle(dispatch::FunctionRegistered{profile});
  }
}

// Each where it is: what it holds there is counted before anything else is placed.
void adopt_on_devices(const FunctionSpec& spec, const AdoptionUses& uses) {
  for (const std::vector<DeviceId>& devices : uses.hand_over.devices_of(spec.id)) {
    const auto digest = digest_for(spec, uses, devices);
    if (!digest) continue;
    const SandboxId id = uses.dispatcher.next_sandbox();
    const auto kept = uses.host.adopt_on_devices({.sandbox = id,
                                                  .spec = spec,
                                                  .code_folder = "",
                                                  .device = devices.front(),
                                                  .beside = {devices.begin() + 1, devices.end()}},
                                                 *digest, uses.reports);
    if (!kept || uses.driver.keep(*kept)) continue;
    const std::string why = "its device has no room for it";
    uses.log.info("sandbox_not_kept", {{"sandbox", static_cast<int64_t>(id.value)},
                                       {"tenant", int64_t{spec.name.tenant.value}},
                                       {"function", spec.name.name},
                                       {"why", why}});
    uses.host.stop(id, {ErrorCode::kCancelled, "the sandbox was stopped: " + why},
                   "Sandbox.Stopped");
  }
}

}  // namespace

void adopt_sandboxes(const AdoptionUses& uses) {
  const size_t inherited = uses.hand_over.inherited();
  if (inherited == 0) return;
  const auto has_sandboxes = [](const FunctionSpec& spec) {
    return spec.kind == FunctionKind::kHandler || spec.kind == FunctionKind::kHttp;
  };
  uses.functions.for_each([&](const FunctionSpec& spec) {
    if (has_sandboxes(spec) && spec.gpu.memory > Bytes(0)) adopt_on_devices(spec, uses);
  });
  uses.functions.for_each([&](const FunctionSpec& spec) {
    if (has_sandboxes(spec) && spec.gpu.memory == Bytes(0)) adopt_those_of(spec, uses);
  });
  const size_t ended = uses.hand_over.end_inherited();
  uses.log.info("sandboxes_kept", {{"kept", static_cast<int64_t>(inherited - ended)},
                                   {"ended", static_cast<int64_t>(ended)}});
}

}  // namespace lambent::worker
