// lambent-slices: shows how the devices of this machine are cut into slices, and cuts them again
// when an operator says so. `lambent slices` starts it; no worker is asked.
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <optional>

#include "bin/former_names.h"
#include "bin/installation.h"
#include "bin/shown_names.h"
#include "bin/slices_advise.h"
#include "bin/trace_flags.h"
#include "bin/usage.h"
#include "decide/slice_scheduling/make_policy.h"
#include "edge/cli/console.h"
#include "edge/cli/slice_names.h"
#include "edge/cli/slices.h"
#include "gpu/monitor/mig_layout.h"
#include "gpu/monitor/served_devices.h"

namespace {

using namespace lambent;

struct Options {
  std::string nvml = "libnvidia-ml.so.1";
  std::string emulated;  // the node's file
  std::optional<uint32_t> gpu;
  std::string family;
  std::string wanted;
  bool off = false;
  bool yes = false;
};

using Verb = std::function<Result<void>(const Options&, cli::Console&)>;

Result<std::unique_ptr<monitor::MigLayout>> open(const Options& options) {
  if (options.emulated.empty()) return monitor::MigLayout::open(options.nvml);
  // The driver makes the node that it does not find.
  if (!std::filesystem::exists(options.emulated)) {
    return Error{ErrorCode::kNotFound, "there is no emulated node " + options.emulated +
                                           "; 'emulated-gpu create' makes one"};
  }
  ASSIGN_OR_RETURN(const Installation installation, find_installation());
  setenv("EMULATED_CUDA_NODE", options.emulated.c_str(), 1);
  return monitor::MigLayout::open(installation.emulated_driver() + "/libnvidia-ml.so.1");
}

Result<void> list(const Options& options, cli::Console& console) {
  ASSIGN_OR_RETURN(const auto layout, open(options));
  const auto gpus = layout->gpus();
  const bool isolates = !layout->is_emulated();
  console.out << (console.json ? cli::slices_json(gpus, isolates)
                               : cli::slices_text(gpus, isolates));
  return {};
}

// What a device has to become what is wanted.
struct Step {
  mig::GpuState gpu;
  mig::Change change;
  bool turn_on = false;
};

Result<Step> step_to(const mig::GpuState& gpu, const std::string& wanted) {
  const std::string name = "device " + std::to_string(gpu.index);
  if (!gpu.can) {
    return Error{ErrorCode::kFailedPrecondition, name + " (" + gpu.name + ") has no MIG"};
  }
  const mig::MigFamily* family = mig::family_of(gpu.profiles);
  if (!family) {
    return Error{ErrorCode::kFailedPrecondition,
                 name + " (" + gpu.name + ") offers profiles that are not known here" +
                     (gpu.enabled ? "" : "; they may be told once MIG mode is on")};
  }
  std::vector<const mig::MigProfile*> profiles;
  if (wanted != "none") {
    ASSIGN_OR_RETURN(profiles, cli::parse_profiles(wanted, *family));
  }
  const auto change = mig::plan_change(*family, mig::layout_of(*family, gpu), profiles);
  if (!change) {
    return Error{ErrorCode::kInvalidArgument, cli::no_layout(*family, profiles)};
  }
  return Step{gpu, *change, !gpu.enabled};
}

Result<void> plan_for_family(const Options& options, cli::Console& console) {
  ASSIGN_OR_RETURN(const mig::MigFamily* family, cli::parse_family(options.family));
  if (options.wanted.empty()) {
    console.out << (console.json ? cli::layouts_json(*family) : cli::layouts_text(*family));
    return {};
  }
  ASSIGN_OR_RETURN(const auto profiles, cli::parse_profiles(options.wanted, *family));
  const auto change = mig::plan_change(*family, {}, profiles);
  if (!change) return Error{ErrorCode::kInvalidArgument, cli::no_layout(*family, profiles)};
  console.out << (console.json ? cli::change_json(*change, false)
                               : cli::change_text(*change, false));
  return {};
}

Result<void> plan(const Options& options, cli::Console& console) {
  if (!options.family.empty()) return plan_for_family(options, console);
  ASSIGN_OR_RETURN(const auto layout, open(options));
  ASSIGN_OR_RETURN(const mig::GpuState gpu, layout->gpu(options.gpu.value_or(0)));
  if (options.wanted.empty()) {
    const mig::MigFamily* family = mig::family_of(gpu.profiles);
    if (!family) return step_to(gpu, "none").error();
    console.out << (console.json ? cli::layouts_json(*family) : cli::layouts_text(*family));
    return {};
  }
  ASSIGN_OR_RETURN(const Step step, step_to(gpu, options.wanted));
  console.out << (console.json ? cli::change_json(step.change, step.turn_on)
                               : cli::change_text(step.change, step.turn_on));
  return {};
}

Error needs_yes(const std::string& device) {
  return {ErrorCode::kFailedPrecondition, "nothing was changed; say --yes to do this to " + device};
}

Result<void> turn_off(monitor::MigLayout& layout, const mig::GpuState& gpu, const Options& options,
                      cli::Console& console) {
  for (const mig::InstanceState& each : gpu.instances) {
    console.err << "destroy   the slice at " << each.start << "\n";
  }
  console.err << "turn off  MIG mode\n";
  const std::string name = "device " + std::to_string(gpu.index) + " (" + gpu.uuid + ")";
  if (!options.yes) return needs_yes(name);
  if (const mig::MigFamily* family = mig::family_of(gpu.profiles)) {
    RETURN_IF_ERROR(layout.apply(gpu.index, {.destroy = mig::layout_of(*family, gpu)}));
  }
  return layout.set_enabled(gpu.index, false);
}

Result<void> apply(const Options& options, cli::Console& console) {
  if (!options.gpu) {
    return Error{ErrorCode::kInvalidArgument, "--gpu says which device; there is no default"};
  }
  if (options.off == !options.wanted.empty()) {
    return Error{ErrorCode::kInvalidArgument, "either slices or --off is expected"};
  }
  const std::string file = options.emulated.empty() ? monitor::kDriverFile : options.emulated;
  OwnedFd claim;
  if (options.yes) {
    ASSIGN_OR_RETURN(claim, monitor::claim_to_cut(file));
    if (!claim.valid()) {
      console.err << "warning   " << file
                  << " cannot be locked: whether a worker serves these devices is not known\n";
    }
  }
  ASSIGN_OR_RETURN(const auto layout, open(options));
  ASSIGN_OR_RETURN(mig::GpuState gpu, layout->gpu(*options.gpu));
  if (options.off) {
    RETURN_IF_ERROR(turn_off(*layout, gpu, options, console));
  } else {
    ASSIGN_OR_RETURN(const Step step, step_to(gpu, options.wanted));
    console.err << cli::change_text(step.change, step.turn_on);
    const std::string name = "device " + std::to_string(gpu.index) + " (" + gpu.uuid + ")";
    if (!options.yes) return needs_yes(name);
    if (step.turn_on) RETURN_IF_ERROR(layout->set_enabled(gpu.index, true));
    RETURN_IF_ERROR(layout->apply(gpu.index, step.change));
  }
  ASSIGN_OR_RETURN(gpu, layout->gpu(gpu.index));
  const bool isolates = !layout->is_emulated();
  console.out << (console.json ? cli::slices_json({gpu}, isolates)
                               : cli::slices_text({gpu}, isolates));
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  Verb verb;
  cli::Console console{std::cout, std::cerr};
  CLI::App app(
      "Slices of this machine's GPUs (MIG): which exist, which are possible, and how to get "
      "them.\n\n"
      "Example: lambent slices plan 4g.40gb,2g.20gb,1g.10gb --gpu 0",
      "lambent slices");
  app.require_subcommand(1);
  const auto add = [&](const char* name, const char* what, Verb run) {
    CLI::App* sub = app.add_subcommand(name, what);
    sub->add_flag("--json", console.json, "results as JSON");
    auto* nvml = sub->add_option("--nvml", options.nvml, "the NVML library, by path or by name")
                     ->capture_default_str();
    sub->add_option("--emulated", options.emulated, "an emulated node's file instead of GPUs")
        ->excludes(nvml);
    sub->callback([&verb, run = std::move(run)] { verb = run; });
    return sub;
  };
  add("ls", "devices and their slices", list);
  add("list", "", [](const Options& given, cli::Console& shown) {
    bin::warn_of_former_name("list", "ls");
    return list(given, shown);
  })->group("");
  CLI::App* sub = add("plan", "the layouts that a device can have, or the way to one", plan);
  sub->add_option("SLICES", options.wanted, "such as 4g.40gb,3*1g.10gb; 'none' for none");
  auto* gpu = sub->add_option("--gpu", options.gpu, "the device (default 0)");
  sub->add_option("--family", options.family,
                  "no device, but a100-40gb, a100-80gb, h100-80gb or h200")
      ->excludes(gpu);
  sub = add("apply", "cut a device again; refused while anything runs on it", apply);
  sub->add_option("SLICES", options.wanted, "such as 4g.40gb,3*1g.10gb; 'none' for none");
  sub->add_option("--gpu", options.gpu, "the device")->required();
  sub->add_flag("--off", options.off, "destroy all slices and turn MIG mode off");
  sub->add_flag("--yes", options.yes, "do it; without, it is only told");
  SlicesAdviseOptions advise;
  bool is_advice = false;
  sub = app.add_subcommand("advise", "which layouts would serve pipelines best, by simulation");
  sub->add_option("--pipeline", advise.pipelines, "[NAME=]pipeline.json; NAME as the trace has it")
      ->required();
  sub->add_option("--profile", advise.profiles,
                  "profile.json of each, in the same order (default: those beside them)");
  auto* trace =
      sub->add_option("--trace", advise.trace, "when requests come (simulator.md, Traces)");
  sub->add_option("--rate", advise.rates, "requests a second of each pipeline, without a trace")
      ->excludes(trace);
  bin::add_trace_flags(*sub, advise.read);
  sub->remove_option(sub->get_option("--only"));  // --pipeline says which functions count
  sub->add_option("--family", advise.family, "family of the devices")->capture_default_str();
  sub->add_option("--gpus", advise.gpus, "how many devices, of one node")->capture_default_str();
  sub->add_option("--limit", advise.shown, "layouts that are shown")->capture_default_str();
  bin::add_former_option(*sub, "--shown", "--limit", advise.shown);
  sub->add_option("--change-minutes", advise.change_minutes, "how long a change of layout takes")
      ->capture_default_str();
  sub->add_option("--policy", advise.policy, "policy of the slices")
      ->check(bin::shown_names(slice_scheduling::slice_policy_names()))
      ->capture_default_str();
  sub->add_option("--seed", advise.read.seed, "seed of everything that is drawn")
      ->capture_default_str();
  sub->add_flag("--json", console.json, "results as JSON");
  sub->callback([&is_advice] { is_advice = true; });
  if (const auto exit_code = bin::parse(app, argc, argv)) return *exit_code;
  const auto done = is_advice ? advise_slices(advise, console) : verb(options, console);
  return done.ok() ? 0 : cli::fail(console, done.error());
}
