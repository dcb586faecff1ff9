// VersionFrontend: deployments in one call, versions, aliases and earlier revisions, below
// /v1/functions/NAME. On the loop thread.
#pragma once

#include "core/domain/invocation_service.h"
#include "core/domain/version_service.h"
#include "core/http/server.h"
#include "edge/frontend/caller.h"

namespace lambent::frontend {

// PUT of a function, and its versions, aliases, revisions, rollback and the parts of its code.
bool is_version_path(std::string_view method, std::string_view path);

class VersionFrontend {
 public:
  // Both outlive the frontend; the frontend may go while answers are still out.
  VersionFrontend(InvocationService& service, VersionService& versions)
      : service_(service), versions_(versions) {}

  void handle(const Caller& caller, http::Request request, http::Responder responder);

 private:
  InvocationService& service_;
  VersionService& versions_;
};

}  // namespace lambent::frontend
