#include "edge/cli/version_policy.h"

#include <algorithm>
#include <string>

#include "core/domain/version.h"

namespace lambent::cli {
namespace {

constexpr std::string_view kLatest = "latest:";
constexpr std::string_view kSpecific = "specific:";

}  // namespace

Result<VersionPolicy> parse_version_policy(std::string_view text) {
  const Error wrong{
      ErrorCode::kInvalidArgument,
      "'" + std::string(text) + "' is no version policy; it is latest:N, all or specific:N,N"};
  VersionPolicy policy;
  if (text == "all") {
    policy.kind = VersionPolicy::Kind::kAll;
    return policy;
  }
  if (text.starts_with(kLatest)) {
    const auto number = version_number(text.substr(kLatest.size()));
    if (!number) return wrong;
    policy.latest = *number;
    return policy;
  }
  if (!text.starts_with(kSpecific)) return wrong;
  policy.kind = VersionPolicy::Kind::kSpecific;
  text.remove_prefix(kSpecific.size());
  for (size_t start = 0; start <= text.size();) {
    const size_t end = std::min(text.find(',', start), text.size());
    const auto number = version_number(text.substr(start, end - start));
    if (!number) return wrong;
    policy.specific.insert(*number);
    start = end + 1;
  }
  return policy;
}

Result<std::vector<uint64_t>> served_versions(const VersionPolicy& policy,
                                              const std::set<uint64_t>& there) {
  std::vector<uint64_t> served(there.begin(), there.end());
  if (policy.kind == VersionPolicy::Kind::kLatest && served.size() > policy.latest) {
    served.erase(served.begin(), served.end() - static_cast<ptrdiff_t>(policy.latest));
  }
  if (policy.kind != VersionPolicy::Kind::kSpecific) return served;
  for (const uint64_t version : policy.specific) {
    if (there.contains(version)) continue;
    return Error{ErrorCode::kNotFound, "the version policy names version " +
                                           std::to_string(version) + ", which is not there"};
  }
  return std::vector<uint64_t>(policy.specific.begin(), policy.specific.end());
}

}  // namespace lambent::cli
