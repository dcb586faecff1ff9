#include "decide/scheduling/sandbox.h"

namespace lambent::scheduling {

std::string_view name_of(SandboxState state) {
  switch (state) {
    case SandboxState::kPlanned:
      return "planned";
    case SandboxState::kStarting:
      return "starting";
    case SandboxState::kIdle:
      return "idle";
    case SandboxState::kBusy:
      return "busy";
    case SandboxState::kStopping:
      return "stopping";
  }
  return "stopping";
}

void Sandbox::archive(StateArchive& archive) {
  archive.field(id);
  archive.field(function);
  archive.field(revision);
  archive.field(device);
  archive.field(memory);
  archive.choice(state, SandboxState::kStopping);
  archive.choice(holds, Sandbox::Holds::kStartSlot);
  archive.field(committed);
  archive.field(memory_moves);
  archive.field(checkpoints);
  archive.choice(memory_state, MemoryState::kMovingIn);
  archive.field(deep);
  archive.field(move_failed);
  archive.field(prefetched);
  archive.field(left);
  archive.field(offloaded);
  archive.field(fetching);
  archive.field(counts.on_device);
  archive.field(counts.promised);
  archive.field(counts.leaving);
  archive.field(counts.on_host);
  archive.field(counts.without_context);
  archive.field(counts.wants_context);
  archive.field(counts.rests_outside);
  archive.field(hangs);
  archive.field(device_losses);
  archive.field(invocation);
  archive.field(has_invocation);
  archive.field(since);
  archive.field(last_used);
  archive.field(served);
  archive.field(older);
  archive.field(newer);
}

}  // namespace lambent::scheduling
