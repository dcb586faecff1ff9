#include "decide/dispatch/tenant_room.h"

#include <vector>

#include "decide/scheduling/eviction.h"
#include "decide/scheduling/place_victims.h"

namespace lambent::dispatch {

using scheduling::Sandbox;
using scheduling::SandboxSlot;
using scheduling::SandboxState;

void TenantRoom::make_room(uint32_t tenant, scheduling::TenantMemory more) {
  for (;;) {
    const scheduling::Tenants::Crowded crowded = tenants_.crowded(tenant, more);
    if (!crowded.gpu && !crowded.host) return;
    const auto victim = victim_of(tenant, crowded.gpu);
    if (!victim) return;
    victim->pool.evict(victim->slot);
  }
}

bool TenantRoom::make_room_beside_kept(uint32_t tenant, scheduling::TenantMemory more) {
  for (;;) {
    if (!tenants_.exceeds_memory(tenant, more)) return true;
    const scheduling::Tenants::Crowded crowded = tenants_.crowded(tenant, more);
    const auto victim = victim_of(tenant, crowded.gpu);
    if (!victim) return false;
    const FunctionId function = victim->pool.fleet().sandbox(victim->slot).function;
    const scheduling::Flow& flow = flows_[function.value];
    if (flow.pending > 0 || is_kept(victim->pool.fleet(), flow, function)) return false;
    victim->pool.evict(victim->slot);
  }
}

void TenantRoom::settle() {
  if (!tenants_.limit_memory()) return;
  for (uint32_t tenant = 0; tenant < tenants_.size(); ++tenant) make_room(tenant, {});
}

std::optional<TenantRoom::Victim> TenantRoom::victim_of(uint32_t tenant, bool on_gpus_only) const {
  std::vector<Victim> idle;
  std::vector<scheduling::EvictionCandidate> candidates;
  for (DevicePool* pool : pools_.all()) {
    if (on_gpus_only && pool->is_host()) continue;
    for (const SandboxSlot slot : pool->fleet().all()) {
      const Sandbox& sandbox = pool->fleet().sandbox(slot);
      const scheduling::Flow& flow = flows_[sandbox.function.value];
      if (sandbox.state != SandboxState::kIdle || flow.tenant_slot != tenant) continue;
      candidates.push_back({.slot = static_cast<uint32_t>(idle.size()),
                            .last_used = sandbox.last_used,
                            .flow = &flow,
                            .cpu_variant = pool->is_host() && flow.device_memory > Bytes(0),
                            .kept = is_kept(pool->fleet(), flow, sandbox.function)});
      idle.push_back({*pool, slot});
    }
  }
  if (idle.empty()) return std::nullopt;
  const scheduling::FleetOptions& fleet = options_.fleet;
  return idle[choose_victim(fleet.eviction, fleet.guesses, candidates, log_.now())];
}

}  // namespace lambent::dispatch
