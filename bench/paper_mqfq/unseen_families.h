// Families of workloads with arrivals that the nine traces and the other families do not have. Each
// workload is drawn from a seed; one decision was chosen on the first seeds (kJudgedUnseenSeed).
// Values; deterministic; used by the experiment "unseen".
#pragma once

#include <span>
#include <string>
#include <vector>

#include "bench/paper_mqfq/constants.h"
#include "bench/paper_mqfq/workloads.h"

namespace lambent::paper_mqfq {

// A client that sends its next call so long after it has its answer.
struct ClosedClient {
  uint32_t function = 0;
  double first_s = 0;
  double think_s = 0;
};

struct UnseenWorkload {
  Workload base;  // functions, entries and arrivals by time
  // What each arrival takes by itself, in seconds; empty: what its function's entry says.
  std::vector<double> takes_s;
  std::vector<ClosedClient> clients;  // beside the arrivals, until the length is over
  // Who has waited so long for a turn gives up, and calls again a second later, until it is served:
  // its latency is since its first call. Zero: clients wait.
  double gives_up_after_s = 0;
};

// A family, and what is drawn with a workload of it.
struct UnseenFamily {
  const char* name;
  const char* what;       // in a line, for the report
  bool is_later = false;  // it came with decision 0182, after those before had been chosen beside
};
std::span<const UnseenFamily> unseen_families();

// Where a workload of the family is judged: GPUs, D, pool and slow-down, drawn.
struct UnseenSite {
  Site site;
  double slowdown = 0;
};

// The same family, seed and site give the same workload on every machine. Its load is scaled to
// what the site's GPUs can do. NOT_FOUND for a family that unseen_families() does not have.
Result<UnseenWorkload> unseen_workload(const std::string& family, uint64_t seed,
                                       const UnseenSite& site,
                                       const workload::Catalogue& catalogue);
// The `number`-th site of the family and seed. Of every four successive ones each has another D.
UnseenSite unseen_site(const std::string& family, uint64_t seed, unsigned number);

}  // namespace lambent::paper_mqfq
