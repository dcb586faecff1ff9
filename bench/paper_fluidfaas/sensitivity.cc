#include "bench/paper_fluidfaas/sensitivity.h"

#include <cmath>
#include <cstdio>

#include "bench/json.h"
#include "bench/paper_fluidfaas/inputs.h"
#include "bench/paper_fluidfaas/metrics.h"

namespace lambent::paper_fluidfaas {

using bench::Joined;
using bench::number;

namespace {

// By "point figure"; NAN where nothing can run at all.
using Effect = std::map<std::string, double>;

std::string key_of(const Metric& metric) { return metric.point + " " + metric.name; }

Effect effect(const Plan& plan, Size size, const Constants& constants) {
  Plan changed = plan;
  changed.constants = constants;
  changed.seconds_of_medium = changed.seconds_of_large = plan.quick ? 6 : 30;
  changed.warm_s = plan.quick ? 10 : 25;
  Measured all;
  bool runs = true;
  for (const Point& point : kPoints) {
    auto [setting, load, bounds] = prepare(changed, "P1", size, point, 1);
    runs = runs && bounds.whole > 0;
    if (!runs) break;
    setting.drain_s = 10;
    for (const char* name : {kOurs, "esg"}) {
      all[point.name][name].push_back(measure(system_named(name, scene_of(size)), setting, load));
    }
  }
  Effect effect;
  for (const Metric& metric : metrics()) {
    effect[key_of(metric)] = runs ? mean(values_of(metric, all, "esg")) : NAN;
  }
  return effect;
}

std::string json_of(const Effect& effect) {
  Joined all;
  for (const auto& [name, value] : effect) all.add(name, value);
  return all.object();
}

}  // namespace

Sensitivity sensitivity_of(const Plan& plan) {
  Joined verdicts, rows;
  for (const Size size : {Size::kMedium, Size::kLarge}) {
    if (plan.quick && size != Size::kLarge) continue;
    const Effect base = effect(plan, size, plan.constants);
    std::map<std::string, std::vector<std::string>> moved_by;
    std::printf(
        "\nours over esg, P1, %s: what a halved or doubled input moves by more than a fifth\n",
        load_of(size));
    for (const Input& input : inputs()) {
      Effect changed[2];
      for (const int doubled : {0, 1}) {
        Constants constants = plan.constants;
        constants.*input.value =
            std::min(input.most, constants.*input.value * (doubled == 1 ? 2 : 0.5));
        changed[doubled] = effect(plan, size, constants);
      }
      Joined moved;
      std::string text;
      for (const auto& [name, value] : base) {
        // Not a number: it cannot be said what becomes of it.
        const auto stays = [&, was = value](const Effect& one) {
          return std::abs(one.at(name) - was) <= 0.2 * std::abs(was);
        };
        if (stays(changed[0]) && stays(changed[1])) continue;
        moved.add("\"" + name + "\"");
        text += (text.empty() ? "" : ", ") + name;
        if (input.guess) moved_by[name].push_back(input.name);
      }
      std::printf("  %-24s %s  %s\n", input.name, input.guess ? "guess " : "source", text.c_str());
      std::fflush(stdout);
      rows.add(Joined()
                   .add("load", std::string("\"") + load_of(size) + "\"")
                   .add("name", std::string("\"") + input.name + "\"")
                   .add("value", plan.constants.*input.value / input.unit)
                   .add("source", std::string("\"") + input.source + "\"")
                   .add("guess", std::string(input.guess ? "true" : "false"))
                   .add("halved", json_of(changed[0]))
                   .add("doubled", json_of(changed[1]))
                   .add("moved", moved.list())
                   .object());
    }
    Joined of_load;
    for (const auto& [name, value] : base) {
      Joined guesses;
      for (const std::string& guess : moved_by[name]) guesses.add("\"" + guess + "\"");
      of_load.add(name,
                  Joined()
                      .add("as_it_is", value)
                      .add("moved_by", guesses.list())
                      .add("illustrative", std::string(moved_by[name].empty() ? "false" : "true"))
                      .object());
    }
    verdicts.add(load_of(size), of_load.object());
  }
  return {verdicts.object(), rows.list()};
}

}  // namespace lambent::paper_fluidfaas
