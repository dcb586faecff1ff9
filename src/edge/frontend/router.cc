#include "edge/frontend/router.h"

#include <utility>
#include <variant>

#include "core/crypto/crypto.h"
#include "edge/frontend/access_call.h"
#include "edge/frontend/access_log.h"
#include "edge/frontend/audited_responder.h"
#include "edge/frontend/cross_origin.h"
#include "edge/frontend/lambda_fault.h"
#include "edge/frontend/lambda_name.h"
#include "edge/frontend/lambda_route.h"
#include "edge/frontend/lambda_stream.h"
#include "edge/frontend/native_error.h"
#include "edge/frontend/other_services.h"
#include "edge/frontend/route_scopes.h"

namespace lambent::frontend {

namespace {

// A request that waits.
struct Held {
  http::Request request;
  http::Responder responder;
};

constexpr std::string_view kObjects = "/v1/objects";
constexpr std::string_view kTenantHeader = "x-lambent-tenant";
// A digest of more takes longer than the loop may.
constexpr Bytes kDigestedAtOnce = Bytes::kib(256);

std::string digest_of(const std::string& body) { return crypto::to_hex(crypto::sha256(body)); }

bool is_to_models(const http::Request& request) {
  return is_inference_path(http::path_of(request.target));
}

bool is_to_lambda(const http::Request& request) {
  return is_lambda_path(http::path_of(request.target));
}

http::Response response_of_error(const http::Request& request, const Error& error,
                                 Duration retry_after = {}) {
  if (is_to_models(request)) return inference_error(error, retry_after);
  if (is_openai_path(http::path_of(request.target))) return openai_error(error, retry_after);
  if (!is_to_lambda(request)) return error_response(error, retry_after);
  LambdaFault fault = fault_of(error);
  fault.retry_after = retry_after;
  return response_of(fault);
}

http::Response response_of_refusal(const http::Request& request, const Refusal& refusal) {
  if (is_to_lambda(request)) {
    LambdaFault fault = fault_of(refusal.error);
    fault.type = refusal.lambda_type;
    return response_of(fault);
  }
  http::Response response = response_of_error(request, refusal.error);
  response.headers.add("WWW-Authenticate", "Bearer realm=\"lambent\"");
  return response;
}

// With when to ask again.
http::Response unavailable(const http::Request& request, const Error& error) {
  http::Response response = response_of_error(request, error);
  if (!response.headers.contains("Retry-After")) response.headers.add("Retry-After", "1");
  return response;
}

// Of a request that another node forwarded: it asks elsewhere.
http::Response not_here(const http::Request& request, const Error& error) {
  http::Response response = response_of_error(request, error);
  response.headers.add(std::string(http::kNotHere), "true");
  return response;
}

Error lacks_scope(const Principal& principal, const RouteScopes& needed) {
  return {ErrorCode::kPermissionDenied, "the token " + principal.token + " has the scopes " +
                                            to_string(principal.scopes) + "; this needs one of " +
                                            to_string(needed.any_of) +
                                            ", as the operator gives it with 'lambent tokens "
                                            "create'"};
}

// Of a function that is open to anyone; no other has these scopes without a token.
Principal anonymous_of(TenantId tenant) {
  return {.tenant = tenant, .scopes = {Scope::kInvoke}, .token = {}};
}

NativeOptions with_tokens(NativeOptions options, const AccessService& access) {
  options.token_is_good = [&access](const std::string& id) { return access.find_signer(id).ok(); };
  return options;
}

NativeOptions native_options(const NativeOptions& given, const AccessService& access,
                             http::ForwardService* forwards) {
  NativeOptions options = with_tokens(given, access);
  options.other_nodes = {forwards,
                         [&access](TenantId tenant) { return access.tenant_name(tenant); }};
  return options;
}

std::unique_ptr<ActivityFrontend> activity_frontend(const RouterOptions& options,
                                                    InvocationService& invocations,
                                                    AccessService& access, loop::EventLoop& loop,
                                                    http::ForwardService* forwards) {
  if (options.activity == nullptr) return nullptr;
  const NativeOptions native = native_options(options.native, access, forwards);
  return std::make_unique<ActivityFrontend>(
      ActivityFollowers::Dependencies{*options.activity, invocations, loop, native.devices,
                                      native.slices, native.ready, native.other_nodes},
      native.token_is_good);
}

}  // namespace

Router::Router(Services services, loop::EventLoop& loop, Random& random, RouterOptions options,
               RequestGuard guard)
    : access_(services.access),
      loop_(loop),
      options_(std::move(options)),
      guard_(std::move(guard)),
      authenticator_(access_, loop.clock(), options_.auth),
      relays_(services.relays),
      shared_memory_(options_.shared_memory,
                     {services.access, bodies_, options_.offload, services.shared_memory}),
      lambda_({services.invocations, services.versions, services.relays, random,
               [this](TenantId tenant) { return access_.tenant_name(tenant); }, services.layers}),
      objects_(services.objects),
      native_(services.invocations, loop, random,
              native_options(options_.native, access_, services.forwards)),
      tenants_(access_, options_.usage),
      secrets_(services.secrets),
      versions_(services.invocations, services.versions),
      functions_({services.relays, bodies_, loop, random, options_.offload, options_.native.ready},
                 options_.trusted_proxies),
      models_(services.invocations, services.versions, options_.native.version,
              options_.native.ready, shared_memory_.is_on()),
      openai_({services.invocations, functions_, bodies_, loop.clock(),
               [this](TenantId tenant) { return access_.tenant_name(tenant); }}),
      volumes_(services.volumes),
      layers_(services.layers),
      graphs_(services.graphs, services.invocations, random),
      activity_(
          activity_frontend(options_, services.invocations, access_, loop, services.forwards)),
      journal_(options_.journal),
      cluster_(
          {.cluster = options_.cluster,
           .functions = services.invocations,
           .versions = services.versions,
           .access = services.access,
           .volumes = services.shared_files == nullptr ? services.volumes : *services.shared_files,
           .disk = options_.offload,
           .report = options_.report,
           .package = options_.package,
           .images = services.shared_images,
           .clock = loop.clock()}),
      invocations_(services.invocations),
      catalog_versions_(services.versions),
      forwards_(services.forwards) {}

bool Router::streams(const http::Request& head) const {
  return is_for_program(head) || streams_volume(head);
}

Router::Aim Router::aim_of(std::optional<FunctionTarget> target,
                           const http::Request& request) const {
  RouteScopes scopes = target ? RouteScopes{.any_of = {Scope::kInvoke}}
                              : scopes_of(request.method, http::path_of(request.target));
  if (!target && carries_graph(request)) scopes.audited = true;
  return {.target = std::move(target), .scopes = scopes};
}

void Router::handle(http::Request request, http::Responder responder) {
  if (forwards_ != nullptr) {
    // Asked first: no page has the cluster's key.
    const auto forwarded = forwards_->forwarded_by(request);
    if (!forwarded.ok()) {
      return responder.send(
          response_of_refusal(request, {forwarded.error(), "UnrecognizedClientException"}));
    }
    if (*forwarded) {
      return take_forwarded(**forwarded, std::move(request), std::move(responder));
    }
  }
  if (const auto meant = guard_.check_host(request); !meant.ok()) {
    return responder.send(response_of_error(request, meant.error()));
  }
  auto target = target_of(request);
  if (const auto page = guard_.check_page(request); !page.ok()) {
    const auto cors = target ? cors_of(*target) : std::nullopt;
    const auto allowed = cors ? check_cross_origin(*cors, request) : page;
    if (!allowed.ok()) return responder.send(response_of_error(request, allowed.error()));
    if (is_preflight(request)) return responder.send(preflight_answer(*cors, request));
  }
  if (target && !target->tenant.empty()) {
    const auto tenant = access_.find_tenant(target->tenant);
    if (tenant.ok() && relays_.is_open({tenant->id, target->name})) {
      return handle_anonymous(tenant->id, *target, std::move(request), std::move(responder));
    }
  }
  const bool to_program = target || is_openai_path(http::path_of(request.target));
  // Only nodes say that.
  if (to_program && request.headers.contains(kServingFunction)) {
    request.headers.set(kServingFunction, "");
  }
  if (to_program) separate_authorizations(request, options_.auth.mode == AuthMode::kTokens);
  if (to_program && authenticator_.needs_body_digest(request)) {
    const bool is_openai = is_openai_path(http::path_of(request.target));
    // Only then can it be told whether the request is who it says it is.
    return bodies_.collect(
        std::move(request), std::move(responder),
        [is_openai](const Error& error) {
          return is_openai ? openai_error(error) : refusal_of(error);
        },
        [this](http::Request whole, http::Responder answering) {
          handle_signed(std::move(whole), std::move(answering));
        });
  }
  if (streams(request) && authenticator_.needs_body_digest(request)) {
    return responder.send(response_of_refusal(
        request, {{ErrorCode::kUnauthenticated,
                   "files of volumes stream, so that no signature covers their contents: send "
                   "'Authorization: Bearer TOKEN'"},
                  "InvalidSignatureException"}));
  }
  if (!authenticator_.needs_body_digest(request)) {
    const Aim aim = aim_of(std::move(target), request);
    return authenticate(aim, std::move(request), std::move(responder), {});
  }
  handle_signed(std::move(request), std::move(responder));
}

// Browsers ask before they send credentials: whose function it is has to be plain without any.
std::optional<Cors> Router::cors_of(const FunctionTarget& target) const {
  FunctionName name{kDefaultTenant, target.name};
  if (!target.tenant.empty()) {
    const auto tenant = access_.find_tenant(target.tenant);
    if (!tenant.ok()) return std::nullopt;
    name.tenant = tenant->id;
  } else if (options_.auth.mode == AuthMode::kTokens) {
    return std::nullopt;
  }
  const bool is_path = target.protocol == Protocol::kNone;
  const std::string text = is_path ? relays_.cors_of(name) : std::string();
  const auto cors = text.empty() ? Result<Cors>(Cors()) : parse_cors(text);
  if (text.empty() || !cors.ok()) return std::nullopt;
  return *cors;
}

void Router::handle_anonymous(TenantId tenant, const FunctionTarget& target, http::Request request,
                              http::Responder responder) {
  const auto rate = access_.admit_request(tenant);
  if (rate.refusal) {
    return responder.send(response_of_error(request, *rate.refusal, rate.retry_after));
  }
  // Whatever it is, it is for the function.
  separate_authorizations(request, false);
  const Aim aim = aim_of(target, request);
  choose_node(anonymous_of(tenant), aim, std::move(request), std::move(responder));
}

void Router::handle_signed(http::Request request, http::Responder responder) {
  if (Bytes(request.body.size()) <= kDigestedAtOnce) {
    const std::string digest = digest_of(request.body);
    const Aim aim = aim_of(request);
    return authenticate(aim, std::move(request), std::move(responder), digest);
  }
  // Shared between the thread that computes and the loop.
  struct Digested {
    http::Request request;
    http::Responder responder;
    std::string digest;
  };
  auto held = std::make_shared<Digested>(Digested{std::move(request), std::move(responder), {}});
  const bool queued = options_.offload([held] { held->digest = digest_of(held->request.body); },
                                       [this, held] {
                                         const Aim aim = aim_of(held->request);
                                         authenticate(aim, std::move(held->request),
                                                      std::move(held->responder), held->digest);
                                       });
  if (queued) return;
  held->responder.send(response_of_error(
      held->request, Error{ErrorCode::kResourceExhausted, "too much to do at once; try again"}));
}

void Router::take_forwarded(const http::ForwardService::Forwarded& forwarded, http::Request request,
                            http::Responder responder) {
  forwards_->take(request);
  // Many clients share the connection between two nodes, so that it stands for none of them.
  request.peer.address.clear();
  const auto tenant = access_.find_tenant(forwarded.tenant);
  if (!tenant.ok()) {
    // Made a moment ago, perhaps: the home has it, and soon this node too.
    forwards_->changed();
    return responder.send(not_here(request, tenant.error()));
  }
  const Principal principal{
      .tenant = tenant->id, .scopes = forwarded.scopes, .token = forwarded.token};
  const RouteScopes needed = aim_of(request).scopes;
  if (needed.audited && request.method != "GET") {
    AuditRecord record = record_of(request);
    record.origin = "node " + forwarded.node;
    record.token = principal.token;
    record.tenant = forwarded.tenant;
    responder = audited(std::move(responder), std::move(record), options_.audit);
  }
  answer_forwarded(principal, std::move(request), std::move(responder));
}

void Router::answer_forwarded(const Principal& principal, http::Request request,
                              http::Responder responder) {
  const auto what = forwarding_of(request, options_.function_domain);
  const bool runs = what && (what->destination == http::Destination::kAnyNode ||
                             what->destination == http::Destination::kAnyNodeAndMore);
  const FunctionName name{principal.tenant, what ? what->function : ""};
  const bool is_qualified = name.name.find(':') != std::string::npos;
  const auto is_known = [this, name, is_qualified] {
    return is_qualified ? catalog_versions_.find_qualified(name).ok()
                        : invocations_.find_function(name).ok();
  };
  const bool needs_function = runs || (what && !name.name.empty() && !what->creates);
  if (!needs_function || is_known()) {
    const Aim aim = aim_of(request);
    return dispatch(principal, aim, std::move(request), std::move(responder));
  }
  // Deployed a moment ago; shared because a callback must be copyable.
  auto held = std::make_shared<Held>(Held{std::move(request), std::move(responder)});
  const FunctionName function = function_of(name);
  forwards_->catch_up(
      name, [this, held, principal, is_known, runs, is_qualified, function](const auto& caught_up) {
        // Which versions there are is said by who has the function.
        const bool may_say = !runs || (is_qualified && invocations_.find_function(function).ok());
        if (is_known() || (caught_up.ok() && may_say)) {
          const Aim aim = aim_of(held->request);
          return dispatch(principal, aim, std::move(held->request), std::move(held->responder));
        }
        if (!runs) return held->responder.send(unavailable(held->request, caught_up.error()));
        held->responder.send(not_here(
            held->request, caught_up.ok() ? Error{ErrorCode::kNotFound,
                                                  "function '" + function.name + "' does not exist"}
                                          : caught_up.error()));
      });
}

void Router::authenticate(const Aim& aim, http::Request request, http::Responder responder,
                          const std::string& body_digest) {
  auto outcome = authenticator_.authenticate(request, body_digest);
  if (aim.scopes.open) {
    // Who is known may learn more.
    const auto* principal = std::get_if<Principal>(&outcome);
    return dispatch(principal == nullptr ? Principal{} : *principal, aim, std::move(request),
                    std::move(responder));
  }
  if (const auto* refusal = std::get_if<Refusal>(&outcome)) {
    AuditRecord record = record_of(request);
    http::Response response = response_of_refusal(request, *refusal);
    record.status = response.status;
    options_.audit(std::move(record), [](const Result<void>&) {});
    return responder.send(std::move(response));
  }
  admit(std::get<Principal>(std::move(outcome)), aim, std::move(request), std::move(responder));
}

Result<TenantId> Router::tenant_for(const Principal& principal, const Aim& aim,
                                    const http::Request& request) const {
  const std::string name = aim.target && !aim.target->tenant.empty()
                               ? aim.target->tenant
                               : std::string(request.headers.get(kTenantHeader));
  if (name.empty() || name == access_.tenant_name(principal.tenant)) return principal.tenant;
  if (!principal.scopes.has(Scope::kAdmin)) {
    return Error{ErrorCode::kPermissionDenied,
                 "only a token with the scope admin may act for another tenant"};
  }
  ASSIGN_OR_RETURN(const Tenant tenant, access_.find_tenant(name));
  return tenant.id;
}

void Router::admit(Principal principal, const Aim& aim, http::Request request,
                   http::Responder responder) {
  const RouteScopes& needed = aim.scopes;
  const auto tenant = tenant_for(principal, aim, request);
  std::optional<Error> refusal;
  if (!tenant.ok()) {
    refusal = tenant.error();
  } else if (!principal.scopes.has(Scope::kAdmin) && !principal.scopes.overlaps(needed.any_of)) {
    refusal = lacks_scope(principal, needed);
  }
  // What is written of it, where something is.
  const auto record_for = [&](TenantId whose) {
    AuditRecord record = record_of(request);
    record.token = principal.token;
    record.tenant = access_.tenant_name(whose);
    return record;
  };
  if (refusal) {
    AuditRecord record = record_for(tenant.ok() ? *tenant : principal.tenant);
    http::Response response = response_of_error(request, *refusal);
    record.status = response.status;
    options_.audit(std::move(record), [](const Result<void>&) {});
    return responder.send(std::move(response));
  }
  principal.tenant = *tenant;
  const auto rate = access_.admit_request(principal.tenant);
  if (rate.refusal) {
    return responder.send(response_of_error(request, *rate.refusal, rate.retry_after));
  }
  if (needed.audited && request.method != "GET") {
    responder = audited(std::move(responder), record_for(principal.tenant), options_.audit);
  }
  if (!aim.target || !shared_memory_.may_name_regions(principal.tenant, request)) {
    return choose_node(principal, aim, std::move(request), std::move(responder));
  }
  const TenantId whose = principal.tenant;
  const bool is_whole = authenticator_.needs_body_digest(request);
  shared_memory_.expand(whose, std::move(request), std::move(responder), is_whole,
                        [this, principal = std::move(principal), aim](http::Request expanded,
                                                                      http::Responder answer) {
                          choose_node(principal, aim, std::move(expanded), std::move(answer));
                        });
}

void Router::choose_node(const Principal& principal, const Aim& aim, http::Request request,
                         http::Responder responder) {
  if (forwards_ == nullptr) {
    return dispatch(principal, aim, std::move(request), std::move(responder));
  }
  if (!aim.target && is_for_openai_model(http::path_of(request.target))) {
    return choose_node_for_model(principal, aim, std::move(request), std::move(responder));
  }
  auto what = forwarding_of(request, options_.function_domain);
  if (!what) return dispatch(principal, aim, std::move(request), std::move(responder));
  route(principal, aim, *std::move(what), std::move(request), std::move(responder));
}

void Router::choose_node_for_model(const Principal& principal, const Aim& aim,
                                   http::Request request, http::Responder responder) {
  const bool is_whole = authenticator_.needs_body_digest(request);
  const auto pass_on = [this, principal, aim](std::string function, http::Request its,
                                              http::Responder answering) {
    its.headers.set(kServingFunction, function);
    route(principal, aim, {http::Destination::kAnyNode, std::move(function)}, std::move(its),
          std::move(answering));
  };
  openai_.find_model(
      principal.tenant, std::move(request), std::move(responder), is_whole,
      [this, principal, aim, pass_on](const std::string& model, http::Request its,
                                      http::Responder answering) {
        if (auto function = openai_.function_for(principal.tenant, model)) {
          return pass_on(*std::move(function), std::move(its), std::move(answering));
        }
        // Deployed a moment ago, perhaps, through another node; shared because a callback must be
        // copyable.
        auto held = std::make_shared<Held>(Held{std::move(its), std::move(answering)});
        forwards_->catch_up({principal.tenant, model}, [this, held, model, principal, aim,
                                                        pass_on](const Result<void>& caught_up) {
          if (auto function = openai_.function_for(principal.tenant, model)) {
            return pass_on(*std::move(function), std::move(held->request),
                           std::move(held->responder));
          }
          if (!caught_up.ok()) {
            return held->responder.send(unavailable(held->request, caught_up.error()));
          }
          // A function that could not be copied here may be there.
          route(principal, aim, {http::Destination::kHomeOrHere, ""}, std::move(held->request),
                std::move(held->responder));
        });
      });
}

void Router::route(const Principal& principal, const Aim& aim, Forwarding what,
                   http::Request request, http::Responder responder) {
  // What says in which form errors are answered.
  http::Request form{.method = request.method, .target = request.target};
  forwards_->route(
      {.destination = what.destination,
       .function = {principal.tenant, std::move(what.function)},
       .creates = what.creates,
       .principal = principal,
       .tenant = access_.tenant_name(principal.tenant),
       .request = std::move(request),
       .responder = std::move(responder),
       .here =
           [this, principal, aim](http::Request here, http::Responder answer) {
             dispatch(principal, aim, std::move(here), std::move(answer));
           },
       .response_of =
           [form = std::move(form)](const Error& error) { return response_of_error(form, error); },
       .last_event = lost_stream_end});
}

void Router::dispatch(const Principal& principal, const Aim& aim, http::Request request,
                      http::Responder responder) {
  const Caller caller{
      .tenant = principal.tenant, .scopes = principal.scopes, .token = principal.token};
  if (aim.target) {
    if (auto answer = models_.answer_to_model(caller, *aim.target, request.method)) {
      return responder.send(*std::move(answer));
    }
    const bool is_anonymous = principal == anonymous_of(principal.tenant);
    const bool is_signed = !is_anonymous && authenticator_.needs_body_digest(request);
    return functions_.handle(caller, *aim.target, std::move(request), std::move(responder),
                             {.is_signed = is_signed, .is_anonymous = is_anonymous});
  }
  const std::string path(http::path_of(request.target));
  if (is_shared_memory_path(path)) {
    shared_memory_.handle(caller, request, std::move(responder));
  } else if (is_inference_path(path)) {
    models_.handle(caller, request, std::move(responder));
  } else if (is_openai_path(path)) {
    const bool is_whole = authenticator_.needs_body_digest(request);
    openai_.handle(caller, std::move(request), std::move(responder), is_whole);
  } else if (is_layer_path(path) && layers_.is_there()) {
    layers_.handle(caller, std::move(request), std::move(responder));
  } else if (is_lambda_path(path)) {
    lambda_.handle(caller, std::move(request), std::move(responder));
  } else if (path == kObjects || path.starts_with(std::string(kObjects) + "/")) {
    objects_.handle(caller, std::move(request), path.substr(kObjects.size()), std::move(responder));
  } else if (is_access_path(path)) {
    tenants_.handle(principal, request, std::move(responder));
  } else if (is_secret_path(path)) {
    secrets_.handle(caller, std::move(request), std::move(responder));
  } else if (is_version_path(request.method, path)) {
    versions_.handle(caller, std::move(request), std::move(responder));
  } else if (auto refusal = refusal_of_other_service(request)) {
    responder.send(*std::move(refusal));
  } else if (is_dashboard_path(path)) {
    responder.send(dashboard_.answer(request));
  } else if (activity_ != nullptr && is_activity_path(path)) {
    activity_->handle(caller, request, std::move(responder));
  } else if (is_journal_path(path)) {
    journal_.handle(request, std::move(responder));
  } else if (is_cluster_path(path)) {
    cluster_.handle(request, std::move(responder));
  } else if (is_graph_path(path)) {
    graphs_.handle(caller, std::move(request), std::move(responder));
  } else if (is_volume_path(path)) {
    volumes_.handle(caller, std::move(request), std::move(responder));
  } else {
    native_.handle(caller, std::move(request), std::move(responder));
  }
}

AuditRecord Router::record_of(const http::Request& request) const {
  return {.at = loop_.clock().wall_now(),
          .origin = origin_of(request.peer),
          .token = {},
          .tenant = {},
          .method = request.method,
          .path = std::string(http::path_of(request.target))};
}

http::Server::Handler Router::handler() {
  return [this](http::Request request, http::Responder responder) {
    handle(std::move(request), std::move(responder));
  };
}

}  // namespace lambent::frontend
