#include "edge/cli/plan.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/base/json_text.h"
#include "decide/pipeline/hand_over.h"
#include "decide/pipeline/placing.h"
#include "edge/cli/text_table.h"

namespace lambent::cli {
namespace {

using Json = nlohmann::ordered_json;
using pipeline::Placement;
using pipeline::RankedPartition;

// All that the verb tells.
struct Plan {
  PlanInputs inputs;
  pipeline::PipelineFunction function;
  pipeline::RankRule rule = pipeline::RankRule::kBalance;
  std::vector<RankedPartition> ranked;
  std::vector<std::optional<Placement>> placements;  // of ranked
  std::optional<size_t> first;                       // that fits
  std::optional<Placement> best;                     // that makes most of the slices
};

std::string number(double value, const char* format = "%.1f") {
  char text[48];
  std::snprintf(text, sizeof text, format, value);
  return text;
}
std::string ms(Duration duration) { return number(to_milliseconds(duration)); }

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

// "deblur enlarge | left, right | classify".
std::string words_of(const Plan& plan, const pipeline::Partition& partition) {
  std::vector<std::string> stages;
  for (const pipeline::Stage& stage : partition.stages) {
    std::vector<std::string> stage_processes;
    for (const pipeline::StageProcess& stage_process : stage.stage_processes) {
      std::vector<std::string> names;
      for (const size_t each : stage_process.components) {
        names.push_back(plan.function.dag.components[each].name);
      }
      stage_processes.push_back(joined(names, " "));
    }
    stages.push_back(joined(stage_processes, ", "));
  }
  return joined(stages, " | ");
}

std::string slice_names(const Plan& plan, const Placement& placement) {
  std::vector<std::string> names;
  for (const DeviceId id : placement.slices)
    names.push_back(plan.inputs.free[id.value - 1].shape.name);
  return joined(names, " + ");
}

Result<Plan> make_plan(Transport& transport, const PlanOptions& options) {
  Plan plan;
  ASSIGN_OR_RETURN(plan.inputs, plan_inputs(transport, options));
  pipeline::PipelineDefinition& definition = plan.inputs.definition;
  if (!options.rank.empty()) definition.rank = pipeline::rank_rule_from(options.rank);
  plan.rule = definition.rank.value_or(plan.rule);
  const pipeline::PlannerOptions planner{
      .rule = plan.rule, .costs = options.costs, .shapes = plan.inputs.shapes};
  ASSIGN_OR_RETURN(plan.function,
                   pipeline::plan_function(FunctionId(1), definition, plan.inputs.measured,
                                           plan.inputs.declared_memory, planner));
  ASSIGN_OR_RETURN(plan.ranked, pipeline::judge_partitions(plan.function, planner));
  const std::vector<Slice>& free = plan.inputs.free;
  for (size_t i = 0; i < plan.ranked.size(); ++i) {
    plan.placements.push_back(
        pipeline::place(plan.function, plan.ranked[i].partition, free, options.costs));
    if (plan.placements.back() && !plan.first) plan.first = i;
  }
  plan.best = pipeline::best_that_fits(plan.function, free, options.costs);
  return plan;
}

std::vector<std::string> shape_names(const RankedPartition& ranked) {
  std::vector<std::string> names;
  for (const SliceShape& shape : ranked.shapes) names.push_back(shape.name);
  return names;
}

std::string table(const Plan& plan, size_t shown) {
  TextTable table({">#", "stages", "memory of each stage process", "on at least", ">stages, ms",
                   ">CV", ">latency, ms", ">bottleneck, ms", ">results/s", "here"});
  for (size_t i = 0; i < shown; ++i) {
    const RankedPartition& each = plan.ranked[i];
    std::vector<std::string> memory, times;
    for (const pipeline::StageProcess* stage_process :
         pipeline::stage_processes_of(each.partition)) {
      memory.push_back(to_string(pipeline::memory_of(plan.function, *stage_process)));
    }
    for (const Duration time : each.stage_times) times.push_back(ms(time));
    std::string here;
    if (plan.placements[i]) {
      here = slice_names(plan, *plan.placements[i]);
    } else if (plan.inputs.knows_slices) {
      here = pipeline::why_not(plan.function, each.partition, plan.inputs.free);
    }
    table.add({std::to_string(i + 1), words_of(plan, each.partition), joined(memory, " + "),
               joined(shape_names(each), " + "), joined(times, " + "),
               number(each.variation, "%.3f"), ms(each.timing.latency), ms(each.timing.bottleneck),
               number(each.results_per_s), here});
  }
  return table.str();
}

std::string sentence(const Plan& plan, const Placement& placement) {
  const bool late = plan.function.slo > Duration{} && placement.latency > plan.function.slo;
  return words_of(plan, placement.partition) + "\n  on " + slice_names(plan, placement) +
         ": latency " + ms(placement.latency) + " ms" + (late ? ", longer than the SLO" : "") +
         "; " + number(pipeline::capacity_of(placement, plan.function.slo).per_s()) +
         " results/s; weights are there after " + ms(placement.load) + " ms\n";
}

void tell(const Plan& plan, const PlanOptions& options, std::ostream& out) {
  out << plan.inputs.definition.handler << ": " << plan.function.dag.components.size()
      << " components, ranked by " << name_of(plan.rule);
  if (plan.function.slo > Duration{}) out << ", SLO " << ms(plan.function.slo) << " ms";
  out << "\n";
  if (!plan.inputs.is_measured) {
    out << "Nothing was measured: all components count as equally long ("
        << ms(pipeline::kAssumedTime) << " ms).\n";
  }
  if (!plan.inputs.isolation.empty()) {
    out << "isolation " << name_of(plan.inputs.definition.isolation)
        << ": its next request goes to "
        << (plan.inputs.isolation == "slices" ? "slices" : "a shared device") << "\n";
    for (const std::string& reason : plan.inputs.isolation_reasons) out << "  " << reason << "\n";
  }
  const size_t shown = std::min(options.most_shown, plan.ranked.size());
  out << "\n" << table(plan, shown);
  if (shown < plan.ranked.size()) out << "and " << plan.ranked.size() - shown << " more\n";
  if (!plan.inputs.knows_slices) return;
  out << "\n";
  if (!plan.first) {
    const size_t instances = plan.inputs.instances;
    if (instances > 0) {
      out << "It has " << instances << (instances == 1 ? " instance" : " instances")
          << " already; of another one:\n";
    }
    out << "None fits these slices. It needs " << pipeline::what_would_fit(plan.function) << ".\n";
    return;
  }
  out << "First that fits (" << *plan.first + 1
      << "): " << sentence(plan, *plan.placements[*plan.first]);
  for (size_t i = 0; i < std::min(*plan.first, shown); ++i) {
    out << "  not " << i + 1 << ": "
        << pipeline::why_not(plan.function, plan.ranked[i].partition, plan.inputs.free) << "\n";
  }
  if (plan.best) out << "Makes most of these slices: " << sentence(plan, *plan.best);
}

Json json_of(const Plan& plan, const pipeline::Partition& partition) {
  Json stages = Json::array();
  for (const pipeline::Stage& stage : partition.stages) {
    Json stage_processes = Json::array();
    for (const pipeline::StageProcess& stage_process : stage.stage_processes) {
      Json names = Json::array();
      for (const size_t each : stage_process.components) {
        names.push_back(plan.function.dag.components[each].name);
      }
      stage_processes.push_back(names);
    }
    stages.push_back(stage_processes);
  }
  return stages;
}

Json json_of(const Plan& plan, const std::optional<Placement>& placement) {
  if (!placement) return nullptr;
  Json slices = Json::array();
  for (const DeviceId id : placement->slices) {
    const Slice& slice = plan.inputs.free[id.value - 1];
    slices.push_back({{"gpu", slice.gpu}, {"shape", slice.shape.name}});
  }
  return {{"stages", json_of(plan, placement->partition)},
          {"slices", slices},
          {"latency_ms", to_milliseconds(placement->latency)},
          {"bottleneck_ms", to_milliseconds(placement->bottleneck)},
          {"load_ms", to_milliseconds(placement->load)}};
}

Json json_of(const Plan& plan) {
  Json list = Json::array();
  for (size_t i = 0; i < plan.ranked.size(); ++i) {
    const RankedPartition& each = plan.ranked[i];
    Json memory = Json::array(), times = Json::array();
    for (const pipeline::StageProcess* stage_process :
         pipeline::stage_processes_of(each.partition)) {
      memory.push_back(pipeline::memory_of(plan.function, *stage_process).count);
    }
    for (const Duration time : each.stage_times) times.push_back(to_milliseconds(time));
    list.push_back(
        {{"stages", json_of(plan, each.partition)},
         {"memory_bytes", memory},
         {"shapes", shape_names(each)},
         {"stage_ms", times},
         {"variation", each.variation},
         {"latency_ms", to_milliseconds(each.timing.latency)},
         {"bottleneck_ms", to_milliseconds(each.timing.bottleneck)},
         {"results_per_s_per_multiprocessor", each.results_per_s_per_multiprocessor},
         {"placement", json_of(plan, plan.placements[i])},
         {"why_not", plan.placements[i] || !plan.inputs.knows_slices
                         ? ""
                         : pipeline::why_not(plan.function, each.partition, plan.inputs.free)}});
  }
  Json root = {{"handler", plan.inputs.definition.handler},
               {"rank", name_of(plan.rule)},
               {"measured", plan.inputs.is_measured},
               {"slo_ms", to_milliseconds(plan.function.slo)},
               {"partitions", list},
               {"first_that_fits", nullptr},
               {"best_that_fits", json_of(plan, plan.best)},
               {"would_fit", pipeline::what_would_fit(plan.function)}};
  if (plan.first) root["first_that_fits"] = *plan.first;
  root["isolation"] = {
      {"rule", name_of(plan.inputs.definition.isolation)},
      {"chosen", plan.inputs.isolation.empty() ? Json() : Json(plan.inputs.isolation)},
      {"reasons", plan.inputs.isolation_reasons}};
  return root;
}

}  // namespace

int run_plan(Transport& transport, Console& console, const PlanOptions& options) {
  const auto plan = make_plan(transport, options);
  if (!plan.ok()) return fail(console, plan.error());
  if (console.json) {
    console.out << json_text(json_of(*plan)) << "\n";
  } else {
    tell(*plan, options, console.out);
  }
  return 0;
}

}  // namespace lambent::cli
