#include "edge/cli/run_summary.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "edge/cli/text_table.h"

namespace lambent::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string fixed(double number, int digits) {
  char text[48];
  std::snprintf(text, sizeof(text), "%.*f", digits, number);
  return text;
}

std::string percent(const std::optional<double>& ratio) {
  return ratio ? fixed(*ratio * 100, 1) + " %" : "-";
}

Json maybe(const std::optional<double>& number) { return number ? Json(*number) : Json(); }

// How near each is to what no order could be below.
std::string line_of_least(const std::vector<RunFigures>& runs) {
  std::string text;
  for (const RunFigures& run : runs) {
    const auto& least = run.summary.least_mean_s;
    if (!least || *least <= 0) continue;
    if (text.empty()) text = "no order could have a mean below " + fixed(*least, 3) + " s:";
    text += " " + run.label + " has " + fixed(run.summary.mean_s / *least, 2) + " times that,";
  }
  if (!text.empty()) text.back() = '\n';
  return text;
}

}  // namespace

RunFigures figures_of(const workload::RunFile& run) {
  const std::string label = run.header.policy.empty() ? run.name : run.header.policy;
  return {.label = label,
          .header = run.header,
          .summary = workload::summarise(run),
          .utilisation = workload::mean_utilisation(run.readings),
          .cut_off = !run.end.has_value()};
}

std::string reason_invalid(const RunFigures& run) {
  if (run.cut_off) {
    return "its result file has no end, so these are figures of a part of the run; run it again";
  }
  const auto share = workload::overhead_share(run.header, run.summary);
  if (!share || *share <= workload::kMostOverheadShare) return "";
  return "the machine's own overhead of " + fixed(*run.header.overhead_s * 1e3, 2) + " ms, times " +
         fixed(run.header.time_scale, 1) + ", is " + fixed(*share * 100, 1) +
         " % of the mean latency; at most 2 % can be trusted. Use a smaller time scale";
}

std::string table_of(const std::vector<RunFigures>& runs) {
  TextTable table({"RUN", ">INVOCATIONS", ">FAILED", ">MEAN s", ">P50 s", ">P99 s", ">VARIANCE s2",
                   ">COLD", ">UTILISATION"});
  for (const RunFigures& run : runs) {
    const workload::Summary& s = run.summary;
    table.add({run.label, std::to_string(s.count), std::to_string(s.failed), fixed(s.mean_s, 3),
               fixed(s.p50_s, 3), fixed(s.p99_s, 3), fixed(s.variance_between_functions, 3),
               percent(s.cold_ratio), percent(run.utilisation)});
  }
  std::string text = table.str();
  text += line_of_least(runs);
  for (const RunFigures& run : runs) {
    if (!run.moves) continue;
    const MemoryMoves& moves = *run.moves;
    text += "moves of " + run.label + ": " + std::to_string(moves.in) + " in, " +
            std::to_string(moves.out) + " out, " + to_string(moves.bytes) + "; " +
            percent(run.summary.gpu_cold_ratio) + " gpu_cold, waiting " +
            fixed(run.summary.memory_mean_s, 3) + " s on average over all; " +
            std::to_string(moves.prefetches) + " fetched ahead, " +
            std::to_string(moves.prefetch_hits) + " of them used\n";
  }
  for (const RunFigures& run : runs) {
    for (const TenantFigures& tenant : run.tenants) {
      char weight[32];
      std::snprintf(weight, sizeof(weight), "%g", tenant.weight);
      text += "tenant " + tenant.name + " of " + run.label + ": weight " + weight + ", " +
              std::to_string(tenant.invocations) + " invocations, " +
              std::to_string(tenant.failed) + " failed, mean " + fixed(tenant.mean_s, 3) + " s, " +
              fixed(tenant.gpu_time_s, 1) + " s of GPU time\n";
    }
  }
  for (const RunFigures& run : runs) {
    if (const auto& hits = run.summary.slo_hit_ratio) {
      text += "SLOs of " + run.label + ": kept by " + percent(hits) + "\n";
    }
  }
  for (const RunFigures& run : runs) {
    if (const std::string reason = reason_invalid(run); !reason.empty()) {
      text += "INVALID " + run.label + ": " + reason + "\n";
    }
  }
  if (!runs.empty()) {
    for (const std::string& each : runs.front().assumptions) text += "assumed: " + each + "\n";
  }
  return text;
}

std::string json_of(const RunFigures& run) {
  const workload::Summary& s = run.summary;
  const std::string invalid = reason_invalid(run);
  Json json = {{"run", run.label},
               {"trace", run.header.trace},
               {"emulated", run.header.emulated},
               {"time_scale", run.header.time_scale},
               {"invocations", s.count},
               {"failed", s.failed},
               {"mean_s", s.mean_s},
               {"p50_s", s.p50_s},
               {"p90_s", s.p90_s},
               {"p99_s", s.p99_s},
               {"max_s", s.max_s},
               {"variance", s.variance_between_functions},
               {"variance_within", s.variance_within_functions},
               {"cold_ratio", s.cold_ratio},
               {"gpu_cold_ratio", s.gpu_cold_ratio},
               {"queue_mean_s", s.queue_mean_s},
               {"cold_mean_s", s.cold_mean_s},
               {"memory_mean_s", s.memory_mean_s},
               {"run_mean_s", s.run_mean_s},
               {"slo_hit_ratio", maybe(s.slo_hit_ratio)},
               {"normalised_latency", maybe(s.normalised_latency)},
               {"busy_ratio", maybe(s.busy_ratio)},
               {"utilisation", maybe(run.utilisation)},
               {"overhead_s", maybe(run.header.overhead_s)},
               {"overhead_share", maybe(workload::overhead_share(run.header, s))},
               {"valid", invalid.empty() && s.count > 0}};
  if (s.least_mean_s) json["least_mean_s"] = *s.least_mean_s;
  if (run.moves) {
    json["moves"] = {{"in", run.moves->in},
                     {"out", run.moves->out},
                     {"bytes", run.moves->bytes.count},
                     {"prefetches", run.moves->prefetches},
                     {"prefetch_hits", run.moves->prefetch_hits}};
  }
  if (run.foreseen) {
    json["starts_ahead"] = {{"started", run.foreseen->started},
                            {"used", run.foreseen->used},
                            {"wasted", run.foreseen->wasted}};
  }
  for (const TenantFigures& tenant : run.tenants) {
    json["tenants"].push_back({{"name", tenant.name},
                               {"weight", tenant.weight},
                               {"invocations", tenant.invocations},
                               {"failed", tenant.failed},
                               {"mean_s", tenant.mean_s},
                               {"gpu_time_s", tenant.gpu_time_s}});
  }
  if (!invalid.empty()) json["invalid_because"] = invalid;
  if (!run.assumptions.empty()) json["assumptions"] = run.assumptions;
  json["functions"] = Json::array();
  for (const workload::FunctionSummary& f : s.functions) {
    json["functions"].push_back({{"name", f.name},
                                 {"invocations", f.count},
                                 {"failed", f.failed},
                                 {"mean_s", f.mean_s},
                                 {"p50_s", f.p50_s},
                                 {"p99_s", f.p99_s},
                                 {"variance", f.variance},
                                 {"warm_s", f.warm_s > 0 ? Json(f.warm_s) : Json()},
                                 {"cold_ratio", f.cold_ratio},
                                 {"slo_hit_ratio", maybe(f.slo_hit_ratio)}});
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace lambent::cli
