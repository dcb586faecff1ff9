#include "bench/paper_mqfq/own_traces.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "sim/workload/generator.h"
#include "sim/workload/trace_reader.h"

namespace lambent::paper_mqfq {
namespace {

// "azure_llm" for "azure_llm-0.5": what stands before the first dash.
std::string family_of(const std::string& name) { return "own:" + name.substr(0, name.find('-')); }

Result<Workload> open_own(const std::string& path, const workload::Catalogue& catalogue) {
  ASSIGN_OR_RETURN(workload::Trace trace, workload::open_trace(path, {}));
  Workload workload{.name = workload::trace_name_of(path), .functions = trace.functions};
  workload.family = family_of(workload.name);
  SeededRandom random(1);
  ASSIGN_OR_RETURN(const auto entries,
                   workload::assign_entries(trace.functions, catalogue, random));
  for (const workload::CatalogueEntry* entry : entries) workload.entries.push_back(*entry);
  workload.arrivals = workload::drain(*trace.arrivals);
  if (workload.arrivals.empty()) {
    return Error{ErrorCode::kInvalidArgument, path + " has no invocations"};
  }
  // Whole seconds, for no trace says how long nothing came after its last invocation.
  workload.length_s = std::max(1.0, std::ceil(to_seconds(workload.arrivals.back().at)));
  return workload;
}

}  // namespace

Result<std::vector<Workload>> open_own_traces(const std::string& folder,
                                              const workload::Catalogue& catalogue) {
  std::vector<std::string> paths;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/own", none)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".csv") && !name.ends_with("_functions.csv")) {
      paths.push_back(entry.path().string());
    }
  }
  std::ranges::sort(paths);
  std::vector<Workload> all;
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(Workload one, open_own(path, catalogue));
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace lambent::paper_mqfq
