#include "bin/sweep_plan.h"

#include <algorithm>
#include <set>

#include "bin/usage.h"
#include "decide/scheduling/make_policy.h"

namespace lambent::bin {
namespace {

// Flags that say where results go, or that a sweep has for itself.
const std::set<std::string> kNotVaried = {"out", "csv",  "json",      "quiet",
                                          "set", "seed", "functions", "reading"};

Error bad(const std::string& why) { return {ErrorCode::kInvalidArgument, why}; }

// Whether `lambent simulate` has such a flag.
bool is_flag(const std::string& name) {
  CLI::App app;
  SimulateOptions options;
  add_simulate_flags(app, options);
  return app.get_option_no_throw("--" + name) != nullptr;
}

// What sets the parameter `name`, as a flag with its value in one word.
std::string flag_of(const std::string& name, const std::string& value) {
  if (name == "trace") return value;
  return is_flag(name) ? "--" + name + "=" + value : "--set=" + name + "=" + value;
}

bool gives(const std::vector<std::string>& arguments, const std::string& name) {
  return std::any_of(arguments.begin(), arguments.end(), [&](const std::string& argument) {
    return argument == "--" + name || argument.starts_with("--" + name + "=") ||
           argument == "--set=" + name || argument.starts_with("--set=" + name + "=") ||
           argument.starts_with(name + "=");
  });
}

Result<void> check_axis(const SweepPlan& plan, size_t index) {
  const sweep::Axis& axis = plan.grid.axes[index];
  sweep::Cell cell{{}, plan.grid.first_seed};
  for (const sweep::Axis& each : plan.grid.axes) cell.values.push_back(each.values.front());
  for (const std::string& value : axis.values) {
    cell.values[index] = value;
    const auto options = options_of(arguments_of(plan, cell));
    Result<void> tried;
    if (!options.ok()) {
      tried = options.error();
    } else if (const auto settings = settings_of(*options); !settings.ok()) {
      tried = settings.error();
    } else if (const auto policy =
                   scheduling::make_policy(options->policies.front(), settings->policy);
               !policy.ok()) {
      tried = policy.error();
    }
    if (!tried.ok()) return bad(axis.name + "=" + value + ": " + tried.error().message);
  }
  return {};
}

}  // namespace

std::vector<std::string> arguments_of(const SweepPlan& plan, const sweep::Cell& cell) {
  std::vector<std::string> arguments = plan.arguments;
  for (size_t i = 0; i < cell.values.size(); ++i) {
    arguments.push_back(flag_of(plan.grid.axes[i].name, cell.values[i]));
  }
  arguments.push_back("--seed=" + std::to_string(cell.seed));
  return arguments;
}

Result<SimulateOptions> options_of(const std::vector<std::string>& arguments) {
  SimulateOptions options;
  CLI::App app;
  add_simulate_flags(app, options);
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::ParseError& error) {
    return bad(complaint(app, error));
  }
  RETURN_IF_ERROR(finish_simulate_flags(app, options));
  return options;
}

Result<SweepPlan> make_sweep_plan(std::vector<std::string> arguments,
                                  const std::vector<std::string>& vary,
                                  const std::vector<std::string>& policies, uint64_t first_seed,
                                  uint64_t seeds) {
  SweepPlan plan{.arguments = {}, .grid = {.first_seed = first_seed, .seeds = seeds}};
  for (const std::string& text : vary) {
    ASSIGN_OR_RETURN(sweep::Axis axis, sweep::parse_axis(text));
    axis.name = parameter_name(axis.name);
    if (kNotVaried.contains(axis.name)) {
      return bad("--vary " + text + ": not a parameter" +
                 (axis.name == "seed" ? "; --seeds N runs each cell under N seeds" : ""));
    }
    if (gives(arguments, axis.name)) {
      return bad(axis.name + " is both fixed and varied; leave out one");
    }
    plan.grid.axes.push_back(std::move(axis));
  }
  ASSIGN_OR_RETURN(const SimulateOptions fixed, options_of(arguments));
  for (const auto& [name, value] : {std::pair("--out", fixed.out), std::pair("--csv", fixed.csv)}) {
    if (!value.empty()) return bad(std::string(name) + " of single runs; a sweep has its own");
  }
  if (!policies.empty()) plan.grid.axes.push_back({"policy", policies});
  plan.arguments = std::move(arguments);
  RETURN_IF_ERROR(plan.grid.check());
  for (size_t i = 0; i < plan.grid.axes.size(); ++i) RETURN_IF_ERROR(check_axis(plan, i));
  return plan;
}

}  // namespace lambent::bin
