// FunctionCatalogue: what the functions of a paper take on its GPU, as data (share/catalogue).
// Values; used by replay, the generator and the simulator.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/random.h"
#include "core/base/result.h"
#include "core/base/units.h"
#include "sim/workload/lines.h"
#include "sim/workload/phases.h"
#include "sim/workload/trace.h"

namespace lambent::workload {

struct CatalogueEntry {
  std::string name;
  double gpu_warm_s = 0;
  double cpu_warm_s = 0;
  double gpu_cold_s = 0;  // a whole cold invocation
  Bytes device_memory;
  unsigned gpu_count = 1;    // devices that it takes together, with so much memory of each
  unsigned concurrency = 1;  // invocations at once in one sandbox
  // Where the numbers are from: "paper", or "guess" of ours.
  std::string times_source;
  std::string memory_source;
  // What a warm invocation consists of; nothing where the catalogue does not say.
  std::optional<Phases> phases = {};

  // What a cold start adds to a warm invocation; zero where the paper printed less for cold.
  double init_s() const { return gpu_cold_s > gpu_warm_s ? gpu_cold_s - gpu_warm_s : 0; }
  bool operator==(const CatalogueEntry&) const = default;
};

using Catalogue = std::vector<CatalogueEntry>;

// The same function where a warm invocation takes so long, on the host in proportion; it has no
// phases then. What a start adds stays.
CatalogueEntry with_run_time(CatalogueEntry entry, double warm_s);

// INVALID_ARGUMENT names file and lines of bad rows.
Result<Catalogue> read_catalogue(LineReader& lines, const std::string& file);
Result<Catalogue> open_catalogue(const std::string& path);

// The entry of that name, without regard to case; null if there is none.
const CatalogueEntry* find_entry(const Catalogue& catalogue, std::string_view name);

// Gives every function of a trace its entry: the one that it names; else, if the trace recorded
// durations, the longest that is not above it (or the shortest of all); else one drawn by `random`.
// NOT_FOUND if the trace names an entry that the catalogue lacks.
Result<std::vector<const CatalogueEntry*>> assign_entries(const std::vector<TraceFunction>& trace,
                                                          const Catalogue& catalogue,
                                                          Random& random);

}  // namespace lambent::workload
