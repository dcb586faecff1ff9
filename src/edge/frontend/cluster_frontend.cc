#include "edge/frontend/cluster_frontend.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/fd.h"
#include "core/base/json_text.h"
#include "core/base/parse_number.h"
#include "core/crypto/crypto.h"
#include "core/domain/limits.h"
#include "edge/frontend/access_frontend.h"
#include "edge/frontend/catalog_copy.h"
#include "edge/frontend/function_json.h"
#include "edge/frontend/json_text.h"
#include "edge/frontend/log_merge.h"
#include "edge/frontend/native_error.h"
#include "edge/frontend/native_path.h"
#include "edge/frontend/offload.h"
#include "edge/frontend/plain_text.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;

constexpr std::string_view kCluster = "/v1/cluster";
constexpr size_t kFunctionsPerLook = 1000;
constexpr double kLeastLease = 1;
constexpr double kMostLease = 3600;
constexpr size_t kMostGpus = 256;

Error no_members(const std::string& what) { return {ErrorCode::kInvalidArgument, what}; }

http::Response answer_of(const json& body) {
  http::Response response;
  response.headers.add("Content-Type", "application/json");
  response.body = json_text(body);
  return response;
}

// The versions and aliases of a function, as entries of the catalog.
void add_qualified(const VersionService& versions, const FunctionName& function,
                   const std::string& tenant, json& list) {
  const auto add = [&](const std::string& name, const json& copy) {
    list.push_back({{"tenant", tenant}, {"name", name}, {"digest", digest_of_copy(copy)}});
  };
  if (const auto all = versions.list_versions(function); all.ok()) {
    for (const FunctionSpec& each : *all) add(each.name.name, copy_of(each));
  }
  if (const auto all = versions.list_aliases(function); all.ok()) {
    for (const Alias& each : *all) add(function.name + ":" + each.name, copy_of(each));
  }
}

Result<std::vector<GpuFacts>> read_gpus(const json& member) {
  std::vector<GpuFacts> gpus;
  const auto list = member.find("gpus");
  if (list == member.end()) return gpus;
  if (!list->is_array() || list->size() > kMostGpus) return no_members("gpus must be a list");
  for (const json& each : *list) {
    if (!each.is_object()) return no_members("a GPU must be an object");
    GpuFacts gpu;
    ASSIGN_OR_RETURN(gpu.name, read_string(each, "name"));
    const auto memory = each.find("memory_bytes");
    if (memory != each.end()) {
      if (!memory->is_number_unsigned()) return no_members("memory_bytes must be a whole number");
      gpu.memory = Bytes(memory->get<uint64_t>());
    }
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

json json_of(const MemberStatus& status) {
  json gpus = json::array();
  // The node knows better than who tells of it.
  for (const GpuFacts& gpu : status.gpus.empty() ? status.member.gpus : status.gpus) {
    gpus.push_back({{"name", gpu.name}, {"memory_bytes", gpu.memory.count}});
  }
  return {{"node", status.member.node},
          {"address", status.member.address},
          {"gpus", std::move(gpus)},
          {"state", name_of(status.state)},
          {"version", status.version},
          {"self", status.is_self},
          {"home", status.is_home},
          {"source", status.source},
          {"problem", status.problem},
          {"slots", status.slots},
          {"load", status.load},
          {"gpu_memory_free_bytes", status.memory_free.count},
          {"warm_functions", status.warm_functions}};
}

}  // namespace

bool is_cluster_path(std::string_view path) {
  return path == kCluster || path.starts_with(std::string(kCluster) + "/");
}

Result<ClusterTold> read_members(std::string_view body) {
  ASSIGN_OR_RETURN(const json document, parse_json(body));
  if (!document.is_object()) return no_members("the body must be an object");
  ClusterTold told;
  ASSIGN_OR_RETURN(told.source, read_string(document, "source"));
  if (told.source.empty()) return no_members("source is missing: who tells of these members");
  if (told.source == "self") return no_members("'self' is not a source");
  ASSIGN_OR_RETURN(told.home, read_string(document, "home"));
  if (const auto lease = document.find("lease_seconds"); lease != document.end()) {
    if (!lease->is_number()) return no_members("lease_seconds must be a number");
    const auto length = lease->get<double>();
    if (!(length >= kLeastLease && length <= kMostLease)) {
      return no_members("lease_seconds must be 1 to 3600");
    }
    told.lease = from_seconds(length);
  }
  const auto members = document.find("members");
  if (members == document.end() || !members->is_array())
    return no_members("members must be a list");
  for (const json& each : *members) {
    if (!each.is_object()) return no_members("a member must be an object");
    ClusterMember member;
    ASSIGN_OR_RETURN(member.node, read_string(each, "node"));
    ASSIGN_OR_RETURN(member.address, read_string(each, "address"));
    ASSIGN_OR_RETURN(member.gpus, read_gpus(each));
    told.members.push_back(std::move(member));
  }
  return told;
}

void ClusterFrontend::handle(const http::Request& request, http::Responder responder) {
  const std::string path(http::path_of(request.target));
  const auto parts = path_parts(path);
  if (!parts) return responder.send(no_such_path(path));
  if (services_.cluster == nullptr) {
    return responder.send(error_response(Error{
        ErrorCode::kFailedPrecondition,
        "this node is in no cluster: start it with --cluster-key (docs/operate/cluster.md)"}));
  }
  const std::string what = parts->size() > 2 ? parts->at(2) : "";
  if (what == "members" && parts->size() == 3) {
    if (request.method != "PUT") return responder.send(method_not_allowed(request.method, "PUT"));
    auto told = read_members(request.body);
    if (!told.ok()) return responder.send(error_response(told.error()));
    const auto taken = services_.cluster->tell(*std::move(told));
    if (!taken.ok()) return responder.send(error_response(taken.error()));
    return responder.send(answer_of({{"version", services_.cluster->version()}}));
  }
  if (what == "nodes" && parts->size() == 5) {
    return drain(request, parts->at(3), parts->at(4), std::move(responder));
  }
  if (request.method != "GET") return responder.send(method_not_allowed(request.method, "GET"));
  if (what.empty()) return responder.send(members());
  if (what == "report" && parts->size() == 3) {
    http::Response response;
    response.headers.add("Content-Type", "application/json");
    response.body = services_.report();
    return responder.send(std::move(response));
  }
  if (what == "catalog" && parts->size() == 3) return catalog(request, responder);
  if (what == "functions" && parts->size() == 5) {
    return function(parts->at(3), parts->at(4), responder);
  }
  if (what == "volumes") return volumes_.handle(request, *parts, std::move(responder));
  if (what == "images" && parts->size() == 5 && images_) {
    return images_->handle(kDefaultTenant, parts->at(3), parts->at(4), request,
                           std::move(responder));
  }
  if (what == "code" && parts->size() == 3) return code(request, std::move(responder));
  if (what == "log" && parts->size() == 5) {
    return responder.send(log(parts->at(3), parts->at(4), http::query_of(request.target)));
  }
  responder.send(no_such_path(path));
}

http::Response ClusterFrontend::members() const {
  json members = json::array();
  for (const MemberStatus& each : services_.cluster->members()) members.push_back(json_of(each));
  const ClusterCounts counts = services_.cluster->counts();
  return answer_of({{"self", services_.cluster->self()},
                    {"home", services_.cluster->home()},
                    {"version", services_.cluster->version()},
                    {"requests",
                     {{"here", counts.here},
                      {"forwarded", counts.forwarded},
                      {"received", counts.received},
                      {"retried", counts.retried},
                      {"lost", counts.lost}}},
                    {"members", std::move(members)}});
}

void ClusterFrontend::drain(const http::Request& request, const std::string& node,
                            const std::string& verb, http::Responder responder) {
  if (verb != "drain" && verb != "undrain") {
    return responder.send(no_such_path(std::string(http::path_of(request.target))));
  }
  if (request.method != "POST") return responder.send(method_not_allowed(request.method, "POST"));
  // Shared because a callback must be copyable.
  auto held = std::make_shared<http::Responder>(std::move(responder));
  services_.cluster->drain(node, verb == "drain", [this, held](const Result<void>& done) {
    held->send(done.ok() ? members() : error_response(done.error()));
  });
}

http::Response ClusterFrontend::log(const std::string& tenant, const std::string& name,
                                    std::string_view query) const {
  const auto offset = parse_number<uint64_t>(http::query_value(query, "offset"));
  const auto most = parse_number<uint64_t>(http::query_value(query, "most"));
  if (!offset || !most) {
    return error_response(
        Error{ErrorCode::kInvalidArgument, "offset and most must be whole numbers of bytes"});
  }
  const uint64_t size = std::min<uint64_t>(*most, kLogChunk);
  LogPart part{.node = {}, .is_known = false, .chunk = {}, .now = services_.clock.wall_now()};
  // Who asks knows of it by another node.
  if (const auto whose = services_.access.find_tenant(tenant); whose.ok()) {
    if (auto chunk = services_.functions.read_log({whose->id, name}, *offset, size); chunk.ok()) {
      part.chunk = *std::move(chunk);
      bound_marks(part.chunk);
      part.is_known = true;
    }
  }
  http::Response response;
  response.headers.add("Content-Type", "application/octet-stream");
  response.body = encode_log_part(part);
  return response;
}

void ClusterFrontend::catalog(const http::Request& request, http::Responder& responder) {
  json functions = json::array();
  json qualified = json::array();
  json tenants = json::array();
  for (const Tenant& tenant : services_.access.list_tenants("", SIZE_MAX)) {
    tenants.push_back({{"name", tenant.name}, {"settings", tenant_settings(tenant)}});
    std::string after;
    for (;;) {
      const auto page = services_.functions.list_functions(tenant.id, after, kFunctionsPerLook);
      for (const FunctionSpec& spec : page) {
        // One that is being created is none yet.
        const auto pending = services_.functions.deployment(spec.name);
        if (pending && pending->creates) continue;
        functions.push_back({{"tenant", tenant.name},
                             {"name", spec.name.name},
                             {"digest", digest_of_copy(copy_of(spec))}});
        add_qualified(services_.versions, spec.name, tenant.name, qualified);
      }
      if (page.size() < kFunctionsPerLook) break;
      after = page.back().name.name;
    }
  }
  json body = {{"tenants", std::move(tenants)},
               {"functions", std::move(functions)},
               {"qualified", std::move(qualified)}};
  const std::string version = crypto::to_hex(crypto::sha256(json_text(body)));
  if (http::query_value(http::query_of(request.target), "known") == version) {
    http::Response same;
    same.status = 304;
    return responder.send(std::move(same));
  }
  body["version"] = version;
  responder.send(answer_of(body));
}

void ClusterFrontend::function(const std::string& tenant_name, const std::string& name,
                               http::Responder& responder) {
  const auto tenant = services_.access.find_tenant(tenant_name);
  if (!tenant.ok()) return responder.send(error_response(tenant.error()));
  const QualifiedName parts = split_qualifier(name);
  const auto alias = services_.versions.find_alias({tenant->id, parts.name}, parts.qualifier);
  if (alias.ok()) return responder.send(answer_of(copy_of(*alias)));
  const auto spec = services_.functions.find_function({tenant->id, name});
  if (!spec.ok()) return responder.send(error_response(spec.error()));
  responder.send(answer_of(copy_of(*spec)));
}

void ClusterFrontend::code(const http::Request& request, http::Responder responder) {
  const std::string file =
      services_.package(http::query_value(http::query_of(request.target), "sha256"));
  // Shared between the thread that reads and the loop.
  struct Read {
    http::Responder responder;
    Result<std::string> content = Error{ErrorCode::kNotFound, "there is no such package here"};
  };
  auto read = std::make_shared<Read>(Read{std::move(responder)});
  const bool queued = services_.disk(
      [read, file] {
        if (!file.empty()) read->content = read_file(file, limits::kZippedCode.count);
      },
      [read] {
        if (!read->content.ok()) {
          return read->responder.send(error_response(read->content.error()));
        }
        http::Response response;
        response.headers.add("Content-Type", "application/zip");
        response.body = *std::move(read->content);
        read->responder.send(std::move(response));
      });
  if (queued) return;
  read->responder.send(error_response(overloaded()));
}

}  // namespace lambent::frontend
