#include "bin/slices_advise.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <set>

#include "core/base/log.h"
#include "core/base/random.h"
#include "decide/pipeline/planner.h"
#include "edge/cli/pipeline_files.h"
#include "edge/cli/slice_names.h"
#include "edge/cli/text_table.h"
#include "sim/slice_simulator/layout_advice.h"
#include "sim/workload/trace_reader.h"

namespace lambent {
namespace {

using slice_simulator::Advice;
using slice_simulator::AdvisedPart;
using slice_simulator::JudgedLayout;

Error invalid(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

std::string number(const char* format, double value) {
  char text[48];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

// Every full set of slices that a device of the family can have, wherever they lie.
std::vector<slice_simulator::GpuLayout> layouts_of(const mig::MigFamily& family) {
  std::set<std::vector<std::string>> known;
  std::vector<slice_simulator::GpuLayout> layouts;
  for (const auto& placements : mig::full_layouts(family, true)) {
    slice_simulator::GpuLayout layout;
    for (const mig::Placement& one : placements) layout.push_back(cli::shape_of(*one.profile));
    std::ranges::stable_sort(layout, [](const SliceShape& a, const SliceShape& b) {
      return a.multiprocessors > b.multiprocessors;
    });
    std::vector<std::string> names;
    for (const SliceShape& shape : layout) names.push_back(shape.name);
    if (known.insert(names).second) layouts.push_back(std::move(layout));
  }
  return layouts;
}

struct Named {
  std::string name;  // as the trace has it; empty: everything in it
  std::shared_ptr<const pipeline::PipelineFunction> function;
};

Result<Named> read_function(const std::string& argument, const std::string& profile_file,
                            uint32_t number, const mig::MigFamily& family,
                            const pipeline::TransferCosts& costs) {
  const size_t equals = argument.find('=');
  const std::string file = equals == std::string::npos ? argument : argument.substr(equals + 1);
  ASSIGN_OR_RETURN(const cli::DescribedPipeline described, cli::read_definition(file));
  std::optional<std::string> profile_text;
  if (profile_file.empty()) {
    ASSIGN_OR_RETURN(profile_text, cli::read_own_profile_text(file));
  } else {
    ASSIGN_OR_RETURN(profile_text, cli::read_profile_text(profile_file));
  }
  if (!profile_text) return invalid(file + " has no profile.json: a --profile is expected");
  const auto measured = pipeline::parse_profile(*profile_text, described.definition.dag);
  if (!measured.ok()) {
    return measured.error().with_context(profile_file.empty() ? file : profile_file);
  }
  pipeline::PlannerOptions planner{
      .rule = pipeline::RankRule::kThroughput, .costs = costs, .shapes = measured->shapes};
  for (const mig::MigProfile& profile : family.profiles) {
    const SliceShape shape = cli::shape_of(profile);
    if (std::ranges::find(planner.shapes, shape.name, &SliceShape::name) == planner.shapes.end()) {
      planner.shapes.push_back(shape);
    }
  }
  auto function = pipeline::plan_function(FunctionId(number), described.definition, *measured,
                                          described.declared_memory, planner);
  if (!function.ok()) return function.error().with_context(file);
  return Named{equals == std::string::npos ? "" : argument.substr(0, equals),
               std::make_shared<const pipeline::PipelineFunction>(*std::move(function))};
}

Result<std::vector<slice_simulator::Arrival>> arrivals_of(const SlicesAdviseOptions& options,
                                                          const std::vector<Named>& functions) {
  std::vector<slice_simulator::Arrival> arrivals;
  if (options.trace.empty()) {
    if (options.rates.size() != functions.size()) {
      return invalid("a --trace is expected, or as many --rate as --pipeline");
    }
    SeededRandom random(options.read.seed);
    for (size_t i = 0; i < functions.size(); ++i) {
      const double rate = options.rates[i] * options.read.rate_scale;
      if (!(rate > 0) || rate > 10'000) return invalid("a --rate is above 0 and at most 10000");
      for (double at_s = 0;;) {
        at_s -= std::log(1 - random.uniform()) / rate;
        if (at_s >= 60) break;
        arrivals.push_back({Instant(from_seconds(at_s)), functions[i].function->id});
      }
    }
    std::ranges::sort(arrivals, {}, &slice_simulator::Arrival::at);
    return arrivals;
  }
  if (!options.rates.empty()) return invalid("either --trace or --rate");
  workload::TraceOptions trace_options = options.read;
  for (const Named& one : functions) {
    if (!one.name.empty()) trace_options.only.push_back(one.name);
    if (one.name.empty() && functions.size() > 1) {
      return invalid("of several pipelines each has a name that the trace knows: NAME=FILE");
    }
  }
  ASSIGN_OR_RETURN(auto trace, workload::open_trace(options.trace, trace_options));
  std::vector<FunctionId> ids;
  for (const workload::TraceFunction& one : trace.functions) {
    const auto found = std::ranges::find_if(functions, [&](const Named& named) {
      return named.name.empty() || named.name == one.name;
    });
    if (found == functions.end()) return invalid("no --pipeline is for " + one.name);
    ids.push_back(found->function->id);
  }
  constexpr size_t kMostArrivals = 5'000'000;
  while (const auto arrival = trace.arrivals->next()) {
    if (arrivals.size() == kMostArrivals) {
      return Error{ErrorCode::kResourceExhausted,
                   "the trace has more than " + std::to_string(kMostArrivals) + " arrivals"};
    }
    arrivals.push_back({Instant(arrival->at), ids[arrival->function]});
  }
  if (const auto failure = trace.arrivals->failure()) return *failure;
  if (arrivals.empty()) return invalid("the trace has no arrival of these functions");
  return arrivals;
}

std::string text_of(const AdvisedPart& part) {
  cli::TextTable table({"LAYOUT", ">WITHIN SLO", ">ANSWERED", ">MEAN", ">P95", ">MOST LOAD"});
  for (const JudgedLayout& one : part.layouts) {
    const bool any = one.answered_share > 0;  // else there are only times of refusals
    table.add({one.name(), number("%.1f %%", 100 * one.hit_share),
               number("%.1f %%", 100 * one.answered_share),
               any ? number("%.0f ms", 1e3 * one.mean_s) : "-",
               any ? number("%.0f ms", 1e3 * one.p95_s) : "-",
               any ? number("x%.2f", one.most_times) : "-"});
  }
  return table.str();
}

std::string json_of(const AdvisedPart& part) {
  std::string layouts;
  for (const JudgedLayout& one : part.layouts) {
    std::string gpus;
    for (const auto& gpu : one.gpus) {
      std::string slices;
      for (const SliceShape& shape : gpu) {
        slices += std::string(slices.empty() ? "\"" : ",\"") + json_escape(shape.name) + "\"";
      }
      gpus += (gpus.empty() ? "[" : ",[") + slices + "]";
    }
    const bool any = one.answered_share > 0;
    layouts += (layouts.empty() ? "" : ",") + std::string("{\"gpus\":[") + gpus +
               "],\"within_slo\":" + number("%.4f", one.hit_share) +
               ",\"answered\":" + number("%.4f", one.answered_share) +
               ",\"mean_ms\":" + (any ? number("%.2f", 1e3 * one.mean_s) : "null") +
               ",\"p95_ms\":" + (any ? number("%.2f", 1e3 * one.p95_s) : "null") +
               ",\"most_load\":" + (any ? number("%.4f", one.most_times) : "null") + "}";
  }
  return "{\"from_s\":" + number("%.3f", to_seconds(part.from.time_since_epoch())) +
         ",\"to_s\":" + number("%.3f", to_seconds(part.to.time_since_epoch())) + ",\"layouts\":[" +
         layouts + "]}";
}

void show_json(const Advice& advice, cli::Console& console) {
  std::string idle, parts;
  for (const auto& one : advice.idle) {
    idle += (idle.empty() ? "" : ",") + std::string("{\"from_s\":") +
            number("%.3f", to_seconds(one.from.time_since_epoch())) +
            ",\"to_s\":" + number("%.3f", to_seconds(one.to.time_since_epoch())) + "}";
  }
  for (const AdvisedPart& part : advice.parts) parts += (parts.empty() ? "" : ",") + json_of(part);
  console.out << "{\"simulated\":true,\"whole\":" << json_of(advice.whole) << ",\"idle\":[" << idle
              << "],\"parts\":[" << parts << "]}\n";
}

void show_text(const Advice& advice, double change_minutes, cli::Console& console) {
  console.out << "Simulated, best first (MOST LOAD: the rate that no scheduler could exceed, times "
                 "this one):\n"
              << text_of(advice.whole);
  if (advice.idle.empty()) {
    console.out << "\nNobody is ever idle for " << number("%g", change_minutes)
                << " minutes: the layout cannot be changed on the way.\n";
    return;
  }
  const std::string& always = advice.whole.layouts.front().name();
  console.out << "\nThe layout could be changed in " << advice.idle.size()
              << " idle times; the best between them:\n";
  cli::TextTable table({">FROM", ">TO", "LAYOUT", ">WITHIN SLO", ">MEAN", ">WITHOUT A CHANGE"});
  for (const AdvisedPart& part : advice.parts) {
    const JudgedLayout& best = part.layouts.front();
    const auto same = std::ranges::find_if(
        part.layouts, [&](const JudgedLayout& one) { return one.name() == always; });
    table.add({number("%.0f s", to_seconds(part.from.time_since_epoch())),
               number("%.0f s", to_seconds(part.to.time_since_epoch())), best.name(),
               number("%.1f %%", 100 * best.hit_share),
               best.answered_share > 0 ? number("%.0f ms", 1e3 * best.mean_s) : "-",
               same == part.layouts.end() ? "-" : number("%.1f %%", 100 * same->hit_share)});
  }
  console.out << table.str();
}

}  // namespace

Result<void> advise_slices(const SlicesAdviseOptions& options, cli::Console& console) {
  if (options.pipelines.empty()) return invalid("a --pipeline is expected");
  if (!options.profiles.empty() && options.pipelines.size() != options.profiles.size()) {
    return invalid("each --pipeline needs its --profile, in the same order, or none has one");
  }
  if (options.gpus < 1 || options.gpus > 16) return invalid("--gpus is 1 to 16");
  if (!(options.read.rate_scale > 0)) return invalid("--rate-scale is above 0");
  if (!(options.change_minutes > 0)) return invalid("--change-minutes is above 0");
  ASSIGN_OR_RETURN(const mig::MigFamily* family, cli::parse_family(options.family));
  slice_simulator::AdviceOptions advice_options;
  advice_options.layouts = layouts_of(*family);
  advice_options.gpus = options.gpus;
  advice_options.policy = options.policy;
  advice_options.seed = options.read.seed;
  advice_options.change_takes = from_seconds(60 * options.change_minutes);
  std::vector<Named> functions;
  for (size_t i = 0; i < options.pipelines.size(); ++i) {
    ASSIGN_OR_RETURN(
        Named one,
        read_function(options.pipelines[i], options.profiles.empty() ? "" : options.profiles[i],
                      static_cast<uint32_t>(i) + 1, *family, advice_options.costs));
    advice_options.functions.push_back(one.function);
    functions.push_back(std::move(one));
  }
  ASSIGN_OR_RETURN(advice_options.arrivals, arrivals_of(options, functions));
  ASSIGN_OR_RETURN(Advice advice, slice_simulator::advise(advice_options));
  auto& layouts = advice.whole.layouts;
  if (layouts.size() > options.shown) layouts.resize(std::max(1U, options.shown));
  if (console.json) {
    show_json(advice, console);
  } else {
    show_text(advice, options.change_minutes, console);
  }
  return {};
}

}  // namespace lambent
