// Verbs of lambent that send load, and measure.
#include "bin/former_names.h"
#include "bin/lambent_verbs.h"

#include <memory>
#include <utility>

#include "bin/flag_checks.h"
#include "bin/lambent_paths.h"
#include "bin/trace_flags.h"
#include "core/domain/function_limits.h"
#include "edge/cli/calibrate.h"
#include "edge/cli/limits.h"
#include "edge/cli/load.h"
#include "edge/cli/replay.h"
#include "edge/cli/report.h"

namespace lambent::bin {
namespace {

struct ReplayFlags {
  cli::ReplayOptions options;
  double start_s = 0;
  double duration_s = 0;
  bool no_overhead = false;
};

// Which invocations are sent when.
void add_workload_flags(CLI::App* verb, ReplayFlags& flags) {
  cli::ReplayOptions& options = flags.options;
  verb->add_option("TRACE", options.trace, kTraceHelp);
  verb->add_option("--functions", options.catalogue, "the catalogue: what functions take");
  verb->add_option("--time-scale", options.time_scale,
                   "modelled seconds per real second, as the worker's device has it")
      ->capture_default_str();
  verb->add_option("--duration", flags.duration_s, "seconds of the trace's window (0: to its end)")
      ->check(within(0.0, 1e9))
      ->capture_default_str();
  verb->add_option("--start", flags.start_s, "seconds into the trace where the window begins")
      ->check(within(0.0, 1e9))
      ->capture_default_str();
  add_trace_flags(*verb, options.read);
  verb->add_option("--seed", options.read.seed, "seed of spreading, drawing and generating")
      ->check(whole_number())
      ->capture_default_str();
  verb->add_flag("--resample", options.resamples,
                 "draw each function's arrivals again, by --seed, from the gaps that it has in the "
                 "trace");
  verb->add_option("--load", options.load, "offered load of a generated workload")
      ->check(within(1e-6, 1e6))
      ->capture_default_str();
}

}  // namespace

void add_replay(Shell& shell) {
  auto flags = std::make_shared<ReplayFlags>();
  cli::ReplayOptions& options = flags->options;
  options.catalogue = find_shared("catalogue/mqfq_table1.csv");
  options.paper_function = find_example("06_paper_function");
  CLI::App* verb =
      add_verb(shell, "replay", "send a trace at its own times and tell what came of it",
               "lambent replay t7.csv --deploy --time-scale 10 --duration 120 --out mqfq.jsonl");
  add_workload_flags(verb, *flags);
  verb->add_option("--out", options.out, "write a result file for 'lambent report'")
      ->check(output_file());
  verb->add_option("--label", options.label, "name of the run (default: the worker's policy)");
  verb->add_flag("--deploy", options.deploy, "deploy a paper function for each function first");
  verb->add_option("--paper-function", options.paper_function, "the folder of its package");
  verb->add_flag("--phases", options.phases,
                 "what is deployed works on the host, copies and runs kernels by turns, as the "
                 "catalogue has it")
      ->needs("--deploy");
  verb->add_flag("--cpu-variants", options.cpu_variants,
                 "deploy them with a CPU variant, as slow as the catalogue says");
  verb->add_option("--max-concurrency", options.max_concurrency,
                   "of each function that is deployed: sandboxes at work at once")
      ->check(CLI::Range(1U, limits::kMostConcurrency))
      ->capture_default_str();
  verb->add_option("--prefix", options.prefix, "prefix of the names of the deployed functions")
      ->capture_default_str();
  verb->add_option("--give-up", options.give_up_s,
                   "modelled seconds to wait for answers after the last arrival")
      ->check(within(0.0, 1e6))
      ->capture_default_str();
  verb->add_option("--outstanding", options.most_outstanding,
                   "invocations that may wait at once; those beyond are counted, not sent")
      ->check(CLI::Range(size_t{1}, limits::kReplayOutstanding))
      ->capture_default_str();
  verb->add_flag("--no-overhead", flags->no_overhead,
                 "do not measure the overhead first; the result is then not checked by it");
  verb->callback([&shell, flags] {
    cli::ReplayOptions& chosen = flags->options;
    chosen.read.start = from_seconds(flags->start_s);
    chosen.read.length = from_seconds(flags->duration_s);
    chosen.measure_overhead = !flags->no_overhead;
    shell.verb = [&shell, flags](Transport& transport, const cli::Destination& destination) {
      return cli::run_replay(transport, destination, shell.console, flags->options);
    };
  });
}

void add_load(Shell& shell) {
  auto options = std::make_shared<cli::LoadOptions>();
  auto offline = std::make_shared<bool>(false);
  CLI::App* verb =
      add_verb(shell, "load", "measure how much functions give, and how long answers take",
               "lambent load matmul --clients 8 --online --seconds 30");
  verb->add_option("FUNCTION", options->functions, "client i calls function i, modulo their number")
      ->required();
  verb->add_option("--clients", options->clients, "clients that ask at once")
      ->check(CLI::Range(1u, static_cast<unsigned>(limits::kReplayOutstanding)))
      ->capture_default_str();
  verb->add_option("--outstanding", options->outstanding,
                   "offline: requests that each client has under way")
      ->check(CLI::Range(1u, static_cast<unsigned>(limits::kReplayOutstanding)))
      ->capture_default_str();
  auto* offline_flag = verb->add_flag(
      "--offline", *offline, "ask as fast as answers come, and measure nothing else (default)");
  auto* online_flag =
      verb->add_flag("--online", options->online,
                     "also at random times (Poisson), at a share of the offline rate")
          ->excludes(offline_flag);
  verb->add_option("--rate-of-peak", options->rate_of_peak, "online: the share of the offline rate")
      ->needs(online_flag)
      ->check(within(0.001, 10.0))
      ->capture_default_str();
  verb->add_option("--rate", options->rate, "online: requests a second; no peak is measured first")
      ->check(within(0.001, 1e6))
      ->excludes(offline_flag);
  verb->add_option("--seconds", options->seconds, "seconds of each run that are counted")
      ->check(within(0.1, 86400.0))
      ->capture_default_str();
  verb->add_option("--warm-up", options->warm_up_seconds,
                   "seconds before those that are counted (default: a tenth as many)")
      ->check(within(0.0, 86400.0));
  verb->add_option("--most-outstanding", options->most_outstanding,
                   "online: requests that may wait at once; those beyond are counted, not sent")
      ->check(CLI::Range(size_t{1}, limits::kReplayOutstanding))
      ->capture_default_str();
  verb->add_option("--give-up", options->give_up_seconds,
                   "seconds to wait for answers after the last request")
      ->check(within(0.0, 86400.0))
      ->capture_default_str();
  auto* data = verb->add_option("-d,--data", options->payload,
                                "the event, JSON (default {}); @FILE: from a file, -: from stdin");
  verb->add_option("--file", options->payload_file, "the event from a file; - is stdin")
      ->excludes(data);
  bin::add_former_option(*verb, "--payload", "--file", options->payload_file)->excludes(data);
  verb->add_option("--content-type", options->content_type, "what the event is");
  verb->add_option("--seed", options->seed, "seed of the times and of whose turn it is")
      ->check(whole_number())
      ->capture_default_str();
  verb->add_option("--csv", options->csv, "write the distributions of latencies to this file");
  verb->callback([&shell, options] {
    if (options->rate) options->online = true;
    if (size_t{options->clients} * options->outstanding > limits::kReplayOutstanding) {
      throw CLI::ValidationError("--clients times --outstanding",
                                 "at most " + std::to_string(limits::kReplayOutstanding));
    }
    shell.verb = [&shell, options](Transport& transport, const cli::Destination& destination) {
      return cli::run_load_verb(transport, destination, shell.console, *options);
    };
  });
}

void add_calibrate(Shell& shell) {
  auto options = std::make_shared<cli::CalibrateOptions>();
  options->paper_function = find_example("06_paper_function");
  CLI::App* verb =
      add_verb(shell, "calibrate", "measure a worker's node for 'lambent simulate --profile'",
               "lambent calibrate -o node.toml");
  verb->add_option("-o,--output", options->output, "the profile to write");
  verb->add_option("--repeats", options->repeats, "repeats of each measurement; the median counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  verb->add_option("--paper-function", options->paper_function, "the folder of its package");
  verb->callback([&shell, options] {
    shell.verb = [&shell, options](Transport& transport, const cli::Destination& destination) {
      return cli::run_calibrate(transport, destination, shell.console, *options);
    };
  });
}

void add_report(Shell& shell) {
  auto options = std::make_shared<cli::ReportOptions>();
  CLI::App* verb =
      add_verb(shell, "report", "write one HTML page (and a table) from the result files of runs",
               "lambent report fcfs.jsonl mqfq.jsonl -o report.html");
  verb->add_option("FILE", options->files,
                   "result files of 'lambent replay --out'; or one of "
                   "./dev gpu")
      ->required();
  verb->add_option("-o,--output", options->output, "the page to write");
  verb->add_option("--title", options->title, "title of the page");
  verb->callback([&shell, options] {
    shell.verb = [&shell, options](Transport&, const cli::Destination&) {
      return cli::run_report(shell.console, *options);
    };
  });
}

}  // namespace lambent::bin
