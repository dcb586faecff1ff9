#include "sim/workload/catalogue.h"

#include <strings.h>

#include <algorithm>

#include "core/domain/function.h"
#include "core/domain/limits.h"
#include "sim/workload/csv.h"

namespace lambent::workload {
namespace {

const CatalogueEntry* closest_below(const Catalogue& catalogue, double seconds) {
  const CatalogueEntry* smallest = &catalogue.front();
  const CatalogueEntry* best = nullptr;
  for (const CatalogueEntry& entry : catalogue) {
    if (entry.gpu_warm_s < smallest->gpu_warm_s) smallest = &entry;
    if (entry.gpu_warm_s > seconds) continue;
    if (best == nullptr || entry.gpu_warm_s > best->gpu_warm_s) best = &entry;
  }
  return best == nullptr ? smallest : best;
}

}  // namespace

CatalogueEntry with_run_time(CatalogueEntry entry, double warm_s) {
  const double start_s = entry.init_s();
  entry.cpu_warm_s *= warm_s / entry.gpu_warm_s;
  entry.gpu_warm_s = warm_s;
  entry.gpu_cold_s = warm_s + start_s;
  entry.phases.reset();
  return entry;
}

Result<Catalogue> read_catalogue(LineReader& lines, const std::string& file) {
  ASSIGN_OR_RETURN(RowReader rows, RowReader::start(lines, file));
  ASSIGN_OR_RETURN(const size_t name, rows.required_column("name"));
  ASSIGN_OR_RETURN(const size_t gpu_warm, rows.required_column("gpu_warm_s"));
  ASSIGN_OR_RETURN(const size_t cpu_warm, rows.required_column("cpu_warm_s"));
  ASSIGN_OR_RETURN(const size_t gpu_cold, rows.required_column("gpu_cold_s"));
  ASSIGN_OR_RETURN(const size_t memory, rows.required_column("device_memory_mib"));
  ASSIGN_OR_RETURN(const size_t times_source, rows.required_column("times_source"));
  ASSIGN_OR_RETURN(const size_t memory_source, rows.required_column("memory_source"));
  const std::optional<size_t> gpu_count = rows.column("gpu_count");
  const std::optional<size_t> concurrency = rows.column("concurrency");
  ASSIGN_OR_RETURN(const PhaseColumns phase_columns, PhaseColumns::of(rows, file));
  constexpr double kMostSeconds = 1e6;
  constexpr uint64_t kMostMib = 1 << 20;

  Catalogue catalogue;
  BadRows bad(file);
  std::vector<std::string_view> fields;
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, rows.next(fields, bad));
    if (!more) break;
    CatalogueEntry entry{.name = std::string(fields[name]),
                         .times_source = std::string(fields[times_source]),
                         .memory_source = std::string(fields[memory_source])};
    std::string wrong;
    const auto read_seconds = [&](size_t column, double& seconds) {
      const auto number = number_of(fields[column]);
      if (number && *number > 0 && *number <= kMostSeconds) {
        seconds = *number;
      } else if (wrong.empty()) {
        wrong = rows.header()[column] + " is '" + std::string(fields[column].substr(0, 40)) +
                "', not a number of seconds above 0 and up to 1e6";
      }
    };
    read_seconds(gpu_warm, entry.gpu_warm_s);
    read_seconds(cpu_warm, entry.cpu_warm_s);
    read_seconds(gpu_cold, entry.gpu_cold_s);
    if (wrong.empty()) {
      auto phases = phase_columns.parse(fields, entry.gpu_warm_s);
      if (phases.ok()) {
        entry.phases = std::move(*phases);
      } else {
        wrong = phases.error().message;
      }
    }
    const auto mib = whole_number_of(fields[memory]);
    // One where there is no such column, or nothing in it.
    const auto count_in = [&](const std::optional<size_t>& column) {
      const bool is_given = column && !fields[*column].empty();
      return is_given ? whole_number_of(fields[*column]) : std::optional<uint64_t>(1);
    };
    const auto gpus = count_in(gpu_count);
    const auto at_once = count_in(concurrency);
    if (entry.name.empty()) {
      bad.add(rows.line(), "the function has no name");
    } else if (!wrong.empty()) {
      bad.add(rows.line(), wrong);
    } else if (!mib || *mib > kMostMib) {
      bad.add(rows.line(), "device_memory_mib is '" + std::string(fields[memory]) + "'");
    } else if (!gpus || *gpus == 0 || *gpus > kMostGpusOfFunction) {
      bad.add(rows.line(), "gpu_count is '" + std::string(fields[*gpu_count]) + "', not 1 to " +
                               std::to_string(kMostGpusOfFunction));
    } else if (!at_once || *at_once == 0 || *at_once > limits::kMostSandboxConcurrency) {
      bad.add(rows.line(), "concurrency is '" + std::string(fields[*concurrency]) + "', not 1 to " +
                               std::to_string(limits::kMostSandboxConcurrency));
    } else if (find_entry(catalogue, entry.name) != nullptr) {
      bad.add(rows.line(), "function '" + entry.name + "' has a row already");
    } else {
      entry.device_memory = Bytes::mib(*mib);
      entry.gpu_count = static_cast<unsigned>(*gpus);
      entry.concurrency = static_cast<unsigned>(*at_once);
      catalogue.push_back(std::move(entry));
    }
  }
  RETURN_IF_ERROR(bad.verdict());
  if (catalogue.empty()) {
    return Error{ErrorCode::kInvalidArgument, file + " has no functions"};
  }
  return catalogue;
}

Result<Catalogue> open_catalogue(const std::string& path) {
  ASSIGN_OR_RETURN(const auto lines, open_lines(path));
  return read_catalogue(*lines, path);
}

const CatalogueEntry* find_entry(const Catalogue& catalogue, std::string_view name) {
  const auto same = [&](const CatalogueEntry& entry) {
    return entry.name.size() == name.size() &&
           strncasecmp(entry.name.data(), name.data(), name.size()) == 0;
  };
  const auto found = std::find_if(catalogue.begin(), catalogue.end(), same);
  return found == catalogue.end() ? nullptr : &*found;
}

Result<std::vector<const CatalogueEntry*>> assign_entries(const std::vector<TraceFunction>& trace,
                                                          const Catalogue& catalogue,
                                                          Random& random) {
  CHECK(!catalogue.empty(), "a catalogue has at least one function");
  std::vector<const CatalogueEntry*> entries;
  for (const TraceFunction& function : trace) {
    const CatalogueEntry* entry = nullptr;
    if (!function.catalogue_entry.empty()) {
      entry = find_entry(catalogue, function.catalogue_entry);
      if (entry == nullptr) {
        return Error{ErrorCode::kNotFound,
                     "function '" + function.name + "' of the trace stands for '" +
                         function.catalogue_entry + "', which the catalogue does not have"};
      }
    } else if (function.recorded_s) {
      entry = closest_below(catalogue, *function.recorded_s);
    } else {
      entry = &catalogue[random.below(catalogue.size())];
    }
    entries.push_back(entry);
  }
  return entries;
}

}  // namespace lambent::workload
