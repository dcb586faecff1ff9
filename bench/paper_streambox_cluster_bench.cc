// paper_streambox_cluster_bench [--quick] [--traces DIR] [--out FILE]: the systems of
// paper-streambox on one node and on clusters of 4 and 8 nodes with four GPUs each (Figure 20 of
// the StreamBox paper): most answers in time a second, under the worker's routing policies. Each
// request runs its whole workflow on one node. Prints tables and, as its last line, one JSON
// object. All of it is simulated; see docs/internals/workflows-evaluation.md.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "bench/json.h"
#include "bench/paper_streambox/cluster.h"
#include "bench/paper_streambox/experiments.h"

namespace lambent::paper_streambox {
namespace {

using bench::Joined;
using bench::write_last_line;

constexpr unsigned kNodes[] = {1, 4, 8};

struct Study {
  bool quick = false;
  // Of the arrivals of one node: each node more brings as many more.
  std::vector<double> scales = {1, 3, 10};
  size_t bursty_minutes = 1, periodic_minutes = 5, sporadic_minutes = 30;

  size_t minutes_of(const std::string& load) const {
    if (load == "bursty") return bursty_minutes;
    return load == "periodic" ? periodic_minutes : sporadic_minutes;
  }
};

// What one system does on so many nodes, under one workflow and load.
struct Cell {
  std::string workflow, load, system, policy;
  unsigned nodes = 1;
  double goodput = 0;  // the most of all scales
  double scale = 0;    // at which that was
  double mean_ms = 0, forwarded = 0, memory_gb = 0;
  double busiest = 0;  // the requests of the node that had the most, over those of an average one
};

ClusterResult run_cell(const Models& models, const Constants& constants, const Workflow& workflow,
                       const ClusterSetup& setup, const Load& load, double scale, double length_s) {
  const auto moments = arrivals_of(load, scale * setup.nodes, 1);
  const auto arrivals = draw_arrivals(constants, setup.node.tenants, moments, 1);
  auto result = run_cluster(constants, models, workflow, setup, arrivals, length_s);
  if (result.ok()) return *std::move(result);
  std::fprintf(stderr, "paper_streambox_cluster_bench: %s\n", result.error().message.c_str());
  std::exit(1);
}

Cell cell_of(const Study& study, const Models& models, const Constants& constants,
             const Workflow& workflow, const Load& whole, System system, unsigned nodes,
             const std::string& policy) {
  Cell cell{workflow.name, whole.name, name_of(system), policy, nodes};
  ClusterSetup setup{.node = best_setup(system), .nodes = nodes, .policy = policy};
  setup.node.drop_late = true;
  const size_t minutes = std::min(study.minutes_of(whole.name), whole.per_minute.size());
  const Load load = part_of(whole, 0, minutes);
  for (const double scale : study.scales) {
    const ClusterResult result = run_cell(models, constants, workflow, setup, load, scale,
                                          60.0 * static_cast<double>(minutes));
    if (result.goodput() <= cell.goodput) continue;
    cell.goodput = result.goodput();
    cell.scale = scale;
    cell.mean_ms = 1e3 * result.mean_s;
    cell.forwarded = result.forwarded;
    cell.memory_gb = result.memory_bytes / 1e9;
    cell.busiest = static_cast<double>(*std::ranges::max_element(result.by_node)) * nodes /
                   static_cast<double>(result.requests);
  }
  return cell;
}

std::string json_of(const Cell& cell) {
  return Joined()
      .add("workflow", bench::quoted(cell.workflow))
      .add("load", bench::quoted(cell.load))
      .add("system", bench::quoted(cell.system))
      .add("policy", bench::quoted(cell.policy))
      .add("nodes", cell.nodes)
      .add("goodput_per_s", cell.goodput)
      .add("at_scale", cell.scale)
      .add("mean_ms", cell.mean_ms)
      .add("forwarded", cell.forwarded)
      .add("memory_gb", cell.memory_gb)
      .add("busiest_node", cell.busiest)
      .object();
}

// Mean over workflows and loads, as the figure has it.
double mean_goodput(const std::vector<Cell>& cells, const std::string& system, unsigned nodes,
                    const std::string& policy) {
  double sum = 0, count = 0;
  for (const Cell& cell : cells) {
    if (cell.system != system || cell.nodes != nodes || cell.policy != policy) continue;
    sum += cell.goodput;
    ++count;
  }
  return count > 0 ? sum / count : 0;
}

// Ours over that system, the geometric mean over workflows and loads, but for those in which
// neither answered anything in time.
double ratio_to(const std::vector<Cell>& cells, const std::string& system, unsigned nodes,
                const std::string& policy) {
  double sum = 0, count = 0;
  for (const Cell& ours : cells) {
    if (ours.system != name_of(System::kStreamBox) || ours.nodes != nodes) continue;
    if (ours.policy != policy) continue;
    for (const Cell& theirs : cells) {
      const bool is_same = theirs.system == system && theirs.nodes == nodes &&
                           theirs.policy == policy && theirs.workflow == ours.workflow &&
                           theirs.load == ours.load;
      if (!is_same || (ours.goodput <= 0 && theirs.goodput <= 0)) continue;
      sum += std::log(ours.goodput / theirs.goodput);
      ++count;
    }
  }
  return count > 0 ? std::exp(sum / count) : 0;
}

std::string print_summary(const std::vector<Cell>& cells) {
  const std::string policy(routing::kDefaultPolicy);
  std::printf("\nmean answers in time a second over workflows and loads, %s\n%-16s", policy.c_str(),
              "system");
  for (const unsigned nodes : kNodes) std::printf(" %8u nodes", nodes);
  std::printf("   ours over it: 1, 4, 8 nodes\n");
  Joined rows;
  for (const System system : kSystems) {
    const std::string name = name_of(system);
    Joined goodputs, ratios;
    std::printf("%-16s", name.c_str());
    for (const unsigned nodes : kNodes) {
      const double goodput = mean_goodput(cells, name, nodes, policy);
      std::printf(" %14.2f", goodput);
      goodputs.add(std::to_string(nodes), goodput);
    }
    std::printf("   ");
    for (const unsigned nodes : kNodes) {
      const double ratio = ratio_to(cells, name, nodes, policy);
      std::printf(" %5.2f", ratio);
      ratios.add(std::to_string(nodes), ratio);
    }
    std::printf("\n");
    rows.add(name, Joined()
                       .add("mean_goodput_per_s", goodputs.object())
                       .add("ours_over_it", ratios.object())
                       .object());
  }
  return rows.object();
}

std::string print_policies(const std::vector<Cell>& cells) {
  Joined rows;
  const std::string ours = name_of(System::kStreamBox);
  std::printf("\nours by routing policy\n");
  for (const std::string_view each : routing::policy_names()) {
    const std::string policy(each);
    Joined goodputs;
    std::printf("%-16s", policy.c_str());
    for (const unsigned nodes : kNodes) {
      // With one node there is nothing to choose.
      const std::string chosen = nodes == 1 ? std::string(routing::kDefaultPolicy) : policy;
      const double goodput = mean_goodput(cells, ours, nodes, chosen);
      std::printf(" %14.2f", goodput);
      goodputs.add(std::to_string(nodes), goodput);
    }
    std::printf("\n");
    rows.add(policy, goodputs.object());
  }
  return rows.object();
}

int run(const Study& study, const std::vector<Load>& loads, const char* source, const char* out) {
  const Constants constants;
  const Models models = make_models(constants);
  std::printf(
      "%ssimulated: nodes of 4 x V100-16GB, loads %s\n\n%-8s %-9s %-15s %-13s %5s %10s %5s "
      "%9s %6s %9s %8s\n",
      study.quick ? "QUICK RUN; " : "", source, "workflow", "load", "system", "policy", "nodes",
      "in time/s", "at x", "mean ms", "fwd", "GB", "busiest");
  std::vector<Cell> cells;
  Joined rows;
  for (const Workflow& workflow : workflows()) {
    for (const Load& load : loads) {
      for (const System system : kSystems) {
        for (const unsigned nodes : kNodes) {
          for (const std::string_view policy : routing::policy_names()) {
            // The other policies with ours alone, and where there is a choice.
            const bool is_default = policy == routing::kDefaultPolicy;
            if (!is_default && (system != System::kStreamBox || nodes == 1)) continue;
            const Cell cell = cell_of(study, models, constants, workflow, load, system, nodes,
                                      std::string(policy));
            std::printf("%-8s %-9s %-15s %-13s %5u %10.2f %5g %9.1f %6.2f %9.2f %8.2f\n",
                        cell.workflow.c_str(), cell.load.c_str(), cell.system.c_str(),
                        cell.policy.c_str(), nodes, cell.goodput, cell.scale, cell.mean_ms,
                        cell.forwarded, cell.memory_gb, cell.busiest);
            std::fflush(stdout);
            rows.add(json_of(cell));
            cells.push_back(cell);
          }
        }
      }
    }
  }
  const std::string systems = print_summary(cells);
  const std::string policies = print_policies(cells);
  const std::string json = Joined()
                               .add("bench", bench::quoted("paper-streambox-cluster"))
                               .add("quick", bench::truth(study.quick))
                               .add("simulated", bench::truth(true))
                               .add("loads", bench::quoted(source))
                               .add("systems", systems)
                               .add("ours_by_policy", policies)
                               .add("cells", rows.list())
                               .object();
  return write_last_line(json, out);
}

}  // namespace
}  // namespace lambent::paper_streambox

int main(int count, char** arguments) {
  using namespace lambent::paper_streambox;
  Study study;
  const char *out = nullptr, *traces = nullptr;
  for (int i = 1; i < count; ++i) {
    if (std::strcmp(arguments[i], "--quick") == 0) {
      study = {.quick = true,
               .scales = {1, 10},
               .bursty_minutes = 1,
               .periodic_minutes = 1,
               .sporadic_minutes = 2};
    } else if (std::strcmp(arguments[i], "--out") == 0 && i + 1 < count) {
      out = arguments[++i];
    } else if (std::strcmp(arguments[i], "--traces") == 0 && i + 1 < count) {
      traces = arguments[++i];
    } else {
      std::fprintf(stderr,
                   "usage: paper_streambox_cluster_bench [--quick] [--traces DIR] [--out FILE]\n");
      return 2;
    }
  }
  const auto loads = traces == nullptr ? lambent::Result<std::vector<Load>>(generated_loads(1, 500))
                                       : read_loads(traces);
  if (!loads.ok()) {
    std::fprintf(stderr, "paper_streambox_cluster_bench: %s\n", loads.error().message.c_str());
    return 1;
  }
  return run(study, *loads, traces == nullptr ? "generated" : "of the traces", out);
}
