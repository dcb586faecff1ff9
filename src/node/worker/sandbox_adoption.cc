#include "node/worker/sandbox_adoption.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace lambent::worker {
namespace {

// Of the plan that its next sandbox would be started with; none: it could not be started, or none
// of the kind is kept.
std::optional<std::string> digest_for(const FunctionSpec& spec, const AdoptionUses& uses) {
  FunctionSpec resolved = spec;
  if (uses.secrets != nullptr) {
    auto variables = resolve_secrets(spec.environment, [&](const std::string& name) {
      return uses.secrets->find_secret(spec.name.tenant, name);
    });
    if (!variables.ok() || !variables->files.empty()) return std::nullopt;
    resolved.environment = std::move(variables->variables);
  }
  SandboxRequest request{SandboxId(), DeviceId(), uses.code.folder(spec), ""};
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

}  // namespace

void adopt_sandboxes(const AdoptionUses& uses) {
  const size_t inherited = uses.hand_over.inherited();
  if (inherited > 0) {
    uses.functions.for_each([&](const FunctionSpec& spec) {
      const bool has_sandboxes =
          spec.kind == FunctionKind::kHandler || spec.kind == FunctionKind::kHttp;
      if (uses.hand_over.inherited() == 0 || !has_sandboxes) return;
      if (spec.gpu.memory == Bytes(0)) adopt_those_of(spec, uses);
    });
  }
  const size_t ended = uses.hand_over.end_inherited();
  if (inherited == 0) return;
  uses.log.info("sandboxes_kept", {{"kept", static_cast<int64_t>(inherited - ended)},
                                   {"ended", static_cast<int64_t>(ended)}});
}

}  // namespace lambent::worker
