// The workloads of the comparison: the nine traces made after the paper's, families made from other
// public traces, and our own generator's. Values; deterministic.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "sim/workload/catalogue.h"
#include "sim/workload/trace.h"

namespace lambent::paper_mqfq {

// Parameters are chosen on the first kind and judged on the second.
enum class Use { kTraining, kJudged };

struct Workload {
  std::string name;
  std::string family;
  Use use = Use::kJudged;
  std::vector<workload::TraceFunction> functions;
  std::vector<workload::CatalogueEntry> entries;  // one for each function
  std::vector<workload::Arrival> arrivals;        // by time
  double length_s = 0;
  // Of the trace of Table 3 that it was made after; none for the other families.
  std::optional<size_t> paper_row;

  // Device seconds asked for per second, were all warm and alone.
  double load() const;
  double per_second() const { return static_cast<double>(arrivals.size()) / length_s; }
};

// A row of the paper's Table 3: mean latencies in seconds. The order is that of mqfq24's t1 to t9.
struct PaperRow {
  const char* trace;
  double mqfq_s, fcfs_s, batch_s;
};
const std::vector<PaperRow>& paper_rows();

struct WorkloadOptions {
  std::string traces;  // the folder; empty: nine of the generator's stand in for t1 to t9
  bool quick = false;
};

struct Workloads {
  std::vector<Workload> nine;    // t1 to t9, or what stands in for them
  std::vector<Workload> others;  // judged only
  std::vector<Workload> drawn;   // of the generator: training only
};
Result<Workloads> open_workloads(const workload::Catalogue& catalogue,
                                 const WorkloadOptions& options);

// One of the generator: `load` device seconds a second over 600 s.
Workload generated(const workload::Catalogue& catalogue, const std::string& name, double load,
                   uint64_t seed, double length_s = 600);

// Each as NAME.csv with its NAME_functions.csv, which `lambent simulate`, `sweep` and `replay`
// read. The folder is made. INVALID_ARGUMENT if a file cannot be written.
Result<void> write_traces(const Workloads& workloads, const std::string& folder);

// One after the other, for run_workload(); `workload` outlives the trace.
workload::Trace trace_of(const Workload& workload);

}  // namespace lambent::paper_mqfq
