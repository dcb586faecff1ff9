#include "bench/paper_mqfq/workloads.h"

#include <filesystem>
#include <fstream>
#include <iomanip>

#include "bench/json.h"
#include "bench/paper_mqfq/families.h"
#include "sim/workload/generator.h"
#include "sim/workload/trace_reader.h"

namespace lambent::paper_mqfq {
namespace {

using workload::Arrival;

class Replay final : public workload::ArrivalSource {
 public:
  explicit Replay(const std::vector<Arrival>& arrivals) : arrivals_(arrivals) {}
  std::optional<Arrival> next() override {
    return next_ < arrivals_.size() ? std::optional(arrivals_[next_++]) : std::nullopt;
  }

 private:
  const std::vector<Arrival>& arrivals_;
  size_t next_ = 0;
};

Workload workload_of(workload::Trace& trace, const workload::Catalogue& catalogue,
                     const std::string& name, const std::string& family, double length_s) {
  SeededRandom random(1);  // every function names its entry
  Workload workload{.name = name, .family = family, .functions = trace.functions};
  const auto entries = workload::assign_entries(trace.functions, catalogue, random);
  for (const workload::CatalogueEntry* entry : *entries) workload.entries.push_back(*entry);
  workload.arrivals = workload::drain(*trace.arrivals);
  workload.length_s = length_s;
  return workload;
}

// t2, t5 and t8: one of each third by load.
bool trains(size_t row) { return row % 3 == 1; }

Result<Workload> open_row(const std::string& folder, size_t row,
                          const workload::Catalogue& catalogue) {
  const std::string name = "t" + std::to_string(row + 1);
  const std::string path = folder + "/mqfq24/" + name + ".csv";
  ASSIGN_OR_RETURN(workload::Trace trace, workload::open_trace(path, {}));
  for (const workload::TraceFunction& function : trace.functions) {
    if (workload::find_entry(catalogue, function.catalogue_entry) == nullptr) {
      return Error{ErrorCode::kNotFound,
                   path + ": function " + function.name + " names no entry of the catalogue"};
    }
  }
  Workload workload = workload_of(trace, catalogue, name, "mqfq24", 600);
  workload.paper_row = row;
  return workload;
}

}  // namespace

double Workload::load() const {
  double seconds_asked = 0;
  for (const Arrival& arrival : arrivals) seconds_asked += entries[arrival.function].gpu_warm_s;
  return seconds_asked / length_s;
}

const std::vector<PaperRow>& paper_rows() {
  static const std::vector<PaperRow> kRows = {
      {"21.9", 3.932, 7.843, 4.962},     {"25.712", 2.432, 4.511, 2.838},
      {"25.7", 3.434, 8.031, 3.441},     {"23.6", 1.046, 1.371, 1.054},
      {"25.709", 2.929, 7.309, 3.454},   {"25.8", 2.956, 3.512, 2.415},
      {"25.707", 5.630, 37.743, 9.585},  {"25.708", 10.543, 44.450, 13.570},
      {"25.7095", 8.899, 34.719, 11.996}};
  return kRows;
}

Workload generated(const workload::Catalogue& catalogue, const std::string& name, double load,
                   uint64_t seed, double length_s) {
  workload::GeneratorOptions options{
      .duration = from_seconds(length_s), .offered_load = load, .seed = seed};
  workload::Trace trace = std::move(workload::generate(options, catalogue)).value();
  return workload_of(trace, catalogue, name, "generator", length_s);
}

Result<Workloads> open_workloads(const workload::Catalogue& catalogue,
                                 const WorkloadOptions& options) {
  Workloads all;
  // Offered loads of t1 to t9.
  static constexpr double kLoads[] = {0.35, 0.45, 0.48, 0.53, 0.54, 0.65, 0.72, 0.86, 0.93};
  for (size_t row = 0; row < paper_rows().size(); ++row) {
    if (options.traces.empty()) {
      all.nine.push_back(
          generated(catalogue, "g" + std::to_string(row + 1), kLoads[row], 100 + row));
    } else {
      ASSIGN_OR_RETURN(Workload workload, open_row(options.traces, row, catalogue));
      all.nine.push_back(std::move(workload));
    }
    if (trains(row)) all.nine.back().use = Use::kTraining;
  }
  if (!options.traces.empty()) {
    ASSIGN_OR_RETURN(all.others, open_families(options.traces, catalogue, options.quick));
  }
  for (const double load : {0.5, 0.7, 0.85}) {
    for (const uint64_t seed : {uint64_t{1}, uint64_t{2}}) {
      all.drawn.push_back(generated(
          catalogue, "generator-" + std::to_string(seed) + "-" + bench::number(load), load, seed));
      all.drawn.back().use = Use::kTraining;
    }
  }
  return all;
}

Result<void> write_traces(const Workloads& workloads, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  for (const auto* kind : {&workloads.nine, &workloads.others, &workloads.drawn}) {
    for (const Workload& workload : *kind) {
      const std::string path = folder + "/" + workload.name;
      std::ofstream arrivals(path + ".csv"), functions(path + "_functions.csv");
      arrivals << "t_ms,func\n" << std::fixed << std::setprecision(6);
      for (const Arrival& arrival : workload.arrivals) {
        arrivals << to_seconds(arrival.at) * 1e3 << ",f" << arrival.function << "\n";
      }
      functions << "func,gpu_function\n";
      for (size_t i = 0; i < workload.entries.size(); ++i) {
        functions << "f" << i << "," << workload.entries[i].name << "\n";
      }
      if (!arrivals.flush() || !functions.flush()) {
        return Error{ErrorCode::kInvalidArgument, path + ".csv cannot be written"};
      }
    }
  }
  return {};
}

workload::Trace trace_of(const Workload& workload) {
  workload::Trace trace{.name = workload.name, .format = "exact", .functions = workload.functions};
  trace.arrivals = std::make_unique<Replay>(workload.arrivals);
  trace.length = from_seconds(workload.length_s);
  return trace;
}

}  // namespace lambent::paper_mqfq
