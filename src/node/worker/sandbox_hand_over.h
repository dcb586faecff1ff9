// SandboxHandOver: the sandboxes that a worker leaves to the program that it becomes, and those
// that the program before it left. Made by main, used by SandboxHost and the worker on the loop
// thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/fd.h"
#include "core/base/ids.h"
#include "node/sandbox/launcher.h"
#include "node/sandbox/plan.h"
#include "node/worker/kept_sandboxes.h"
#include "node/worker/memory_channel.h"

namespace lambent::worker {

// Of a plan, whatever the sandbox's number is, and where on the host what is its own lies: the same
// if it would be started in the same way.
std::string digest_of(sandbox::LaunchPlan plan);

class SandboxHandOver {
 public:
  // `inherited`: what the program before this one left, whose launchers `launcher` was given.
  SandboxHandOver(sandbox::Launcher& launcher, KeptSandboxes inherited)
      : launcher_(launcher), inherited_(std::move(inherited)) {}
  SandboxHandOver(const SandboxHandOver&) = delete;
  SandboxHandOver& operator=(const SandboxHandOver&) = delete;

  // ---- From the program before

  // One that fits, with its descriptors.
  struct Inherited {
    KeptSandbox sandbox;
    OwnedFd listener, output, refusals;
    std::vector<OwnedFd> waiting, resting, memory;
    // Of one with a GPU.
    std::vector<OwnedFd> ledgers;
    std::optional<HandedOverMemory> moves;  // none: its memory stays where it is
    OwnedFd link;
  };

  size_t inherited() const { return inherited_.record.sandboxes.size(); }
  // How many are of the function, without a GPU, and were started with this plan.
  size_t count(FunctionId function, const std::string& plan) const;
  // The devices of each with GPUs that is of the function, in the order in which they were kept.
  std::vector<std::vector<DeviceId>> devices_of(FunctionId function) const;
  // Takes one on these devices (none: without a GPU), which is `sandbox` from now on; none: there
  // is none that lives.
  std::optional<Inherited> take(SandboxId sandbox, FunctionId function, const std::string& plan,
                                bool has_runtime_api, const std::vector<DeviceId>& devices);
  // Ends those that were not taken; how many.
  size_t end_inherited();

  // ---- To the next program

  // From now on idle sandboxes that can be kept are.
  void begin() { begun_ = true; }
  bool begun() const { return begun_; }
  // None for a descriptor that is not valid.
  std::optional<DescriptorNumber> add(OwnedFd descriptor);
  std::vector<DescriptorNumber> add(std::vector<OwnedFd> descriptors);
  void keep(SandboxId sandbox, KeptSandbox kept) { kept_.push_back({sandbox, std::move(kept)}); }
  // What was kept and lives, with the launchers that have it; all other sandboxes are ended.
  // Nothing may be started afterwards.
  KeptSandboxes finish();

 private:
  struct Kept {
    SandboxId sandbox;
    KeptSandbox kept;
  };

  void take_gpu(Inherited& taken);

  sandbox::Launcher& launcher_;
  KeptSandboxes inherited_;
  bool begun_ = false;
  std::vector<Kept> kept_;
  std::vector<OwnedFd> descriptors_;  // of these
};

}  // namespace lambent::worker
