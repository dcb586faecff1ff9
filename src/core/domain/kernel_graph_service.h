// KernelGraphService: graphs of kernels that came with requests and are kept for the next ones,
// each under the digest of its package. The worker implements it, frontends call it, tests fake it.
// All calls and callbacks happen on the loop thread.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"
#include "core/base/units.h"
#include "core/domain/function.h"

namespace lambent {

// A kept graph runs as a kernel function that no catalog has. No function that is deployed can have
// such a name.
constexpr std::string_view kKeptGraphPrefix = "graph@";
// So much of the digest follows, unless two begin alike: the later one has more.
constexpr size_t kKeptGraphDigits = 12;
inline bool is_kept_graph(const FunctionName& name) {
  return name.name.starts_with(kKeptGraphPrefix);
}

// A SHA-256 as kept graphs are named by: 64 hexadecimal digits in lower case.
bool is_graph_digest(std::string_view text);

struct KeptGraph {
  std::string digest;     // of its package
  FunctionName function;  // under which it runs
  Bytes package;          // its zip
  Bytes device_memory;    // that a request takes
  Duration last_used{};   // since the Unix epoch

  bool operator==(const KeptGraph&) const = default;
};

class KernelGraphService {
 public:
  template <typename T>
  using Callback = std::function<void(Result<T>)>;

  virtual ~KernelGraphService() = default;
  // NOT_FOUND: it was never here, or is here no more. It was used now.
  virtual Result<KeptGraph> find_graph(TenantId tenant, const std::string& digest) = 0;
  // Checks the package, a zip, as that of a kernel function, and keeps it; one that is kept already
  // is only used. INVALID_ARGUMENT names the place: another digest, no zip, a graph that makes no
  // sense. OUT_OF_RANGE: it is too large. RESOURCE_EXHAUSTED: as many are kept as may be, and all
  // of them run; or a quota.
  virtual void put_graph(TenantId tenant, std::string digest, std::string package,
                         Callback<KeptGraph> done) = 0;
  // In order of their digests.
  virtual std::vector<KeptGraph> list_graphs(TenantId tenant) const = 0;
  // NOT_FOUND; FAILED_PRECONDITION: it runs.
  virtual Result<KeptGraph> remove_graph(TenantId tenant, const std::string& digest) = 0;
};

}  // namespace lambent
