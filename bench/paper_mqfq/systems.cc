#include "bench/paper_mqfq/systems.h"

#include <algorithm>

#include "bench/json.h"
#include "core/base/check.h"
#include "sim/simulator/workload_run.h"
#include "sim/workload/lines.h"

namespace lambent::paper_mqfq {

using scheduling::CandidateOrder;
using scheduling::EvictionRule;
using scheduling::MqfqOptions;

namespace {

System faithful(const std::string& name) {
  System system{.name = name, .policy = "mqfq-sticky", .second_containers = true};
  system.options.mqfq = MqfqOptions::strict_paper();
  return system;
}

System fcfs(const std::string& name, bool moves_off) {
  System system{.name = name, .policy = "fcfs"};
  system.options.fcfs_moves_off_after_run = moves_off;
  return system;
}

System with_our_eviction(System system, const std::string& name) {
  system.name = name;
  system.eviction = EvictionRule::kCostAware;
  return system;
}

// What of ours is the pool: eviction by cost and two cold starts beside the tokens.
System with_our_pool(System system) {
  system.eviction = EvictionRule::kCostAware;
  system.starts_outside_tokens = scheduling::kStartsOutsideTokens;
  return system;
}

std::vector<System> make_systems() {
  std::vector<System> all = {faithful("mqfq"), faithful("mqfq-nodup"), fcfs("fcfs", true),
                             fcfs("fcfs-stays", false), fcfs("fcfs-holds", true)};
  all[1].second_containers = false;
  all[4].move_off_holds_token = true;
  all.push_back({.name = "batch", .policy = "batch"});
  System uniform = faithful("uniform");
  uniform.policy = "mqfq-uniform";
  uniform.options.mqfq.uniform_cost = seconds(1);
  all.push_back(uniform);
  // Each invocation has a container of its own.
  all.push_back({.name = "naive", .policy = "fcfs-naive", .second_containers = true});
  for (const auto& [name, base] : {std::pair("fcfs-text", size_t{2}), {"fcfs-text-holds", 4}}) {
    System text = all[base];
    text.name = name;
    text.prefetches = false;
    all.push_back(text);
  }
  all.push_back(with_our_eviction(all[1], "mqfq+"));
  all.push_back(with_our_eviction(all[2], "fcfs+"));
  all.push_back(with_our_eviction(all[5], "batch+"));
  all.push_back(all[0]);
  all.back().name = "mqfq-starts";
  all.back().starts_outside_tokens = scheduling::kStartsOutsideTokens;
  for (const char* policy : {"mqfq-sticky", "fcfs", "batch"}) {
    all.push_back(with_our_pool({.policy = policy}));
    all.back().name = std::string(policy == std::string("mqfq-sticky") ? "mqfq" : policy) + "-pool";
    all.back().options.fcfs_moves_off_after_run = false;
  }
  for (const char* policy : {"sjf", "sjf-set-up", "eevdf"}) {
    all.push_back(with_our_pool({.policy = policy}));
    all.back().name = std::string(policy) + "-pool";
  }
  // The same with second sandboxes after as much waiting as a cold start takes.
  for (const char* name : {"mqfq-pool", "fcfs-pool", "sjf-pool", "sjf-set-up-pool", "eevdf-pool"}) {
    System second = *std::ranges::find(all, name, &System::name);
    second.name += "-second";
    second.second_containers = true;
    second.second_grace_period = 1;
    all.push_back(second);
  }
  System ours = with_our_pool({.name = "ours", .policy = "density"});
  ours.options.density.adapts = true;
  ours.options.density.weighs_queue = true;
  ours.second_containers = true;
  ours.second_grace_period = 1;
  all.push_back(ours);
  const auto add = [&](const std::string& name) -> System& {
    all.push_back(ours);
    all.back().name = name;
    return all.back();
  };
  // What is foreseen: starts and memory ahead of calls, eviction by the gaps, and both.
  add("ours-ahead").foresees = true;
  add("ours-gaps").eviction = EvictionRule::kForeseen;
  System& foreseen = add("ours-foreseen");
  foreseen.foresees = true;
  foreseen.eviction = EvictionRule::kForeseen;
  System& clairvoyant = add("clairvoyant");
  clairvoyant.foresees = true;
  clairvoyant.clairvoyant = true;
  clairvoyant.eviction = EvictionRule::kForeseen;
  clairvoyant.options.mqfq.over_run = simulator::kNoOrderButCost;
  clairvoyant.options.density.grace_period = simulator::kNoOrderButCost;
  const auto add_option = [&](const std::string& name) -> System& {
    System& option = add(name);
    option.foresees = true;
    return option;
  };
  add_option("ours-early").moves_early = true;
  add_option("ours-grace").eviction = EvictionRule::kCostAwareGrace;
  add_option("ours-worth").eviction = EvictionRule::kWorth;
  all.push_back(all[0]);
  all.back().name = "mqfq-early";
  all.back().moves_early = true;
  System& unweighed = add("ours-unweighed");
  unweighed.foresees = true;
  unweighed.options.density.weighs_queue = false;
  System& no_returns = add("ours-no-returns");
  no_returns.foresees = true;
  no_returns.options.density.weighs_returns = false;
  add("ours-tokens").starts_outside_tokens = 0;
  add("ours-one").second_containers = false;
  add("ours-fixed").options.density.adapts = false;
  System& second = add("ours-fixed-second");
  second.options.density.adapts = false;
  second.second_grace_period = 0;
  System& one = add("ours-fixed-one");
  one.options.density.adapts = false;
  one.second_containers = false;
  return all;
}

std::vector<System> mqfq_candidates(const System& base) {
  std::vector<System> all;
  const bool uniform = base.policy == "mqfq-uniform";
  for (const double over_run_s : {2.0, 5.0, 10.0, 20.0, 40.0}) {
    for (const bool second : {false, true}) {
      // Of the faithful one alpha and the order too; of uniform cost what it charges.
      for (const double one : uniform ? std::vector{0.5, 1.0, 2.0} : std::vector{0.0, 1.5, 3.0}) {
        for (const auto order : {CandidateOrder::kInFlightFirst, CandidateOrder::kLengthFirst}) {
          if (uniform && order == CandidateOrder::kLengthFirst) continue;
          System system = base;
          MqfqOptions& mqfq = system.options.mqfq;
          mqfq.over_run = from_seconds(over_run_s);
          system.second_containers = second;
          if (uniform) {
            mqfq.uniform_cost = from_seconds(one);
          } else {
            mqfq.anticipation = one;
          }
          mqfq.order = order;
          all.push_back(system);
        }
      }
    }
  }
  return all;
}

}  // namespace

std::string settings_of(const System& system) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  const MqfqOptions& mqfq = system.options.mqfq;
  if (system.policy.starts_with("mqfq") || system.policy == "density") {
    add("T " + bench::number(to_seconds(mqfq.over_run)) + " s");
    add("alpha " + bench::number(mqfq.anticipation));
    if (mqfq.longest_anticipation != MqfqOptions().longest_anticipation) {
      add("at most " + bench::number(to_seconds(mqfq.longest_anticipation)) + " s");
    }
    if (system.policy == "density") {
      add("density, grace period " +
          bench::number(to_seconds(system.options.density.grace_period)) + " s");
      if (system.options.density.adapts) add("gains weighed, T by rounds");
    } else {
      add(mqfq.order == CandidateOrder::kInFlightFirst ? "in-flight first" : "length first");
    }
    if (mqfq.uniform_cost) add("cost " + bench::number(to_seconds(*mqfq.uniform_cost)) + " s");
    if (mqfq.memory_first) add("memory first");
  }
  if (system.policy == "fcfs") {
    add(!system.options.fcfs_moves_off_after_run ? "memory stays"
        : system.move_off_holds_token            ? "memory off with the token held"
                                                 : "memory off in the background");
  }
  add(!system.second_containers ? "no second containers"
      : system.second_grace_period == 0
          ? "second containers"
          : "second containers after " + bench::number(system.second_grace_period) +
                " cold starts of waiting");
  if (system.starts_outside_tokens > 0) {
    add(std::to_string(system.starts_outside_tokens) + " cold starts that hold no token");
  }
  const bool by_cost = system.eviction == EvictionRule::kCostAware ||
                       system.eviction == EvictionRule::kCostAwareGrace;
  add(by_cost                                      ? "cost-aware eviction"
      : system.eviction == EvictionRule::kForeseen ? "eviction by gaps"
                                                   : "LRU eviction");
  if (system.eviction == EvictionRule::kCostAwareGrace) add("with grace");
  if (system.moves_early) add("memory leaves early");
  if (!system.prefetches) add("no prefetch");
  if (system.foresees) add(system.clairvoyant ? "all calls known" : "starts ahead");
  return text;
}

const std::vector<System>& systems() {
  static const std::vector<System> kSystems = make_systems();
  return kSystems;
}

const System& system_named(const std::string& name) {
  for (const System& system : systems()) {
    if (system.name == name) return system;
  }
  CHECK(false, "systems() has that name");
  return systems().front();
}

const std::vector<std::string>& swept() {
  static const std::vector<std::string> kSwept = {"mqfq", "fcfs", "fcfs-stays", "batch", "uniform"};
  return kSwept;
}

std::vector<System> candidates_of(const std::string& name) {
  const System& base = system_named(name);
  std::vector<System> all;
  if (base.policy.starts_with("mqfq")) {
    all = mqfq_candidates(base);
  } else if (base.policy == "density") {
    all.push_back(base);
    for (const double grace_period : {0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0}) {
      all.push_back(base);
      all.back().second_containers = true;
      all.back().second_grace_period = grace_period;
    }
    for (const unsigned starts : {0U, 1U, 3U, 4U}) {
      all.push_back(base);
      all.back().starts_outside_tokens = starts;
    }
  } else {
    // A batch has one container whatever it may have.
    for (const bool second : {false, true}) {
      if (second && name == "batch") continue;
      all.push_back(base);
      all.back().second_containers = second;
    }
  }
  for (System& system : all) system.name = name + "-best";
  return all;
}

Result<std::vector<System>> open_best(const std::string& path) {
  ASSIGN_OR_RETURN(const auto lines, workload::open_lines(path));
  std::vector<System> best;
  for (;;) {
    ASSIGN_OR_RETURN(const auto line, lines->next());
    if (!line) break;
    if (line->empty() || line->starts_with("#")) continue;
    const size_t cut = line->find(';');
    bool found = false;
    for (const std::string& name : swept()) {
      if (line->substr(0, cut) != name || cut == std::string_view::npos) continue;
      for (const System& candidate : candidates_of(name)) {
        if (settings_of(candidate) != line->substr(cut + 1)) continue;
        best.push_back(candidate);
        found = true;
      }
    }
    if (!found) {
      return Error{ErrorCode::kInvalidArgument,
                   path + ": no candidate is '" + std::string(*line) + "'"};
    }
  }
  if (best.size() != swept().size()) {
    return Error{ErrorCode::kInvalidArgument,
                 path + " has not one row for each system that is swept"};
  }
  return best;
}

}  // namespace lambent::paper_mqfq
