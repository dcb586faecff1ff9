// Verbs of lambent about pipelines.
#include "bin/former_names.h"
#include "bin/lambent_verbs.h"

#include <memory>
#include <utility>

#include "bin/flag_checks.h"
#include "edge/cli/plan.h"
#include "edge/cli/profile.h"

namespace lambent::bin {

void add_profile(Shell& shell) {
  auto options = std::make_shared<cli::ProfileOptions>();
  CLI::App* verb = add_verb(shell, "profile",
                            "measure a pipeline function on a slice of each shape that is free",
                            "lambent profile app --file event.json --repeat 20 -o profile.json");
  verb->add_option("NAME", options->name, "the function")->required();
  auto* data = verb->add_option("-d,--data", options->event, "the event, JSON (default {})");
  verb->add_option("--file", options->file, "the event from a file; - is stdin")->excludes(data);
  verb->add_option("--repeat", options->repeat, "runs on each shape, after a first one")
      ->check(CLI::Range(1u, 1000u))
      ->capture_default_str();
  verb->add_option("-o,--output,--out", options->output, "write profile.json to this file");
  verb->callback([&shell, options] {
    shell.verb = [&shell, options](Transport& transport, const cli::Destination&) {
      return cli::run_profile(transport, shell.console, *options);
    };
  });
}

void add_plan(Shell& shell) {
  struct Flags {
    cli::PlanOptions options;
    double handover_ms = 0;
  };
  auto flags = std::make_shared<Flags>();
  cli::PlanOptions& options = flags->options;
  CLI::App* verb = add_verb(
      shell, "plan", "show how a pipeline function would be cut and placed on free slices, and why",
      "lambent plan --pipeline app/pipeline.json --profile profile.json --slices "
      "4g.40gb,2g.20gb,1g.10gb");
  auto* name = verb->add_option("FUNCTION", options.function, "of the worker");
  verb->add_option("--pipeline", options.pipeline,
                   "without a worker: its pipeline.json, or the folder with it or its lambent.toml")
      ->excludes(name);
  verb->add_option("--profile", options.profile,
                   "its profile.json (default: the worker's, or the one beside it); without one "
                   "all components count as equally long");
  verb->add_option(
      "--slices", options.slices,
      "slices that are free on each GPU, such as 4g.40gb,3*1g.10gb (default: the worker's)");
  verb->add_option("--family", options.family, "family of the devices that these are slices of")
      ->check(CLI::IsMember({"a100-40gb", "a100-80gb", "h100-80gb", "h200"}))
      ->capture_default_str();
  verb->add_option("--gpus", options.gpus, "number of GPUs with these slices, of one node")
      ->check(CLI::Range(1u, 64u));
  verb->add_option("--memory", options.memory,
                   "instead of what the manifest declares (8G): for what was not measured");
  verb->add_option("--rank", options.rank, "instead of what pipeline.json says (default: balance)")
      ->check(CLI::IsMember({"balance", "throughput"}));
  verb->add_option("--copies-gb-s", options.costs.copies_gb_per_s,
                   "GB/s of a copy between device and host")
      ->check(within(0.001, 1e6))
      ->capture_default_str();
  verb->add_option("--load-gb-s", options.costs.load_gb_per_s,
                   "GB/s at which weights are loaded onto a device")
      ->check(within(0.001, 1e6))
      ->capture_default_str();
  verb->add_option("--handover-ms", flags->handover_ms,
                   "milliseconds of a hand-over beside its copies")
      ->check(within(0.0, 1e6));
  verb->add_option("--limit", options.most_shown, "ways to cut it that are shown")
      ->capture_default_str();
  bin::add_former_option(*verb, "--most", "--limit", options.most_shown);
  verb->callback([&shell, flags] {
    if (flags->options.function.empty() == flags->options.pipeline.empty()) {
      throw CLI::RequiredError("FUNCTION or --pipeline");
    }
    flags->options.costs.handover = from_seconds(flags->handover_ms / 1e3);
    shell.verb = [&shell, flags](Transport& transport, const cli::Destination&) {
      return cli::run_plan(transport, shell.console, flags->options);
    };
  });
}

}  // namespace lambent::bin
