// Router: the one handler of the worker's HTTP server. It refuses what a web page may have sent,
// finds out whose request it is and whether its scopes and its rate allow it, and gives it to the
// frontend whose path it has. On the loop thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/domain/audit.h"
#include "core/domain/cors.h"
#include "core/http/forward_service.h"
#include "core/http/server.h"
#include "edge/frontend/access_frontend.h"
#include "edge/frontend/activity_frontend.h"
#include "edge/frontend/authenticator.h"
#include "edge/frontend/cluster_frontend.h"
#include "edge/frontend/dashboard_frontend.h"
#include "edge/frontend/forwarding.h"
#include "edge/frontend/function_frontend.h"
#include "edge/frontend/graph_frontend.h"
#include "edge/frontend/inference_frontend.h"
#include "edge/frontend/journal_frontend.h"
#include "edge/frontend/lambda.h"
#include "edge/frontend/layer_frontend.h"
#include "edge/frontend/native.h"
#include "edge/frontend/objects.h"
#include "edge/frontend/openai_call.h"
#include "edge/frontend/openai_frontend.h"
#include "edge/frontend/request_guard.h"
#include "edge/frontend/route_scopes.h"
#include "edge/frontend/secret_frontend.h"
#include "edge/frontend/shared_memory_frontend.h"
#include "edge/frontend/version_frontend.h"
#include "edge/frontend/volume_frontend.h"

namespace lambent::frontend {

struct RouterOptions {
  NativeOptions native;
  AuthOptions auth;
  // For digests of bodies of more than 256 KiB.
  objects::Disk offload;
  AuditSink audit;
  AccessFrontend::Usage usage;
  // Each HTTP function has a name below it; empty: they have paths only.
  std::string function_domain = {};
  // Whose word counts on where a request to a function comes from.
  TrustedProxies trusted_proxies = {};
  // What the dashboard asks, and the journal's questions; null: both are refused.
  ActivityService* activity = nullptr;
  JournalService* journal = nullptr;
  // What other nodes are told; without a cluster nothing is.
  std::function<std::string()> report = {};
  std::function<std::string(const std::string& sha256)> package = {};
  Cluster* cluster = nullptr;
  // Whose shared memory tenants may register for the tensors of inferences; empty: it is off.
  std::vector<SharedMemoryOwner> shared_memory = {};
};

class Router {
 public:
  // All that is given outlives the router, and the router the server.
  struct Services {
    InvocationService& invocations;
    VersionService& versions;
    AccessService& access;
    SecretService& secrets;
    ObjectsFrontend& objects;
    http::RelayService& relays;
    VolumeService& volumes;
    // Null: this node is in no cluster, and answers what it gets.
    http::ForwardService* forwards = nullptr;
    LayerService* layers = nullptr;        // null: there are no layers
    KernelGraphService* graphs = nullptr;  // null: graphs do not come with requests
    inference::SharedMemoryRegions* shared_memory = nullptr;  // null: none is served
    // What other nodes copy; null: the volumes, and no images.
    VolumeReading* shared_files = nullptr;
    VolumeReading* shared_images = nullptr;
  };
  Router(Services services, loop::EventLoop& loop, Random& random, RouterOptions options,
         RequestGuard guard);

  // Lambda's paths begin with a date; everything else is ours.
  // The guard's refusals are answered 403, AccessDeniedException under Lambda's paths; those of
  // credentials 401 or, as AWS has it, 403; those of scopes 403.
  void handle(http::Request request, http::Responder responder);
  http::Server::Handler handler();
  // Which requests stream (http::ServerOptions::streams): those to HTTP functions, of OpenAI's
  // API, and contents of files in volumes.
  bool streams(const http::Request& head) const;

 private:
  // What a request is for, found once.
  struct Aim {
    std::optional<FunctionTarget> target;
    RouteScopes scopes;
  };

  void authenticate(const Aim& aim, http::Request request, http::Responder responder,
                    const std::string& body_digest);
  // Of a node that has found out whose request it is, and let it pass.
  void take_forwarded(const http::ForwardService::Forwarded& forwarded, http::Request request,
                      http::Responder responder);
  void answer_forwarded(const Principal& principal, http::Request request,
                        http::Responder responder);
  void admit(Principal principal, const Aim& aim, http::Request request, http::Responder responder);
  // To the node that is to answer it, which may be this one.
  void choose_node(const Principal& principal, const Aim& aim, http::Request request,
                   http::Responder responder);
  // The same of one that is for the function which serves a model.
  void choose_node_for_model(const Principal& principal, const Aim& aim, http::Request request,
                             http::Responder responder);
  void route(const Principal& principal, const Aim& aim, Forwarding what, http::Request request,
             http::Responder responder);
  // Whose tenant the request is for: an admin may name another than its token's.
  Result<TenantId> tenant_for(const Principal& principal, const Aim& aim,
                              const http::Request& request) const;
  // Which pages of other origins may call the function.
  std::optional<Cors> cors_of(const FunctionTarget& target) const;
  // For a function with an open URL, to which anyone may send it.
  void handle_anonymous(TenantId tenant, const FunctionTarget& target, http::Request request,
                        http::Responder responder);
  // One that is signed: the signature covers the body.
  void handle_signed(http::Request request, http::Responder responder);
  void dispatch(const Principal& principal, const Aim& aim, http::Request request,
                http::Responder responder);
  std::optional<FunctionTarget> target_of(const http::Request& request) const {
    return function_target(request, options_.function_domain);
  }
  // Its Authorization is not this worker's where that wants none.
  bool is_for_program(const http::Request& request) const {
    return target_of(request).has_value() || is_openai_path(http::path_of(request.target));
  }
  Aim aim_of(std::optional<FunctionTarget> target, const http::Request& request) const;
  Aim aim_of(const http::Request& request) const { return aim_of(target_of(request), request); }
  AuditRecord record_of(const http::Request& request) const;

  AccessService& access_;
  loop::EventLoop& loop_;
  const RouterOptions options_;
  const RequestGuard guard_;
  const Authenticator authenticator_;
  http::RelayService& relays_;
  BodyCollector bodies_;
  SharedMemoryFrontend shared_memory_;
  LambdaFrontend lambda_;
  ObjectsFrontend& objects_;
  NativeFrontend native_;
  AccessFrontend tenants_;
  SecretFrontend secrets_;
  VersionFrontend versions_;
  FunctionFrontend functions_;
  InferenceFrontend models_;
  OpenaiFrontend openai_;
  VolumeFrontend volumes_;
  LayerFrontend layers_;
  GraphFrontend graphs_;
  const DashboardFrontend dashboard_;
  std::unique_ptr<ActivityFrontend> activity_;  // null: there is no such service
  JournalFrontend journal_;
  ClusterFrontend cluster_;
  InvocationService& invocations_;
  const VersionService& catalog_versions_;
  http::ForwardService* const forwards_;
};

}  // namespace lambent::frontend
