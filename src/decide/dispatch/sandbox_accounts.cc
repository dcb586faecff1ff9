#include "decide/dispatch/sandbox_accounts.h"

#include "core/base/check.h"

namespace lambent::dispatch {

void SandboxAccounts::put(scheduling::SandboxSlot slot, uint32_t tenant,
                          scheduling::TenantMemory memory, Use use) {
  if (slot >= all_.size()) all_.resize(slot + 1);
  One& one = all_[slot];
  if (one.use == use) return;
  if (one.use == Use::kNone) {
    CHECK(tenant < tenants_.size(), "a sandbox is of a tenant that is known");
    one = {.tenant = tenant, .memory = memory};
  } else {
    tenants_.take_memory(one.tenant, one.use == Use::kAtWork, one.memory);
  }
  one.use = use;
  if (use != Use::kNone) tenants_.add_memory(one.tenant, use == Use::kAtWork, one.memory);
}

void SandboxAccounts::archive(StateArchive& archive) {
  archive.list(all_, [&](One& one) {
    archive.choice(one.use, Use::kAtWork);
    if (one.use == Use::kNone) {
      one = {};
      return;
    }
    archive.field(one.tenant);
    archive.field(one.memory.gpu);
    archive.field(one.memory.host);
    archive.expect(one.tenant < tenants_.size());
    if (!archive.reading() || !archive.ok()) return;
    tenants_.add_memory(one.tenant, one.use == Use::kAtWork, one.memory);
  });
}

}  // namespace lambent::dispatch
