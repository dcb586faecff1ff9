#include "sim/workload/trace_reader.h"

#include <unistd.h>

#include <cmath>

#include "sim/workload/csv.h"
#include "sim/workload/exact_trace.h"
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
  for (const std::string_view ending : {".gz", ".csv"}) {
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
  ASSIGN_OR_RETURN(RowReader rows, RowReader::start(*lines, file));
  const auto read = [&]() -> Result<Trace> {
    if (rows.column("t_ms")) {
      return read_exact_trace(std::move(lines), std::move(rows), functions, file, options);
    }
    if (rows.column("end_timestamp")) return read_azure2021_trace(std::move(rows), file, options);
    if (is_minute_header(rows)) return read_minute_trace(std::move(rows), file, options);
    return Error{ErrorCode::kInvalidArgument,
                 file +
                     " line 1: not a trace that we know. Headers begin with t_ms,function (exact "
                     "times), fid or HashFunction with one column per minute (counts), or have "
                     "func,end_timestamp,duration"};
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
