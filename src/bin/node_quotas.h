// NodeQuotas: each second the part of every tenant's quotas that this node has, of what the nodes
// of its cluster say that they use. Owned by NodeCluster; loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/domain/access_service.h"
#include "core/loop/event_loop.h"
#include "node/cluster/tenant_shares.h"
#include "node/tenants/access_control.h"
#include "node/worker/worker.h"

namespace lambent {

class NodeQuotas {
 public:
  // What other nodes said last, in the order of their names; null: that node does not answer.
  struct Told {
    std::vector<const std::vector<cluster::TenantUse>*> nodes;
    size_t position = 0;  // of this node among those that answer
  };
  // All outlive it.
  struct Dependencies {
    loop::EventLoop& loop;
    const worker::Worker& worker;
    tenants::AccessControl& access;
    std::function<Told()> others;
  };
  explicit NodeQuotas(Dependencies dependencies);
  ~NodeQuotas();
  NodeQuotas(const NodeQuotas&) = delete;
  NodeQuotas& operator=(const NodeQuotas&) = delete;

  // What this node tells of its tenants with quotas.
  std::vector<cluster::TenantUse> uses() const;

 private:
  struct Requests {
    access::RequestCounts counts;
    access::QuotaUse rate;  // as of a TenantUse
  };

  // Tenants with quotas.
  std::vector<Tenant> limited_tenants() const;
  cluster::TenantUse use_of(const Tenant& tenant, const TenantUsage& usage) const;
  void look();
  void note_requests(const Tenant& tenant, Duration since);

  const Dependencies uses_;
  std::map<TenantId, Requests> requests_;
  std::map<TenantId, cluster::TenantUse> before_;  // what each used at the last look
  Instant looked_at_;
  loop::TimerId timer_;
};

}  // namespace lambent
