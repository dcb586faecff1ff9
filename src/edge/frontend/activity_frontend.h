// ActivityFrontend: /v1/activity, which the dashboard reads: what a tenant's functions do and did,
// and a stream of what happens. On the loop thread.
#pragma once

#include <functional>

#include "core/domain/activity.h"
#include "core/domain/invocation_service.h"
#include "core/http/server.h"
#include "edge/frontend/activity_call.h"
#include "edge/frontend/activity_followers.h"
#include "edge/frontend/caller.h"

namespace lambent::frontend {

class ActivityFrontend {
 public:
  // `token_is_good`: as NativeOptions has it.
  ActivityFrontend(ActivityFollowers::Dependencies dependencies,
                   std::function<bool(const std::string&)> token_is_good)
      : activity_(dependencies.activity),
        invocations_(dependencies.invocations),
        token_is_good_(std::move(token_is_good)),
        followers_(std::move(dependencies)) {}

  void handle(const Caller& caller, const http::Request& request, http::Responder responder);

 private:
  http::Response answer(const Caller& caller, const ListFunctionActivity& call) const;
  http::Response answer(const Caller& caller, const ReadFunctionActivity& call) const;
  http::Response answer(const Caller& caller, const ListEnded& call) const;
  http::Response answer(const Caller& caller, const ListLive& call) const;
  http::Response answer(const Caller& caller, const ReadEnded& call) const;
  void follow(const Caller& caller, http::Responder responder);

  const ActivityService& activity_;
  const InvocationService& invocations_;
  const std::function<bool(const std::string&)> token_is_good_;
  ActivityFollowers followers_;
};

}  // namespace lambent::frontend
