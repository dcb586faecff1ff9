// ActivityFrontend: /v1/activity, which the dashboard reads: what a tenant's functions do and did,
// on this node or on all nodes of a cluster, and a stream of what happens. On the loop thread.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>

#include "core/domain/activity.h"
#include "core/domain/invocation_service.h"
#include "core/http/server.h"
#include "edge/frontend/activity_call.h"
#include "edge/frontend/activity_followers.h"
#include "edge/frontend/caller.h"
#include "edge/frontend/node_answers.h"

namespace lambent::frontend {

class ActivityFrontend {
 public:
  // `token_is_good`: as NativeOptions has it.
  ActivityFrontend(ActivityFollowers::Dependencies dependencies,
                   std::function<bool(const std::string&)> token_is_good)
      : activity_(dependencies.activity),
        invocations_(dependencies.invocations),
        others_(dependencies.others),
        token_is_good_(std::move(token_is_good)),
        followers_(std::move(dependencies)) {}

  void handle(const Caller& caller, const http::Request& request, http::Responder responder);

 private:
  // What this node has itself.
  Result<nlohmann::json> own(TenantId tenant, const ListFunctionActivity& call) const;
  Result<nlohmann::json> own(TenantId tenant, const ReadFunctionActivity& call) const;
  Result<nlohmann::json> own(TenantId tenant, const ListEnded& call) const;
  Result<nlohmann::json> own(TenantId tenant, const ListLive& call) const;
  Result<nlohmann::json> own(TenantId tenant, const ReadEnded& call) const;
  template <typename Call>
  void answer(TenantId tenant, Call call, bool only_here, http::Responder responder) const;
  void follow(const Caller& caller, http::Responder responder);

  const ActivityService& activity_;
  const InvocationService& invocations_;
  const OtherNodes others_;
  const std::function<bool(const std::string&)> token_is_good_;
  ActivityFollowers followers_;
};

}  // namespace lambent::frontend
