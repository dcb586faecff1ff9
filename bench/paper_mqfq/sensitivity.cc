#include "bench/paper_mqfq/sensitivity.h"

#include <cmath>
#include <cstdio>
#include <map>

#include "bench/json.h"

namespace lambent::paper_mqfq {

using bench::Joined;
using bench::number;
using bench::quoted;
using bench::truth;

namespace {

// A geometric mean over the nine, of the first system's figure over the second's.
struct Claim {
  const char* name;
  const char* system;
  const char* over;
  double Figures::*of;
};
constexpr Claim kClaims[] = {{"fcfs", "fcfs", "mqfq", &Figures::mean_s},
                             {"batch", "batch", "mqfq", &Figures::mean_s},
                             {"uniform", "uniform", "mqfq", &Figures::mean_s},
                             {"ours", kShipped, "mqfq", &Figures::mean_s},
                             {"ours_variance", kShipped, "mqfq", &Figures::variance},
                             {"ours_p99", kShipped, "mqfq", &Figures::p99_s},
                             {"batch+_over_ours", "batch+", kShipped, &Figures::mean_s}};
using Values = std::map<std::string, double>;

Values values_with(Bench& bench, const Constants& constants) {
  const uint64_t seeds = bench.plan.quick ? 1 : 3;
  std::map<std::string, std::vector<std::vector<Figures>>> known;  // by system, by trace
  const auto of = [&](const std::string& system) -> const auto& {
    auto& all = known[system];
    if (all.empty()) {
      Runs runs(seeds);
      for (const Workload& workload : bench.workloads.nine) {
        all.push_back(runs.of(workload, system_named(system), bench.plan.site, constants));
      }
    }
    return all;
  };
  Values values;
  for (const Claim& claim : kClaims) {
    const auto& one = of(claim.system);
    const auto& other = of(claim.over);
    std::vector<std::vector<double>> by_trace;
    for (size_t i = 0; i < one.size(); ++i) {
      by_trace.push_back(ratios(one[i], other[i], claim.of));
    }
    values[claim.name] = sweep::estimate_of(geometric_means(by_trace)).mean;
  }
  return values;
}

std::string json_of(const Values& values) {
  Joined all;
  for (const auto& [name, value] : values) all.add(name, value);
  return all.object();
}

void print_row(const std::string& name, const Values& values) {
  std::printf("%-34s", name.c_str());
  for (const Claim& claim : kClaims) std::printf(" %16.2f", values.at(claim.name));
  std::printf("\n");
  std::fflush(stdout);
}

}  // namespace

std::string sensitivity(Bench& bench) {
  std::printf(
      "\nwhat each input decides: geometric means over the nine, the input halved and "
      "doubled\n%-34s",
      "");
  for (const Claim& claim : kClaims) std::printf(" %16s", claim.name);
  std::printf("\n");
  const Values as_is = values_with(bench, Constants());
  print_row("as it is", as_is);
  std::map<std::string, std::vector<std::string>> moved_by;
  Joined rows;
  for (const Input& input : inputs()) {
    Values changed[2];
    for (const bool doubled : {false, true}) {
      Constants other;
      other.*input.value *= doubled ? 2 : 0.5;
      changed[doubled] = values_with(bench, other);
      print_row(std::string(input.name) + (doubled ? " doubled" : " halved") +
                    (input.guess ? " (guess)" : ""),
                changed[doubled]);
    }
    Joined moved;
    for (const Claim& claim : kClaims) {
      bool moves = false;
      for (const Values& values : changed) {
        moves = moves || std::abs(values.at(claim.name) / as_is.at(claim.name) - 1) > 0.2;
      }
      if (!moves) continue;
      moved.add(quoted(claim.name));
      if (input.guess) moved_by[claim.name].push_back(input.name);
    }
    rows.add(Joined()
                 .add("name", quoted(input.name))
                 .add("value", Constants().*input.value)
                 .add("source", quoted(input.source))
                 .add("guess", truth(input.guess))
                 .add("halved", json_of(changed[0]))
                 .add("doubled", json_of(changed[1]))
                 .add("moved", moved.list())
                 .object());
  }
  // Other choices where the paper says nothing: its one printed footprint for all functions, and
  // the same without contexts and with a slower link, and starts that keep the device busy.
  Joined worlds;
  const auto add_world = [&](const std::string& name, const Constants& constants) {
    const Values values = values_with(bench, constants);
    print_row(name, values);
    worlds.add(name, json_of(values));
  };
  Constants alike;
  alike.memory_each_mib = 1536;
  add_world("1.5 GiB each", alike);
  alike.context_mib = 0;
  alike.link_gb_per_s = 10;
  add_world("1.5 GiB each, no contexts, 10 GB/s", alike);
  Constants contending;
  contending.starts_contend = true;
  add_world("starts contend with runs", contending);
  Joined claims;
  for (const Claim& claim : kClaims) {
    Joined names;
    for (const std::string& name : moved_by[claim.name]) names.add(quoted(name));
    claims.add(claim.name, Joined()
                               .add("as_it_is", as_is.at(claim.name))
                               .add("illustrative", truth(!moved_by[claim.name].empty()))
                               .add("moved_by", names.list())
                               .object());
  }
  for (Goal& goal : bench.goals) {
    if (!goal.claim.empty()) goal.moved_by = moved_by[goal.claim];
  }
  return Joined()
      .add("claims", claims.object())
      .add("inputs", rows.list())
      .add("worlds", worlds.object())
      .object();
}

}  // namespace lambent::paper_mqfq
