#include "edge/frontend/function_target.h"

#include <algorithm>

#include "core/http/authority.h"

namespace lambent::frontend {
namespace {

constexpr std::string_view kFunctions = "/f/";

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
  if (!target.starts_with(kFunctions)) return std::nullopt;
  const size_t end = std::min(target.find_first_of("/?#", kFunctions.size()), target.size());
  const std::string_view name = target.substr(kFunctions.size(), end - kFunctions.size());
  const std::string_view rest = target.substr(end);
  return FunctionTarget{std::string(name),
                        std::string(rest.starts_with('/') ? "" : "/") + std::string(rest),
                        std::string(target.substr(0, end))};
}

}  // namespace lambent::frontend
