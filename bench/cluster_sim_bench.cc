// cluster_sim_bench [--quick] [--fetched|--nodes N,...]: the routing policies in a simulated
// cluster of 3 to 1,000 nodes with 8 GPUs each, under functions and arrivals of the Azure-like
// generator: latency, cold starts, forwarded requests; and what one decision costs, measured.
// Prints a table and, as its last line, one JSON object. --fetched: only the cases in which a part
// of each cold start reads files, which a node that ran the function lately still has in memory.
// --nodes: clusters of these sizes under the default policy, and no cost of decisions. All but that
// cost is simulated; see docs/internals/routing.md.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/json.h"
#include "core/base/random.h"
#include "decide/routing/policy.h"
#include "sim/cluster_simulator/cluster_run.h"
#include "sim/workload/catalogue.h"
#include "sim/workload/generator.h"

namespace lambent {
namespace {

using cluster_simulator::ClusterFigures;
using cluster_simulator::ClusterOptions;
using cluster_simulator::FunctionModel;

struct Case {
  std::string name;
  ClusterOptions options;
  size_t functions = 4000;
  double load = 0.3;  // of all slots, were every invocation warm
  // This part of each cold start reads files, as many bytes as the function has on the GPU.
  double fetch = 0;
};

template <typename T>
T must(Result<T> result) {
  if (result.ok()) return *std::move(result);
  std::fprintf(stderr, "cluster_sim_bench: %s\n", to_string(result.error()).c_str());
  std::exit(1);
}

struct Workload {
  std::vector<FunctionModel> functions;
  std::unique_ptr<workload::ArrivalSource> arrivals;
};

Workload workload_of(const Case& each, const workload::Catalogue& catalogue, double invocations) {
  const double slots = each.options.nodes * each.options.node.slots();
  // The catalogue's functions take 1.7 s on average; how many come out is printed.
  const double duration_s = invocations * 1.7 / (slots * each.load);
  workload::Trace trace = must(workload::generate({.functions = each.functions,
                                                   .duration = from_seconds(duration_s),
                                                   .offered_load = slots * each.load,
                                                   .seed = 11},
                                                  catalogue));
  SeededRandom random(11);
  Workload workload;
  for (const auto* entry : must(workload::assign_entries(trace.functions, catalogue, random))) {
    workload.functions.push_back({.run = from_seconds(entry->gpu_warm_s),
                                  .start = from_seconds(entry->init_s()),
                                  .memory = entry->device_memory,
                                  .fetch = from_seconds(entry->init_s() * each.fetch),
                                  .files = each.fetch > 0 ? entry->device_memory : Bytes()});
  }
  workload.arrivals = std::move(trace.arrivals);
  return workload;
}

// A cluster at work, for timing decisions.
class BusyView final : public routing::NodeView {
 public:
  explicit BusyView(uint32_t nodes) {
    SeededRandom random(3);
    std::vector<uint64_t> keys;
    for (routing::NodeIndex index = 0; index < nodes; ++index) {
      keys.push_back(routing::hash_of("node" + std::to_string(index)));
      loads_.push_back({.slots = 16,
                        .load = static_cast<uint32_t>(random.below(20)),
                        .memory_free = Bytes::gib(random.below(100)),
                        .gpus = 8});
      total_ += loads_.back().load;
    }
    ring = routing::HashRing::of(keys);
  }
  uint32_t size() const override { return static_cast<uint32_t>(loads_.size()); }
  routing::NodeLoad node(routing::NodeIndex index) const override { return loads_[index]; }
  routing::Warmth warmth(routing::NodeIndex index, uint64_t function) const override {
    return (function + index) % 8 == 0 ? routing::Warmth::kResident : routing::Warmth::kNone;
  }
  uint64_t total_slots() const override { return 16 * loads_.size(); }
  uint64_t total_load() const override { return total_; }

  routing::HashRing ring;

 private:
  std::vector<routing::NodeLoad> loads_;
  uint64_t total_ = 0;
};

double decision_ns(std::string_view policy_name, uint32_t nodes, uint64_t decisions) {
  const auto policy = must(routing::make_policy(policy_name, {}));
  const BusyView view(nodes);
  SeededRandom random(5);
  uint64_t sum = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (uint64_t each = 0; each < decisions; ++each) {
    sum += policy
               ->choose({.function = random.next(),
                         .memory = Bytes::gib(1),
                         .entry = static_cast<routing::NodeIndex>(random.below(nodes)),
                         .draw = random.next()},
                        view.ring, view)
               ->node;
  }
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
  // So that no decision is left out.
  if (sum == UINT64_MAX) std::puts("");
  return took.count() / static_cast<double>(decisions);
}

// As many for each node, so that what happens at the beginning, when all is cold, counts as much;
// and enough for each function where there are few nodes.
double invocations_of(const Case& each, bool quick) {
  const double usual = std::max(each.options.nodes * 2000.0, 200'000.0);
  return quick ? usual / 10 : usual;
}

std::vector<Case> cases(bool quick) {
  std::vector<Case> all;
  const std::vector<uint32_t> sizes =
      quick ? std::vector<uint32_t>{3, 30, 300} : std::vector<uint32_t>{3, 10, 30, 100, 300, 1000};
  for (const uint32_t nodes : sizes) {
    for (const std::string_view policy : routing::policy_names()) {
      all.push_back({"size", {.nodes = nodes, .policy = std::string(policy)}});
    }
  }
  if (quick) return all;
  for (const std::string_view policy : routing::policy_names()) {
    for (const uint32_t nodes : {100U, 300U, 1000U}) {
      all.push_back(
          {"100,000 functions", {.nodes = nodes, .policy = std::string(policy)}, 100'000});
    }
    all.push_back({"load 0.5", {.nodes = 100, .policy = std::string(policy)}, 4000, 0.5});
    all.push_back(
        {"all known at once",
         {.nodes = 100, .policy = std::string(policy), .report_period = Duration::zero()}});
  }
  for (const uint32_t nodes : {8U, 100U}) {
    for (const std::string_view policy : routing::policy_names()) {
      all.push_back({"at a fourth of them",
                     {.nodes = nodes, .policy = std::string(policy), .entries = nodes / 4}});
      all.push_back({"reports of 5 s",
                     {.nodes = nodes, .policy = std::string(policy), .report_period = seconds(5)}});
    }
  }
  for (const double bound : {1.1, 1.25, 1.5, 2.0}) {
    for (const double share : {0.0, 0.5, 0.75, 1.0}) {
      all.push_back({"constants", {.nodes = 100, .policy_options = {bound, share}}});
    }
  }
  return all;
}

std::vector<Case> fetched_cases() {
  struct Setting {
    double fetch;
    size_t functions;
    double load;
    uint64_t page_cache_gib;
  };
  constexpr Setting kSettings[] = {{0.25, 4000, 0.3, 64},
                                   {0.75, 4000, 0.3, 64},
                                   {0.75, 4000, 0.5, 512},
                                   {0.75, 400, 0.3, 512},
                                   {0.75, 400, 0.6, 512}};
  std::vector<Case> all;
  for (const Setting& each : kSettings) {
    for (const uint32_t nodes : {10U, 100U}) {
      for (const auto& [policy, regards] :
           {std::pair{"bounded-hash", true}, {"bounded-hash", false}, {"two-choices", false}}) {
        ClusterOptions options{
            .nodes = nodes, .policy = policy, .policy_options = {.regards_fetched = regards}};
        options.node.page_cache = Bytes::gib(each.page_cache_gib);
        all.push_back({.name = regards ? "files regarded" : "files not regarded",
                       .options = options,
                       .functions = each.functions,
                       .load = each.load,
                       .fetch = each.fetch});
      }
    }
  }
  return all;
}

std::vector<Case> cases_of(const std::vector<uint32_t>& sizes) {
  std::vector<Case> all;
  for (const uint32_t nodes : sizes) all.push_back({"size", {.nodes = nodes}});
  return all;
}

// Whole numbers of nodes; nothing: this is no list of them.
std::optional<std::vector<uint32_t>> sizes_in(std::string_view text) {
  std::vector<uint32_t> sizes;
  while (!text.empty()) {
    uint32_t nodes = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), nodes);
    if (error != std::errc() || nodes == 0) return std::nullopt;
    sizes.push_back(nodes);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (!text.empty() && text.front() != ',') return std::nullopt;
    if (!text.empty()) text.remove_prefix(1);
  }
  return sizes;
}

struct Flags {
  bool quick = false;
  bool fetched = false;
  std::vector<uint32_t> sizes;
};

int run(const Flags& flags) {
  const bool quick = flags.quick;
  const bool fetched = flags.fetched;
  const auto catalogue =
      must(workload::open_catalogue(LAMBENT_SHARE_DIR "/catalogue/mqfq_table1.csv"));

  bench::Joined rows, costs;
  std::printf("%-18s %5s %-13s %5s %5s | %8s %8s %8s %6s %6s %6s %6s %6s\n", "simulated", "nodes",
              "policy", "bound", "share", "mean s", "p50 s", "p99 s", "cold", "fetch", "swap",
              "fwd", "most");
  const bool only_sizes = !flags.sizes.empty();
  const std::vector<Case> all_cases =
      only_sizes ? cases_of(flags.sizes) : (fetched ? fetched_cases() : cases(quick));
  for (const Case& each : all_cases) {
    const Workload workload = workload_of(each, catalogue, invocations_of(each, quick));
    const ClusterFigures figures =
        must(cluster_simulator::run_cluster(each.options, workload.functions, *workload.arrivals));
    const auto& tuned = each.options.policy_options;
    std::printf("%-18s %5u %-13s %5.2f %5.2f | %8.3f %8.3f %8.3f %6.3f %6.3f %6.3f %6.3f %6.2f\n",
                each.name.c_str(), each.options.nodes, each.options.policy.c_str(), tuned.bound,
                tuned.free_share, figures.mean_s, figures.p50_s, figures.p99_s, figures.cold,
                figures.fetched, figures.swapped_in, figures.forwarded, figures.most_load);
    std::fflush(stdout);
    bench::Joined row;
    row.add("case", bench::quoted(each.name)).add("nodes", each.options.nodes);
    row.add("functions", static_cast<double>(each.functions)).add("load", each.load);
    row.add("policy", bench::quoted(each.options.policy)).add("bound", tuned.bound);
    row.add("free_share", tuned.free_share);
    row.add("invocations", static_cast<double>(figures.invocations));
    row.add("mean_s", figures.mean_s).add("p50_s", figures.p50_s).add("p99_s", figures.p99_s);
    row.add("fetch_share", each.fetch).add("regards_fetched", tuned.regards_fetched ? 1.0 : 0.0);
    row.add("cold", figures.cold).add("fetched", figures.fetched);
    row.add("swapped_in", figures.swapped_in);
    row.add("forwarded", figures.forwarded).add("most_load", figures.most_load);
    rows.add(row.object());
  }
  if (fetched || only_sizes) {
    std::printf("%s\n", bench::Joined().add("simulated", rows.list()).object().c_str());
    return 0;
  }
  std::printf("\n%-13s %6s %10s\n", "decision", "nodes", "ns");
  for (const std::string_view policy : routing::policy_names()) {
    for (const uint32_t nodes : {3U, 30U, 300U, 1000U}) {
      const double ns = decision_ns(policy, nodes, quick ? 20'000 : 200'000);
      std::printf("%-13s %6u %10.0f\n", std::string(policy).c_str(), nodes, ns);
      bench::Joined cost;
      cost.add("policy", bench::quoted(std::string(policy))).add("nodes", nodes).add("ns", ns);
      costs.add(cost.object());
    }
  }
  bench::Joined all;
  all.add("simulated", rows.list()).add("decisions", costs.list());
  std::printf("%s\n", all.object().c_str());
  return 0;
}

}  // namespace
}  // namespace lambent

int main(int argc, char** argv) {
  lambent::Flags flags;
  bool is_understood = true;
  for (int each = 1; each < argc; ++each) {
    const std::string_view word = argv[each];
    if (word == "--quick") {
      flags.quick = true;
    } else if (word == "--fetched") {
      flags.fetched = true;
    } else if (word == "--nodes" && each + 1 < argc) {
      const auto sizes = lambent::sizes_in(argv[++each]);
      is_understood = is_understood && sizes && !sizes->empty();
      if (sizes) flags.sizes = *sizes;
    } else {
      is_understood = false;
    }
  }
  const bool chooses_two = flags.fetched && (flags.quick || !flags.sizes.empty());
  if (!is_understood || chooses_two) {
    std::fprintf(stderr, "usage: cluster_sim_bench [--quick] [--nodes N,...] | --fetched\n");
    return 2;
  }
  return lambent::run(flags);
}
