#include "edge/cli/report.h"

#include <optional>

#include "core/base/fd.h"
#include "edge/cli/gpu_result.h"
#include "edge/cli/run_summary.h"
#include "sim/workload/report.h"

namespace lambent::cli {
namespace {

constexpr size_t kMostOfGpuResult = 16 << 20;  // what is larger is a run's

// A result of ./dev gpu is no run: it is shown as a table, without others. Nothing where the files
// are runs.
std::optional<int> report_gpu(Console& console, const ReportOptions& options) {
  for (const std::string& file : options.files) {
    const auto text = read_file(file, kMostOfGpuResult);
    if (!text.ok()) continue;  // said below
    const auto table = gpu_table(*text, file);
    if (!table.ok()) return fail(console, table.error());
    if (!table->has_value()) continue;
    if (options.files.size() > 1) {
      return fail(console, {ErrorCode::kInvalidArgument,
                            file + " is a result of ./dev gpu: give no other file with it"});
    }
    console.out << **table;
    return 0;
  }
  return std::nullopt;
}

}  // namespace

int run_report(Console& console, const ReportOptions& options) {
  if (const auto shown = report_gpu(console, options)) return *shown;
  std::vector<workload::RunFile> runs;
  std::vector<RunFigures> figures;
  for (const std::string& file : options.files) {
    auto run = workload::open_run(file);
    if (!run.ok()) return fail(console, run.error());
    figures.push_back(figures_of(*run));
    runs.push_back(std::move(*run));
  }
  if (runs.empty()) return fail(console, {ErrorCode::kInvalidArgument, "no result files"});
  const auto written =
      write_file_atomically(options.output, workload::report_html(runs, options.title), false);
  if (!written.ok()) return fail(console, written.error());
  if (console.json) {
    console.out << "[";
    for (size_t i = 0; i < figures.size(); ++i) {
      console.out << (i == 0 ? "" : ",\n") << json_of(figures[i]);
    }
    console.out << "]\n";
  } else {
    console.out << table_of(figures);
    console.err << "wrote " << options.output << "\n";
  }
  return 0;
}

}  // namespace lambent::cli
