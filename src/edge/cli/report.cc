#include "edge/cli/report.h"

#include "core/base/fd.h"
#include "edge/cli/run_summary.h"
#include "sim/workload/report.h"

namespace lambent::cli {

int run_report(Console& console, const ReportOptions& options) {
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
