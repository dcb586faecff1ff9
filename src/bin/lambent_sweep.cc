// lambent-sweep: simulations over a grid of parameters and seeds, several at once, that goes on
// where it was cut off. `lambent sweep` starts it.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <set>
#include <thread>

#include "bin/cell_work.h"
#include "bin/flag_checks.h"
#include "bin/shown_names.h"
#include "bin/simulate_run.h"
#include "bin/standard_output.h"
#include "bin/sweep_plan.h"
#include "bin/usage.h"
#include "core/base/fd.h"
#include "decide/scheduling/make_policy.h"
#include "edge/cli/console.h"
#include "edge/cli/text_table.h"
#include "sim/sweep/sweep_file.h"
#include "sim/sweep/sweep_page.h"
#include "sim/sweep/sweep_text.h"

namespace {

using namespace lambent;
using namespace lambent::bin;

constexpr size_t kLongestFile = size_t{4} << 30;

struct Options {
  std::vector<std::string> vary;
  std::vector<std::string> policies;
  uint64_t first_seed = 1;
  uint64_t seeds = 1;
  unsigned jobs = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::string> metrics{"mean_s", "p99_s", "cold_ratio", "failed"};
  std::vector<std::string> heat;
  std::string out, csv, page;
  bool json = false, quiet = false;
  std::vector<std::string> arguments;  // for `lambent simulate`
};

std::optional<int> parse(int argc, char** argv, Options& options) {
  CLI::App app(
      "Simulations over a grid of parameters, several at once.\n"
      "Takes every flag of 'lambent simulate' for what stays the same. Every figure is "
      "simulated.\n\n"
      "Example: lambent sweep t7.csv --vary D=1:3 --vary pool=4:32:x2 --policy mqfq-sticky,fcfs "
      "--execution-spread 0.2 --seeds 5 --out sweep.jsonl --page sweep.html",
      "lambent sweep");
  app.allow_extras();
  app.add_option(
         "--vary", options.vary,
         "NAME=A,B,C or NAME=FIRST:LAST:STEP (x2: a factor): a flag of simulate, 'trace', a "
         "scheduler's setting, or D, T, alpha")
      ->allow_extra_args(false);
  app.add_option("--policy", options.policies, "one or several, as in simulate")
      ->check(shown_names(scheduling::policy_names()))
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--seed", options.first_seed, "the first seed")->check(whole_number());
  app.add_option("--seeds", options.seeds, "each cell runs under so many seeds, for intervals")
      ->check(CLI::Range(1, 10'000));
  app.add_option("--jobs", options.jobs, "simulations at once")->check(CLI::Range(1, 1024));
  app.add_option("--metrics", options.metrics, "figures to show")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--heat", options.heat, "ACROSS,DOWN: the axes of the heat maps")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--out", options.out,
                 "keeps each finished cell; the same command goes on where this one stopped");
  app.add_option("--csv", options.csv, "a row per point: means and intervals of every figure")
      ->check(output_file());
  app.add_option("--page", options.page, "an HTML page with heat maps")->check(output_file());
  app.add_flag("--json", options.json, "results as JSON");
  app.add_flag("--quiet", options.quiet, "no progress");
  if (const auto exit_code = bin::parse(app, argc, argv)) return *exit_code;
  options.arguments = app.remaining();
  return std::nullopt;
}

// The results so far, and the file that keeps them.
class Results {
 public:
  explicit Results(const sweep::Grid& grid) : grid_(grid) {}

  // Opens the file and takes from it what a sweep before this one finished.
  Result<void> open(const std::string& path, const sweep::SweepHeader& header) {
    file_ = OwnedFd(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    if (!file_.valid()) return Error{ErrorCode::kInvalidArgument, "cannot write " + path};
    path_ = path;
    if (flock(file_.get(), LOCK_EX | LOCK_NB) != 0) {
      return Error{ErrorCode::kFailedPrecondition, "another sweep is writing " + path};
    }
    ASSIGN_OR_RETURN(const std::string text, read_file(path, kLongestFile));
    ASSIGN_OR_RETURN(sweep::SweepFile found, sweep::read_sweep(text, path));
    const bool begins = found.whole_bytes == 0;
    // A file without a whole line is ours only if it is the beginning of this sweep's first one.
    const std::string difference =
        begins ? (sweep::line_of(header).starts_with(text) ? "" : "it holds something else")
               : sweep::difference(found.header, header);
    if (!difference.empty()) {
      return Error{ErrorCode::kFailedPrecondition,
                   path + " is of another sweep: " + difference + "; give another --out"};
    }
    if (ftruncate(file_.get(), static_cast<off_t>(found.whole_bytes)) != 0) return unwritten();
    if (begins) return append(sweep::line_of(header));
    for (sweep::CellResult& result : found.results) {
      if (done_.insert(result.cell).second) results_.push_back(std::move(result));
    }
    return {};
  }

  bool has(const sweep::Cell& cell) const { return done_.contains(cell); }
  size_t count() const { return results_.size(); }
  const std::vector<sweep::CellResult>& all() const { return results_; }

  Result<void> add(sweep::CellResult result) {
    if (file_.valid()) RETURN_IF_ERROR(append(sweep::line_of(result, grid_)));
    done_.insert(result.cell);
    results_.push_back(std::move(result));
    return {};
  }

 private:
  Error unwritten() const { return {ErrorCode::kDataLoss, "could not write all of " + path_}; }
  Result<void> append(const std::string& line) {
    if (!write_all(file_.get(), line).ok()) return unwritten();
    return {};
  }

  const sweep::Grid& grid_;
  std::string path_;
  OwnedFd file_;
  std::set<sweep::Cell> done_;
  std::vector<sweep::CellResult> results_;
};

// How far the sweep is, on standard error: a bar on a terminal, else a line now and then.
class Progress {
 public:
  Progress(bool quiet, size_t done, size_t all)
      : quiet_(quiet), on_terminal_(isatty(STDERR_FILENO) != 0), before_(done), all_(all) {}
  ~Progress() {
    if (!quiet_ && on_terminal_) std::fprintf(stderr, "\r\x1b[K");
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(size_t done) {
    if (quiet_) return;
    const double passed_s =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    if (!on_terminal_ && passed_s < last_s_ + kLinePeriod_s) return;
    last_s_ = passed_s;
    constexpr size_t kWidth = 30;
    const size_t filled = done * kWidth / all_;
    const double left_s = done > before_ ? passed_s / static_cast<double>(done - before_) *
                                               static_cast<double>(all_ - done)
                                         : 0;
    std::fprintf(stderr, "%s[%s%s] %zu of %zu cells, %.0f s left%s", on_terminal_ ? "\r" : "",
                 std::string(filled, '#').c_str(), std::string(kWidth - filled, '.').c_str(), done,
                 all_, left_s, on_terminal_ ? " \x1b[K" : "\n");
  }

 private:
  static constexpr double kLinePeriod_s = 10;
  bool quiet_;
  bool on_terminal_;
  double last_s_ = 0;
  size_t before_, all_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

std::string command_of(const std::vector<std::string>& arguments) {
  std::string text = "lambent simulate";
  for (const std::string& argument : arguments) text += " " + argument;
  return text;
}

Result<sweep::CellResult> simulate_cell(const SweepPlan& plan, const sweep::Cell& cell) {
  const std::vector<std::string> arguments = arguments_of(plan, cell);
  const auto simulated = [&]() -> Result<cli::RunFigures> {
    ASSIGN_OR_RETURN(auto options, options_of(arguments));
    options.quiet = true;
    return simulate(options, options.policies.front());
  };
  const auto run = simulated();
  if (!run.ok()) {
    return Error{run.error().code, run.error().message + "\n  in " + command_of(arguments)};
  }
  return sweep::CellResult{cell, sweep::figures_of(run->summary, run->utilisation),
                           run->assumptions};
}

Result<void> run_cells(const Options& options, const SweepPlan& plan, Results& results) {
  std::vector<sweep::Cell> left;
  for (sweep::Cell& cell : plan.grid.cells()) {
    if (!results.has(cell)) left.push_back(std::move(cell));
  }
  const size_t before = results.count();
  if (!options.quiet && before > 0) {
    std::fprintf(stderr, "%zu of %zu cells are there already\n", before, plan.grid.size());
  }
  Progress progress(options.quiet, before, plan.grid.size());
  progress.show(before);
  const size_t jobs = std::min<size_t>(options.jobs, left.size());
  CellWork cells(
      std::move(left), [&plan](const sweep::Cell& cell) { return simulate_cell(plan, cell); },
      [&](sweep::CellResult result) -> Result<void> {
        RETURN_IF_ERROR(results.add(std::move(result)));
        progress.show(results.count());
        return {};
      });
  return cells.run(jobs);
}

// The axes of the heat maps: as chosen, else the two with the most values.
Result<void> choose_axes(const Options& options, const sweep::Grid& grid, sweep::SweepPage& page) {
  std::vector<size_t> order;
  for (size_t i = 0; i < grid.axes.size(); ++i) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return grid.axes[a].values.size() > grid.axes[b].values.size();
  });
  page.across = order[0];
  page.down = order.size() > 1 ? order[1] : order[0];
  if (options.heat.empty()) return {};
  std::vector<size_t> chosen;
  for (const std::string& given : options.heat) {
    const std::string name = parameter_name(given);
    for (size_t i = 0; i < grid.axes.size(); ++i) {
      if (grid.axes[i].name == name) chosen.push_back(i);
    }
  }
  if (chosen.size() != options.heat.size() || chosen.size() > 2) {
    return Error{ErrorCode::kInvalidArgument, "--heat takes one or two of what is varied"};
  }
  page.across = chosen.front();
  page.down = chosen.back();
  return {};
}

std::string text_table(const sweep::Grid& grid, const std::vector<sweep::Point>& points,
                       const std::vector<size_t>& metrics) {
  std::vector<std::string> titles;
  for (const sweep::Axis& axis : grid.axes) titles.push_back(axis.name);
  for (const size_t metric : metrics)
    titles.push_back(">" + std::string(sweep::metrics()[metric].name));
  cli::TextTable table(titles);
  for (const sweep::Point& point : points) {
    std::vector<std::string> row = point.values;
    for (const size_t metric : metrics) row.push_back(text_of(point.estimates[metric]));
    table.add(row);
  }
  return table.str();
}

Result<void> sweep_all(const Options& options) {
  sweep::SweepPage page;
  for (const std::string& name : options.metrics) {
    const auto metric = sweep::metric_index(name);
    if (!metric) {
      std::string known;
      for (const sweep::Metric& each : sweep::metrics()) {
        known += (known.empty() ? "" : ", ") + std::string(each.name);
      }
      return Error{ErrorCode::kInvalidArgument, "--metrics " + name + ": there are " + known};
    }
    page.metrics.push_back(*metric);
  }
  ASSIGN_OR_RETURN(const SweepPlan plan,
                   make_sweep_plan(options.arguments, options.vary, options.policies,
                                   options.first_seed, options.seeds));
  if (plan.grid.axes.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "nothing to vary; give --vary NAME=VALUES or --policy"};
  }
  RETURN_IF_ERROR(choose_axes(options, plan.grid, page));
  Results results(plan.grid);
  if (!options.out.empty()) {
    RETURN_IF_ERROR(results.open(options.out, {LAMBENT_VERSION, plan.arguments, plan.grid}));
  }
  RETURN_IF_ERROR(run_cells(options, plan, results));
  page.assumptions = assumptions_of(results.all());
  const std::vector<sweep::Point> points = points_of(plan.grid, results.all());
  if (!options.csv.empty()) {
    RETURN_IF_ERROR(write_file_atomically(options.csv, csv_of(plan.grid, points), false));
  }
  if (!options.page.empty()) {
    page.title = "Lambent: a sweep";
    page.facts = command_of(plan.arguments) + " · " + std::to_string(plan.grid.seeds) +
                 " seeds from " + std::to_string(plan.grid.first_seed);
    RETURN_IF_ERROR(write_file_atomically(options.page, html_of(page, plan.grid, points), false));
  }
  if (options.json) {
    std::cout << json_of(plan.grid, points, page.assumptions);
    return {};
  }
  std::cout << text_table(plan.grid, points, page.metrics);
  if (options.seeds > 1) {
    std::cout << (seeds_change_nothing(points)
                      ? "The seeds change nothing in this workload; --execution-spread draws "
                        "execution times where the trace has none.\n"
                      : "Means over " + std::to_string(options.seeds) +
                            " seeds, ± half of the 95 % confidence interval.\n");
  }
  const size_t failed = *sweep::metric_index("failed");
  if (std::any_of(points.begin(), points.end(),
                  [&](const auto& point) { return point.estimates[failed].mean > 0; })) {
    std::cout
        << "Latencies are of the invocations that succeeded; where many failed they flatter.\n";
  }
  for (const std::string& each : page.assumptions) std::cout << "assumed: " << each << "\n";
  std::cout << "All figures are simulated.\n";
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (const auto exit_code = parse(argc, argv, options)) return *exit_code;
  cli::Console console{std::cout, std::cerr, options.json, isatty(STDERR_FILENO) != 0};
  const auto done = sweep_all(options);
  return done.ok() ? after_output(0) : cli::fail(console, done.error());
}
