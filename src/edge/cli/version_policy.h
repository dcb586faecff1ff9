// VersionPolicy: which versions of a model are served, in Triton's words. A value; used by deploy.
#pragma once

#include <cstdint>
#include <set>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace lambent::cli {

struct VersionPolicy {
  enum class Kind { kLatest, kAll, kSpecific };
  Kind kind = Kind::kLatest;
  uint64_t latest = 1;               // kLatest: the highest so many
  std::set<uint64_t> specific = {};  // kSpecific

  bool operator==(const VersionPolicy&) const = default;
};

// "latest:2", "all", "specific:1,3". INVALID_ARGUMENT for anything else.
Result<VersionPolicy> parse_version_policy(std::string_view text);
// Those of `there` that it serves, in order. NOT_FOUND: one that it names is not there.
Result<std::vector<uint64_t>> served_versions(const VersionPolicy& policy,
                                              const std::set<uint64_t>& there);

}  // namespace lambent::cli
