#include "edge/frontend/function_target.h"

#include <algorithm>

#include "core/http/authority.h"

namespace lambent::frontend {
namespace {

constexpr std::string_view kFunctions = "/f/";
constexpr std::string_view kTenants = "/t/";
constexpr std::string_view kRepository = "/v2/repository/models/";
constexpr std::string_view kLoad = "/load";
constexpr std::string_view kReady = "/ready";

// The first segment, as it is written.
std::string_view segment_of(std::string_view target) {
  return target.substr(0, std::min(target.find_first_of("/?#"), target.size()));
}

// The name that a segment says; one that cannot be decoded is no function's, as it is.
std::string name_of(std::string_view segment) {
  std::string name;
  return http::percent_decode(segment, name) ? name : std::string(segment);
}

// What follows "/f/" at `at` of a target.
FunctionTarget path_target(std::string_view target, size_t at) {
  FunctionTarget function;
  const std::string_view written = segment_of(target.substr(at + kFunctions.size()));
  function.name = name_of(written);
  const size_t end = at + kFunctions.size() + written.size();
  const std::string_view rest = target.substr(end);
  function.target = std::string(rest.starts_with('/') ? "" : "/") + std::string(rest);
  function.prefix = target.substr(0, end);
  return function;
}

std::optional<FunctionTarget> tenant_target(std::string_view target) {
  if (!target.starts_with(kTenants)) return std::nullopt;
  const std::string_view tenant = segment_of(target.substr(kTenants.size()));
  const size_t at = kTenants.size() + tenant.size();
  if (tenant.empty() || !target.substr(at).starts_with(kFunctions)) return std::nullopt;
  FunctionTarget function = path_target(target, at);
  function.tenant = name_of(tenant);
  return function;
}

std::optional<FunctionTarget> model_target(std::string_view target) {
  FunctionTarget model;
  model.protocol = Protocol::kInference;
  if (target.starts_with(kModels)) {
    const std::string_view written = segment_of(target.substr(kModels.size()));
    model.name = name_of(written);
    model.target = target;
    const std::string_view rest = target.substr(kModels.size() + written.size());
    std::string_view asked = http::path_of(rest);
    if (rest.starts_with(kModelVersions)) {
      const std::string_view version = segment_of(rest.substr(kModelVersions.size()));
      model.model_version = version;
      asked.remove_prefix(kModelVersions.size() + version.size());
    }
    model.asks_readiness = asked == kReady;
    return model;
  }
  if (!target.starts_with(kRepository)) return std::nullopt;
  const std::string_view written = segment_of(target.substr(kRepository.size()));
  model.name = name_of(written);
  if (http::path_of(target.substr(kRepository.size() + written.size())) != kLoad) {
    return std::nullopt;
  }
  // Its program answers that once it runs, which is when the model is loaded.
  model.target = target;
  model.loads_model = true;
  return model;
}

}  // namespace

std::string_view function_label(std::string_view host, std::string_view domain) {
  if (domain.empty() || host.size() < domain.size() + 2 || !host.ends_with(domain)) return {};
  host.remove_suffix(domain.size());
  if (!host.ends_with('.')) return {};
  host.remove_suffix(1);
  return host.find('.') == std::string_view::npos ? host : std::string_view();
}

std::optional<FunctionTarget> function_target(const http::Request& request,
                                              std::string_view domain) {
  const std::string_view target = request.target;
  if (!domain.empty()) {
    const auto host = http::parse_authority(request.headers.get("host"));
    if (host) {
      if (const auto label = function_label(host->host, domain); !label.empty()) {
        return FunctionTarget{std::string(label),
                              std::string(target.starts_with('/') ? "" : "/") + std::string(target),
                              ""};
      }
    }
  }
  if (target.starts_with(kFunctions)) return path_target(target, 0);
  if (auto function = tenant_target(target)) return function;
  return model_target(target);
}

}  // namespace lambent::frontend
