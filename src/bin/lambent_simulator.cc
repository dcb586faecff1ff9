// lambent-simulator: a workload under one or several policies on modelled devices, with the
// worker's own dispatch and scheduling. `lambent simulate` starts it.
#include <unistd.h>

#include <fstream>
#include <iostream>

#include "bin/simulate_run.h"
#include "cli/console.h"

namespace {

using namespace lambent;
using namespace lambent::bin;

std::optional<int> parse(int argc, char** argv, SimulateOptions& options) {
  CLI::App app(
      "A workload on modelled GPUs, scheduled by the worker's own code, faster than time.\n"
      "Every figure is simulated.\n\n"
      "Example: lambent simulate t7.csv --policy mqfq-sticky,fcfs --gpus 2 --pool 32",
      "lambent simulate");
  add_simulate_flags(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const auto finished = finish_simulate_flags(app, options);
  if (finished.ok()) return std::nullopt;
  cli::Console console{std::cout, std::cerr, options.json, isatty(STDERR_FILENO) != 0};
  return cli::fail(console, finished.error());
}

Result<void> write_csv(const std::string& path, const std::vector<cli::RunFigures>& runs) {
  std::ofstream file(path, std::ios::trunc);
  file << "policy,function,invocations,failed,mean_s,p50_s,p99_s,cold_ratio,queue_mean_s,cold_mean_"
          "s,run_mean_s\n";
  for (const cli::RunFigures& run : runs) {
    for (const workload::FunctionSummary& f : run.summary.functions) {
      file << run.label << ',' << f.name << ',' << f.count << ',' << f.failed << ',' << f.mean_s
           << ',' << f.p50_s << ',' << f.p99_s << ',' << f.cold_ratio << ',' << f.queue_mean_s
           << ',' << f.cold_mean_s << ',' << f.run_mean_s << '\n';
    }
  }
  file.close();
  if (!file) return Error{ErrorCode::kInvalidArgument, "cannot write " + path};
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  SimulateOptions options;
  if (const auto exit_code = parse(argc, argv, options)) return *exit_code;
  cli::Console console{std::cout, std::cerr, options.json, isatty(STDERR_FILENO) != 0};
  std::vector<cli::RunFigures> runs;
  for (const std::string& policy : options.policies) {
    auto run = simulate(options, policy);
    if (!run.ok()) return cli::fail(console, run.error());
    runs.push_back(std::move(run).value());
  }
  if (!options.csv.empty()) {
    if (const auto written = write_csv(options.csv, runs); !written.ok()) {
      return cli::fail(console, written.error());
    }
  }
  if (!options.json) {
    std::cout << cli::table_of(runs) << "All figures are simulated.\n";
    return 0;
  }
  std::string text;
  for (const cli::RunFigures& run : runs) text += (text.empty() ? "" : ",\n") + cli::json_of(run);
  std::cout << "[" << text << "]\n";
  return 0;
}
