// lambent-simulator: a workload under one or several policies on modelled devices, with the
// worker's own dispatch and scheduling. `lambent simulate` starts it.
#include <unistd.h>

#include <iostream>
#include <set>
#include <sstream>

#include "bin/flag_checks.h"
#include "bin/journal_replay.h"
#include "bin/journal_what_if.h"
#include "bin/simulate_run.h"
#include "bin/simulated_journal.h"
#include "bin/standard_output.h"
#include "bin/timeline_file.h"
#include "bin/usage.h"
#include "core/base/fd.h"
#include "edge/cli/console.h"
#include "sim/workload/csv.h"

namespace {

using namespace lambent;
using namespace lambent::bin;

// What its short help has.
const std::vector<std::string_view> kUsual = {
    "--policy",  "--gpus",     "--concurrency", "--pool", "--memory", "--set",
    "--profile", "--duration", "--load",        "--only", "--replay", "--what-if",
    "--last",    "--from",     "--to",          "--csv",  "--json"};

// What only `lambent simulate` has.
struct JournalOptions {
  std::string folder;  // of the journal to write
  uint64_t most_mib = 1024;
  ReplayJournalOptions replay;
  std::vector<std::string> what_if;
  std::optional<double> last_s, from_s, to_s;
};

void add_journal_flags(CLI::App& app, JournalOptions& options) {
  app.add_option("--journal", options.folder,
                 "record every event in this folder; with several policies, one for each: "
                 "FOLDER-POLICY");
  app.add_option("--journal-size", options.most_mib, "MiB of it at most; the oldest part goes")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 24))
      ->capture_default_str();
  app.add_option("--replay", options.replay.journal,
                 "no simulation: make every decision of this journal again and compare");
  app.add_option(
         "--what-if", options.what_if,
         "with --replay: the journal's arrivals and measured times, simulated under another "
         "KEY=VALUE: D, T, alpha, policy, pool, gpus, memory or a setting of --set")
      ->needs("--replay");
  auto* last =
      app.add_option(
             "--last", options.last_s,
             "with --what-if: only what arrived in so many seconds before the journal's end")
          ->check(CLI::PositiveNumber)
          ->needs("--what-if");
  app.add_option("--from", options.from_s,
                 "with --what-if: only what arrived so many seconds after the worker's last start "
                 "in the journal, or later")
      ->check(within(0.0, 1e9))
      ->excludes(last)
      ->needs("--what-if");
  app.add_option("--to", options.to_s, "with --what-if: only what arrived before this, as --from")
      ->check(within(0.0, 1e9))
      ->excludes(last)
      ->needs("--what-if");
  app.add_option("--timeline", options.replay.timeline,
                 "write what ran where and when as a Chrome trace, for ui.perfetto.dev; with "
                 "several policies, one for each: FILE-POLICY")
      ->check(output_file());
}

// A journal has arrivals, policy and devices of its own: what would change nothing is refused.
std::optional<int> refuse_beside_replay(const CLI::App& app, const JournalOptions& journal) {
  if (journal.replay.journal.empty()) return std::nullopt;
  std::set<std::string> heeded = {"--replay", "--json", "--quiet"};
  if (journal.what_if.empty()) {
    heeded.insert("--timeline");
  } else {
    heeded.insert({"--what-if", "--last", "--from", "--to", "--only", "--csv", "--profile",
                   "--slowdown", "--link", "--host-share", "--touched"});
  }
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() == 0 || heeded.contains(option->get_name())) continue;
    return exit_of(app, CLI::ValidationError(
                            option->get_name() + " changes nothing " +
                            (journal.what_if.empty() ? "with --replay" : "with --what-if") +
                            ": the journal says what there was; --what-if KEY=VALUE, such as D=3, "
                            "tells what would have been"));
  }
  return std::nullopt;
}

std::optional<int> parse(int argc, char** argv, SimulateOptions& options, JournalOptions& journal) {
  CLI::App app(
      "A workload on modelled GPUs, scheduled by the worker's own code, in virtual time.\n"
      "Every figure is simulated.\n\n"
      "Example: lambent simulate t7.csv --policy mqfq-sticky,fcfs --gpus 2 --pool 32",
      "lambent simulate");
  add_simulate_flags(app, options);
  add_journal_flags(app, journal);
  app.add_flag("--clairvoyant", options.clairvoyant,
               "beside the policies, a scheduler that knows all calls before they come: a "
               "schedule to compare with, no bound");
  if (const auto exit_code = bin::parse(app, argc, argv, kUsual)) return *exit_code;
  if (const auto exit_code = refuse_beside_replay(app, journal)) return *exit_code;
  const auto finished = finish_simulate_flags(app, options);
  if (finished.ok()) return std::nullopt;
  cli::Console console{std::cout, std::cerr, options.json, isatty(STDERR_FILENO) != 0};
  return cli::fail(console, finished.error());
}

// One policy's run, with its journal and its timeline if there are to be any.
Result<cli::RunFigures> simulate_policy(const SimulateOptions& options,
                                        const JournalOptions& journal, const std::string& policy) {
  std::unique_ptr<SimulatedJournal> recorded;
  if (!journal.folder.empty()) {
    ASSIGN_OR_RETURN(const SchedulerSettings settings, settings_of(options));
    ASSIGN_OR_RETURN(recorded,
                     SimulatedJournal::open(path_of_policy(options, journal.folder, policy),
                                            Bytes::mib(journal.most_mib),
                                            {.version = LAMBENT_VERSION,
                                             .policy = policy,
                                             .policy_options = settings.policy,
                                             .options = settings.dispatch}));
  }
  std::optional<TimelineFile> drawn;
  if (!journal.replay.timeline.empty()) {
    ASSIGN_OR_RETURN(drawn,
                     TimelineFile::open(path_of_policy(options, journal.replay.timeline, policy)));
  }
  if (!recorded && !drawn) return simulate(options, policy);
  const BeginHook begins = [&](const simulator::Simulation& simulation,
                               const std::vector<std::string>& names) {
    const auto name_of = [names](FunctionId function) { return names[function.value - 1]; };
    if (recorded) recorded->begin(simulation, names);
    if (drawn) drawn->timeline().begin(simulation.dispatcher(), simulation.now(), name_of);
    return [&, name_of](const dispatch::Event& event, Instant now,
                        const std::vector<dispatch::Action>& actions) {
      if (recorded) recorded->record(event, now);
      if (drawn) drawn->timeline().add(event, now, actions, simulation.dispatcher(), name_of);
    };
  };
  ASSIGN_OR_RETURN(cli::RunFigures figures, simulate(options, policy, begins));
  if (recorded) RETURN_IF_ERROR(recorded->finish());
  if (drawn) RETURN_IF_ERROR(drawn->finish());
  return figures;
}

std::string csv_of(const std::vector<cli::RunFigures>& runs) {
  std::ostringstream rows;
  rows << "policy,function,invocations,failed,mean_s,p50_s,p99_s,cold_ratio,queue_mean_s,cold_mean_"
          "s,run_mean_s\n";
  for (const cli::RunFigures& run : runs) {
    for (const workload::FunctionSummary& f : run.summary.functions) {
      rows << run.label << ',' << workload::csv_field(f.name) << ',' << f.count << ',' << f.failed
           << ',' << f.mean_s << ',' << f.p50_s << ',' << f.p99_s << ',' << f.cold_ratio << ','
           << f.queue_mean_s << ',' << f.cold_mean_s << ',' << f.run_mean_s << '\n';
    }
  }
  return rows.str();
}

int run(int argc, char** argv) {
  SimulateOptions options;
  JournalOptions journal;
  if (const auto exit_code = parse(argc, argv, options, journal)) return *exit_code;
  cli::Console console{std::cout, std::cerr, options.json, isatty(STDERR_FILENO) != 0};
  if (!journal.what_if.empty()) {
    const auto time_of = [](const std::optional<double>& seconds) {
      return seconds ? std::optional(from_seconds(*seconds)) : std::nullopt;
    };
    return what_if({.journal = journal.replay.journal,
                    .changes = journal.what_if,
                    .device = options.run.device,
                    .last = time_of(journal.last_s),
                    .from = time_of(journal.from_s),
                    .to = time_of(journal.to_s),
                    .only = options.workload.read.only,
                    .csv = options.csv},
                   console);
  }
  if (!journal.replay.journal.empty()) return replay_journal(journal.replay, console);
  std::vector<cli::RunFigures> runs;
  for (const std::string& policy : options.policies) {
    auto run = simulate_policy(options, journal, policy);
    if (!run.ok()) return cli::fail(console, run.error());
    runs.push_back(std::move(run).value());
  }
  if (options.clairvoyant) {
    // No journal could make its decisions again: they need what it knows.
    auto run = simulate(options, std::string(kClairvoyant));
    if (!run.ok()) return cli::fail(console, run.error());
    runs.push_back(std::move(run).value());
  }
  if (!options.csv.empty()) {
    const auto written = write_file_atomically(options.csv, csv_of(runs), false);
    if (!written.ok()) return cli::fail(console, written.error());
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

}  // namespace

int main(int argc, char** argv) { return after_output(run(argc, argv)); }
