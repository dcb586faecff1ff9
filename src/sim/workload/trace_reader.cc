#include "sim/workload/trace_reader.h"

#include <unistd.h>

#include <cmath>

#include "sim/workload/csv.h"
#include "sim/workload/exact_trace.h"
#include "sim/workload/interval_trace.h"
#include "sim/workload/known_tables.h"
#include "sim/workload/minute_trace.h"

namespace lambent::workload {
namespace {

// "/traces/t7_functions.csv" for "/traces/t7.csv"; also looked for with ".gz".
std::string functions_path(const std::string& path, const std::string& ending) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : path.substr(0, slash + 1);
  return folder + trace_name_of(path) + "_functions.csv" + ending;
}

Result<std::unique_ptr<LineReader>> open_functions(const std::string& path) {
  for (const char* ending : {"", ".gz"}) {
    const std::string candidate = functions_path(path, ending);
    if (access(candidate.c_str(), F_OK) == 0) return open_lines(candidate);
  }
  return std::unique_ptr<LineReader>();
}

}  // namespace

std::string trace_name_of(const std::string& path) {
  std::string name = path.substr(path.rfind('/') + 1);
  for (const std::string_view ending : {".gz", ".csv", ".tsv", ".txt", ".jsonl", ".json"}) {
    if (name.size() > ending.size() && name.ends_with(ending)) {
      name.resize(name.size() - ending.size());
    }
  }
  return name;
}

Result<Trace> read_trace(std::unique_ptr<LineReader> lines, LineReader* functions,
                         const std::string& file, const TraceOptions& options) {
  if (!(options.rate_scale > 0) || !std::isfinite(options.rate_scale)) {
    return Error{ErrorCode::kInvalidArgument, "the rate scale must be above zero"};
  }
  ASSIGN_OR_RETURN(RowReader rows, RowReader::start(*lines, file, options.header));
  const auto read = [&]() -> Result<Trace> {
    if (!options.columns.empty()) {
      ASSIGN_OR_RETURN(TableLayout chosen,
                       layout_of(options.columns, rows, file, options.token_rates));
      return read_exact_trace(std::move(lines), std::move(rows), std::move(chosen), functions, file,
                              options);
    }
    ASSIGN_OR_RETURN(auto known, known_layout(rows, file, options.token_rates));
    if (known) {
      return read_exact_trace(std::move(lines), std::move(rows), *std::move(known), functions, file,
                              options);
    }
    if (rows.column("end_timestamp")) return read_azure2021_trace(std::move(rows), file, options);
    if (is_minute_header(rows)) return read_minute_trace(std::move(rows), file, options);
    if (is_interval_header(rows)) {
      return read_interval_trace(std::move(lines), std::move(rows), file, options);
    }
    return unknown_header(rows, file);
  };
  ASSIGN_OR_RETURN(Trace trace, read());
  trace.name = trace_name_of(file);
  return trace;
}

Result<Trace> open_trace(const std::string& path, const TraceOptions& options) {
  ASSIGN_OR_RETURN(auto lines, open_lines(path));
  ASSIGN_OR_RETURN(const auto functions, open_functions(path));
  return read_trace(std::move(lines), functions.get(), path, options);
}

}  // namespace lambent::workload
