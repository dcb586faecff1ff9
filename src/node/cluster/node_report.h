// NodeReport: what a node tells others of itself each second. A value and its JSON; pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"
#include "core/base/units.h"
#include "core/domain/cluster.h"
#include "core/domain/slice.h"
#include "decide/routing/node_view.h"
#include "node/cluster/tenant_shares.h"

namespace lambent::cluster {

struct NodeReport {
  std::string node;
  std::string version;  // of the program
  // Of the process: one of the same name with another is another node. Programs before say nothing
  // of it.
  std::string life = {};
  bool takes_work = true;
  // It becomes another program, and may give no answer for so long without being lost. Programs
  // before say nothing of it.
  Duration silence = {};
  // It brings what an invocation needs from other nodes. Programs before that say nothing of it.
  bool shares_objects = false;
  // It has the versions and aliases of functions that all nodes have. Likewise.
  bool shares_versions = false;
  // What its answers say between nodes (http/forward_words.h) is its own word, and no function's.
  // Likewise.
  bool tells_not_begun = false;
  uint32_t slots = 1;
  uint32_t load = 0;
  Bytes memory_free;
  std::vector<GpuFacts> gpus;
  // What each GPU on which functions take turns has for one. Programs before say nothing of it.
  std::optional<std::vector<Bytes>> for_functions = {};
  // What those of them have that were lost or are drained. Likewise.
  std::vector<Bytes> lost_for_functions = {};
  // Those that its pipelines have, also those that are lost. Programs before say nothing of it.
  std::vector<SliceShape> slices = {};
  // Pipelines that its slices or GPUs can serve, by routing::hash_of(), sorted. Programs before say
  // nothing of it.
  std::optional<std::vector<uint64_t>> pipelines = {};
  // Pipelines that it can serve once slices that it has lost are back. Likewise.
  std::vector<uint64_t> pipelines_later = {};
  // Functions with idle sandboxes, by routing::hash_of(), sorted by it.
  std::vector<std::pair<uint64_t, routing::Warmth>> warm;
  // Functions that ran here lately and have none, likewise. Programs before that say nothing of it.
  std::vector<uint64_t> fetched;
  // Functions whose files, of volumes that another node keeps, are not here. Likewise.
  std::vector<uint64_t> absent = {};
  // Ids of tokens that it revoked while not all could agree on it. Programs before pass it over.
  std::vector<std::string> revoked = {};
  // Of tenants with quotas what they use here. Likewise.
  std::vector<TenantUse> tenants = {};

  // What is known of that, else what its GPUs have.
  std::vector<Bytes> gpus_for_functions() const;
  // The same without what was lost.
  std::vector<Bytes> gpus_at_work() const;
  // Of `fetched` and `absent` what is not warm.
  routing::Warmth warmth(uint64_t function) const;
};

// The most functions that a report names; of more it leaves out some.
constexpr size_t kMostWarm = 4096;
constexpr size_t kMostFetched = 1024;
constexpr size_t kMostPipelines = 16'384;
constexpr size_t kMostSlices = 2048;
constexpr size_t kMostRevoked = 256;
constexpr size_t kTokenIdLength = 64;
constexpr size_t kMostGpus = 256;
constexpr size_t kMostTenantsTold = 1024;

std::string to_json(const NodeReport& report);
// INVALID_ARGUMENT.
Result<NodeReport> parse_report(std::string_view json);
// Also of a report that cannot be read; empty: it has none.
std::string version_in_report(std::string_view json);

}  // namespace lambent::cluster
