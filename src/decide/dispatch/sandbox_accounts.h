// SandboxAccounts: what each sandbox of a pool counts for in the account of its tenant. Owned by
// DevicePool, on the thread that handles events.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/state_archive.h"
#include "decide/scheduling/sandbox.h"
#include "decide/scheduling/tenants.h"

namespace lambent::dispatch {

class SandboxAccounts {
 public:
  enum class Use : uint8_t {
    kNone,  // it is being stopped, or gone
    kIdle,
    kAtWork,  // it waits to start, starts or runs; or it was told to stop and does not
  };

  explicit SandboxAccounts(scheduling::Tenants& tenants) : tenants_(tenants) {}

  // A sandbox keeps the tenant and the memory that it had when it counted first.
  void put(scheduling::SandboxSlot slot, uint32_t tenant, scheduling::TenantMemory memory, Use use);

  // Reading counts what was written, in the accounts of tenants that were read before.
  void archive(StateArchive& archive);

 private:
  struct One {
    Use use = Use::kNone;
    uint32_t tenant = 0;
    scheduling::TenantMemory memory;
  };

  scheduling::Tenants& tenants_;
  std::vector<One> all_;  // by slot
};

}  // namespace lambent::dispatch
