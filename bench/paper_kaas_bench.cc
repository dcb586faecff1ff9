// paper_kaas_bench [--quick] [--out FILE] [--seed N] [--traces DIR]: the KaaS paper's multitenant
// experiment in our simulator: 1 to 32 replicas of its four workloads on four GPUs, as kernel
// functions and as functions that hold a GPU for themselves. Prints tables and, as its last line,
// one JSON object.
//
// *Offline*: every client has some requests under way and sends the next one with the answer;
// answers a second. *Online*: a Poisson stream, or one with the gaps of DIR/kaas/gaps.txt, at 80 %
// of what the same system gave offline; latencies. Means over seeds with 95 % confidence intervals.
// All of it is simulated.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <optional>

#include "bench/json.h"
#include "bench/paper_kaas/run.h"
#include "sim/workload/csv.h"

namespace lambent::paper_kaas {

using bench::number;
using bench::write_last_line;

namespace {

struct Plan {
  bool quick = false;
  bool by_outstanding = false;           // that alone
  std::optional<double> etask_start_ms;  // as measured, instead of the paper's
  unsigned seeds = 5;
  uint64_t first_seed = 1;
  std::vector<double> gaps;  // empty: Poisson
  double requests = 4000;
  double at_least_s = 60;
  double warm_up_s = 60;
  std::vector<unsigned> replicas = {1, 2, 3, 4, 5, 6, 8, 12, 16, 20, 24, 28, 32};
};

struct Estimate {
  double mean = 0;
  double half_width = 0;  // of the 95 % confidence interval
};

Estimate estimate(const std::vector<double>& values) {
  // Student's t for 1 to 9 degrees of freedom.
  static constexpr double kT[] = {12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262};
  const double n = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  const double mean = sum / n;
  for (const double value : values) squares += (value - mean) * (value - mean);
  if (values.size() < 2) return {mean, 0};
  const double t = kT[std::min<size_t>(values.size() - 2, 8)];
  return {mean, t * std::sqrt(squares / (n - 1) / n)};
}

struct Point {
  Estimate throughput;
  Estimate p50_s, p90_s, p99_s;                         // online
  double cold_share = 0, gpu_cold_share = 0;            // offline
  std::vector<double> throughputs, p50s, p90s;          // by seed
  std::array<double, kShares.size()> distribution_s{};  // online, mean over seeds
};

Point measure(const Plan& plan, const Workload& workload, const Constants& constants,
              const Setup& setup, double online_rate = 0) {
  Point point;
  std::vector<double> p99s;
  for (uint64_t seed = plan.first_seed; seed < plan.first_seed + plan.seeds; ++seed) {
    RunOptions options{.seed = seed,
                       .requests = plan.requests,
                       .at_least_s = plan.at_least_s,
                       .warm_up_s = plan.warm_up_s,
                       .gaps = plan.gaps.empty() ? nullptr : &plan.gaps};
    const RunResult offline = run_once(workload, constants, setup, options);
    point.throughputs.push_back(offline.throughput);
    point.cold_share += offline.cold_share / plan.seeds;
    point.gpu_cold_share += offline.gpu_cold_share / plan.seeds;
    options.rate = online_rate > 0 ? online_rate : 0.8 * offline.throughput;
    const RunResult online = run_once(workload, constants, setup, options);
    point.p50s.push_back(online.p50_s);
    point.p90s.push_back(online.p90_s);
    p99s.push_back(online.p99_s);
    for (size_t i = 0; i < kShares.size(); ++i) {
      point.distribution_s[i] += online.distribution_s[i] / plan.seeds;
    }
  }
  point.throughput = estimate(point.throughputs);
  point.p50_s = estimate(point.p50s);
  point.p90_s = estimate(point.p90s);
  point.p99_s = estimate(p99s);
  return point;
}

struct Named {
  const char* name;
  Setup setup;
};

std::vector<Named> systems() {
  Setup cfs, mqfq, exclusive;
  mqfq.policy = "mqfq-sticky";
  exclusive.system = System::kExclusiveTasks;
  exclusive.policy = "exclusive";
  return {{"ktask cfs-affinity", cfs}, {"ktask mqfq-sticky", mqfq}, {"etask exclusive", exclusive}};
}

const Workload& find(const std::vector<Workload>& workloads, std::string_view name) {
  for (const Workload& workload : workloads) {
    if (workload.name == name) return workload;
  }
  std::fprintf(stderr, "paper_kaas_bench: the catalogue has no workload %s\n",
               std::string(name).c_str());
  std::exit(1);
}

std::string json_of(const Point& point) {
  const auto pair = [](const Estimate& one) {
    return "[" + number(one.mean) + "," + number(one.half_width) + "]";
  };
  return "{\"throughput\":" + pair(point.throughput) + ",\"p50_s\":" + pair(point.p50_s) +
         ",\"p90_s\":" + pair(point.p90_s) + ",\"p99_s\":" + pair(point.p99_s) +
         ",\"cold\":" + number(point.cold_share) + ",\"gpu_cold\":" + number(point.gpu_cold_share) +
         "}";
}

void print_row(const std::string& workload, unsigned replicas, const char* name,
               const Point& point) {
  std::printf("%-9s %4u  %-30s %8.2f ±%-6.2g %9.1f ±%-6.2g %9.1f %9.1f %6.1f %8.1f\n",
              workload.c_str(), replicas, name, point.throughput.mean, point.throughput.half_width,
              point.p50_s.mean * 1e3, point.p50_s.half_width * 1e3, point.p90_s.mean * 1e3,
              point.p99_s.mean * 1e3, 100 * point.cold_share, 100 * point.gpu_cold_share);
  std::fflush(stdout);
}

void print_head() {
  std::printf("%-9s %4s  %-30s %16s %17s %9s %9s %6s %8s\n", "workload", "n", "system", "answers/s",
              "p50 ms", "p90 ms", "p99 ms", "cold%", "gpucold%");
}

// The ratios of one point, kernel functions over eTasks.
struct Ratios {
  Estimate throughput, p50, p90;
};
Ratios ratios_of(const Point& kernel, const Point& exclusive) {
  std::vector<double> throughput, p50, p90;
  for (size_t i = 0; i < kernel.throughputs.size(); ++i) {
    throughput.push_back(kernel.throughputs[i] / exclusive.throughputs[i]);
    p50.push_back(exclusive.p50s[i] / kernel.p50s[i]);
    p90.push_back(exclusive.p90s[i] / kernel.p90s[i]);
  }
  return {estimate(throughput), estimate(p50), estimate(p90)};
}
Ratios ratios_at(const Plan& plan, const Workload& workload, const Constants& constants,
                 unsigned replicas) {
  Setup kernel = systems()[0].setup;
  Setup exclusive = systems()[2].setup;
  kernel.replicas = exclusive.replicas = replicas;
  return ratios_of(measure(plan, workload, constants, kernel),
                   measure(plan, workload, constants, exclusive));
}
std::string json_of(const Ratios& ratios) {
  return "{\"throughput_ratio\":" + number(ratios.throughput.mean) +
         ",\"latency_ratio\":" + number(ratios.p50.mean) +
         ",\"p90_ratio\":" + number(ratios.p90.mean) + "}";
}

// The last number of clients at which no more than a twentieth of the best throughput is lost; null
// if none is lost up to the last point.
std::string knee_of(const std::map<unsigned, Point>& points) {
  double best = 0;
  for (const auto& [replicas, point] : points) best = std::max(best, point.throughput.mean);
  unsigned knee = 0;
  bool saturated = false;
  for (const auto& [replicas, point] : points) {
    saturated = saturated || point.throughput.mean > 0.95 * best;
    if (saturated && point.throughput.mean < 0.95 * best) return std::to_string(knee);
    knee = replicas;
  }
  return "null";
}

struct Input {
  const char* name;
  std::string value;
  const char* source;
  void (*scale)(Constants&, double);
};
std::vector<Input> inputs() {
  return {
      {"etask_start_ms", "400", "paper, section 5.2: numpy, pickle and pycuda",
       [](Constants& c, double by) { c.etask_start = from_seconds(0.4 * by); }},
      {"etask_stop_ms", "10", "guess",
       [](Constants& c, double by) { c.etask_stop = from_seconds(0.01 * by); }},
      {"ktask_start_ms", "1", "guess: the goal of the bench kernel",
       [](Constants& c, double by) { c.ktask_start = from_seconds(0.001 * by); }},
      {"overhead_ms", "0.1", "guess, the same for both",
       [](Constants& c, double by) { c.overhead = from_seconds(0.0001 * by); }},
      {"link_gb_per_s", "12", "StreamBox paper: PCIe 3 with page-locked memory",
       [](Constants& c, double by) { c.link_bytes_per_second = 12e9 * by; }},
      {"outstanding", "8", "guess: requests that a client has under way",
       [](Constants& c, double by) { c.outstanding = static_cast<unsigned>(8 * by); }},
      {"spread", "0.05", "guess", [](Constants& c, double by) { c.spread = 0.05 * by; }},
  };
}

// What cGEMM loses beyond the memory, under other choices.
std::vector<Named> variants() {
  std::vector<Named> all;
  const auto add = [&](const char* name, auto change) {
    Setup setup;
    change(setup);
    all.push_back({name, setup});
  };
  add("cfs-affinity", [](Setup&) {});
  add("cfs-affinity D=2", [](Setup& s) { s.tokens = 2; });
  add("cfs-affinity penalty 1", [](Setup& s) { s.cfs_penalty = 1; });
  add("cfs-affinity penalty 100", [](Setup& s) { s.cfs_penalty = 100; });
  add("mqfq-sticky T=20", [](Setup& s) { s.policy = "mqfq-sticky"; });
  add("mqfq-sticky T=0.4", [](Setup& s) {
    s.policy = "mqfq-sticky";
    s.over_run = milliseconds(400);
  });
  add("mqfq-sticky T=20 D=2", [](Setup& s) {
    s.policy = "mqfq-sticky";
    s.tokens = 2;
  });
  for (const auto& [name, over_run_ms, tokens] :
       {std::tuple("mqfq memory_first T=20", 20'000, 1U),
        std::tuple("mqfq memory_first T=2", 2'000, 1U),
        std::tuple("mqfq memory_first T=0.4", 400, 1U),
        std::tuple("mqfq memory_first T=2 D=2", 2'000, 2U)}) {
    add(name, [&](Setup& s) {
      s.policy = "mqfq-sticky";
      s.memory_first = true;
      s.over_run = milliseconds(over_run_ms);
      s.tokens = tokens;
    });
  }
  add("fcfs", [](Setup& s) { s.policy = "fcfs"; });
  return all;
}

// Processes that hold a GPU each, under other policies than the paper's: which of them is the best
// eTask there is.
std::vector<Named> exclusive_variants() {
  std::vector<Named> all;
  for (const auto& [name, policy, over_run_s] :
       {std::tuple("etask exclusive", "exclusive", 0), std::tuple("etask fcfs", "fcfs", 0),
        std::tuple("etask batch", "batch", 0), std::tuple("etask mqfq T=20", "mqfq-sticky", 20),
        std::tuple("etask mqfq T=100", "mqfq-sticky", 100),
        std::tuple("etask density T=20", "density", 20)}) {
    Setup setup;
    setup.system = System::kExclusiveTasks;
    setup.policy = policy;
    setup.over_run = seconds(over_run_s);
    all.push_back({name, setup});
  }
  return all;
}

// Both claims by how many requests a client has under way, over eTasks as the paper has them and
// over the best that there are. Every point is one that the others' inputs are held at.
std::string by_outstanding(const Plan& plan, const Workload& solver, const Workload& model,
                           const Constants& constants, unsigned solvers, unsigned models) {
  std::string all;
  std::printf("\n%-12s %-20s %18s %18s   (answers a second, kernel functions over them; p50)\n",
              "outstanding", "etasks under", "compute", "memory");
  for (const Named& variant : exclusive_variants()) {
    const std::string policy = variant.setup.policy;
    if (policy != "exclusive" && policy != "batch" && policy != "density") continue;
    for (const unsigned outstanding : {1U, 2U, 4U, 8U}) {
      Constants other = constants;
      other.outstanding = outstanding;
      std::string claims;
      std::printf("%-12u %-20s", outstanding, variant.name);
      for (const auto& [claim, workload, replicas] :
           {std::tuple("compute", &solver, solvers), std::tuple("memory", &model, models)}) {
        Setup kernel = systems()[0].setup, exclusive = variant.setup;
        kernel.replicas = exclusive.replicas = replicas;
        const Ratios ratios = ratios_of(measure(plan, *workload, other, kernel),
                                        measure(plan, *workload, other, exclusive));
        std::printf(" %8.2f (%7.2f)", ratios.throughput.mean, ratios.p50.mean);
        std::fflush(stdout);
        claims += std::string(",\"") + claim + "\":" + json_of(ratios);
      }
      std::printf("\n");
      all += (all.empty() ? "" : ",") + std::string("{\"outstanding\":") +
             std::to_string(outstanding) + ",\"etasks\":\"" + policy + "\"" + claims + "}";
    }
  }
  return "[" + all + "]";
}

std::string list_of(const std::array<double, kShares.size()>& values) {
  std::string list;
  for (const double value : values) list += (list.empty() ? "[" : ",") + number(value);
  return list + "]";
}

// At the rate that eTasks can take, 80 % of their peak, with 16 clients: how many times their
// median is that of kernel functions, and how the latencies of both are distributed.
std::pair<std::string, std::string> at_equal_rate(const Plan& plan,
                                                  const std::vector<Workload>& workloads,
                                                  const Constants& constants) {
  constexpr unsigned kClients = 16;
  std::string medians, distributions = "\"shares\":" + list_of(kShares);
  for (const Workload& workload : workloads) {
    Setup kernel = systems()[0].setup, exclusive = systems()[2].setup;
    kernel.replicas = exclusive.replicas = kClients;
    const Point slow = measure(plan, workload, constants, exclusive);
    const Point fast = measure(plan, workload, constants, kernel, 0.8 * slow.throughput.mean);
    std::printf("%s, 16 clients at 80 %% of the eTasks' peak: p50 %.1f ms against %.1f ms\n",
                workload.name.c_str(), fast.p50_s.mean * 1e3, slow.p50_s.mean * 1e3);
    medians += (medians.empty() ? "\"" : ",\"") + workload.name +
               "\":" + number(slow.p50_s.mean / fast.p50_s.mean);
    distributions += ",\"" + workload.name + "\":{\"etask_s\":" + list_of(slow.distribution_s) +
                     ",\"ktask_s\":" + list_of(fast.distribution_s) + "}";
  }
  return {medians, distributions};
}

int run(const Plan& plan, const char* out) {
  const auto opened = open_workloads(std::string(LAMBENT_SHARE_DIR) + "/catalogue/kaas_table1.csv");
  if (!opened.ok()) {
    std::fprintf(stderr, "paper_kaas_bench: %s\n", opened.error().message.c_str());
    return 1;
  }
  const std::vector<Workload>& workloads = *opened;
  Constants constants;
  if (plan.etask_start_ms) constants.etask_start = from_seconds(*plan.etask_start_ms / 1e3);
  const Workload& solver = find(workloads, "Jacobi");
  const Workload& model = find(workloads, "BERT");
  // 16 clients of the solver, and a model whose clients want 1.5 times the memory that there is,
  // which is 74 clients of BERT.
  constexpr unsigned kSolvers = 16, kModels = 74;
  if (plan.by_outstanding) {
    return write_last_line(
        std::string("{\"bench\":\"paper-kaas\",\"quick\":") + (plan.quick ? "true" : "false") +
            ",\"simulated\":true,\"etask_start_ms\":" +
            number(to_seconds(constants.etask_start) * 1e3) + ",\"by_outstanding\":" +
            by_outstanding(plan, solver, model, constants, kSolvers, kModels) + "}",
        out);
  }
  std::printf(
      "%ssimulated: %u x V100-16GB, Table 1 of the paper, %u seeds from %llu on; online at 80 %% "
      "of "
      "peak, %s\n",
      plan.quick ? "QUICK RUN; " : "", constants.gpus, plan.seeds,
      static_cast<unsigned long long>(plan.first_seed),
      plan.gaps.empty() ? "Poisson" : "with the gaps of the traces");
  print_head();
  std::string rows, knees;
  std::map<std::string, std::map<std::string, std::map<unsigned, Point>>> surface;
  for (const Workload& workload : workloads) {
    for (const unsigned replicas : plan.replicas) {
      for (const Named& system : systems()) {
        Setup setup = system.setup;
        setup.replicas = replicas;
        const Point point = measure(plan, workload, constants, setup);
        print_row(workload.name, replicas, system.name, point);
        rows += (rows.empty() ? "" : ",") + std::string("{\"workload\":\"") + workload.name +
                "\",\"replicas\":" + std::to_string(replicas) + ",\"system\":\"" + system.name +
                "\",\"point\":" + json_of(point) + "}";
        surface[workload.name][system.name][replicas] = point;
      }
    }
  }

  // The paper's two claims.
  const Ratios compute = ratios_at(plan, solver, constants, kSolvers);
  const Ratios memory = ratios_at(plan, model, constants, kModels);
  std::printf(
      "\nratios over eTasks, simulated (paper): compute %.1f x answers/s (50), %.1f x lower p50 "
      "(16); memory %.1f x (53), %.1f x (12.6)\n",
      compute.throughput.mean, compute.p50.mean, memory.throughput.mean, memory.p50.mean);
  // The same over eTasks under other policies; a longer queue a client lets them batch more.
  std::string others;
  std::printf("\nover eTasks under other policies: answers/s, p50, p90\n");
  for (const Named& variant : exclusive_variants()) {
    std::string claims;
    for (const auto& [claim, workload, replicas] :
         {std::tuple("compute", &solver, kSolvers), std::tuple("memory", &model, kModels)}) {
      Setup kernel = systems()[0].setup, exclusive = variant.setup;
      kernel.replicas = exclusive.replicas = replicas;
      const Point theirs = measure(plan, *workload, constants, exclusive);
      const Ratios ratios = ratios_of(measure(plan, *workload, constants, kernel), theirs);
      std::printf("  %-20s %-8s %7.2f ±%-6.2g %7.2f %7.2f   its own: %.1f/s\n", variant.name, claim,
                  ratios.throughput.mean, ratios.throughput.half_width, ratios.p50.mean,
                  ratios.p90.mean, theirs.throughput.mean);
      std::fflush(stdout);
      claims += (claims.empty() ? "\"" : ",\"") + std::string(claim) +
                "\":{\"ratios\":" + json_of(ratios) + ",\"etask\":" + json_of(theirs) + "}";
    }
    others += (others.empty() ? "\"" : ",\"") + std::string(variant.name) + "\":{" + claims + "}";
  }
  const auto [matched, distributions] = at_equal_rate(plan, workloads, constants);

  // The start of a Python process that would give the paper's ratio, and what is left without one.
  std::string starts;
  std::printf("\n%-22s %10s %10s   (how the ratios follow the eTask's start)\n", "etask start",
              "compute", "memory");
  for (const double start_ms : {0.0, 20.0, 270.0, 400.0, 1900.0, 2600.0, 4900.0}) {
    Constants other = constants;
    other.etask_start = from_seconds(start_ms / 1e3);
    const Ratios one = ratios_at(plan, solver, other, kSolvers);
    const Ratios two = ratios_at(plan, model, other, kModels);
    std::printf("%19.0f ms %10.1f %10.1f\n", start_ms, one.throughput.mean, two.throughput.mean);
    starts += (starts.empty() ? "{\"etask_start_ms\":" : ",{\"etask_start_ms\":") +
              number(start_ms) + ",\"compute\":" + json_of(one) + ",\"memory\":" + json_of(two) +
              "}";
  }

  std::string sensitivity;
  std::printf("\n%-16s %12s %12s   (throughput ratios with the constant halved and doubled)\n",
              "input", "compute", "memory");
  for (const Input& input : inputs()) {
    Ratios half[2], twice[2];
    for (const bool doubled : {false, true}) {
      Constants other = constants;
      input.scale(other, doubled ? 2 : 0.5);
      (doubled ? twice : half)[0] = ratios_at(plan, solver, other, kSolvers);
      (doubled ? twice : half)[1] = ratios_at(plan, model, other, kModels);
    }
    std::printf("%-16s %5.1f %6.1f %5.1f %6.1f\n", input.name, half[0].throughput.mean,
                twice[0].throughput.mean, half[1].throughput.mean, twice[1].throughput.mean);
    sensitivity += (sensitivity.empty() ? "" : ",") + std::string("{\"name\":\"") + input.name +
                   "\",\"value\":" + input.value + ",\"source\":\"" + input.source +
                   "\",\"halved\":{\"compute\":" + json_of(half[0]) +
                   ",\"memory\":" + json_of(half[1]) +
                   "},\"doubled\":{\"compute\":" + json_of(twice[0]) +
                   ",\"memory\":" + json_of(twice[1]) + "}}";
  }

  std::string varied;
  const Workload& product = find(workloads, "cGEMM");
  const std::vector<unsigned> beyond = plan.quick
                                           ? std::vector<unsigned>{16, 40}
                                           : std::vector<unsigned>{16, 20, 24, 28, 32, 36, 40, 48};
  std::printf("\n");
  print_head();
  for (const Named& variant : variants()) {
    std::map<unsigned, Point> points;
    for (const unsigned replicas : beyond) {
      Setup setup = variant.setup;
      setup.replicas = replicas;
      points[replicas] = measure(plan, product, constants, setup);
      print_row(product.name, replicas, variant.name, points[replicas]);
      varied += (varied.empty() ? "" : ",") + std::string("{\"system\":\"") + variant.name +
                "\",\"replicas\":" + std::to_string(replicas) +
                ",\"point\":" + json_of(points[replicas]) + "}";
    }
    knees += (knees.empty() ? "\"" : ",\"") + std::string(variant.name) + "\":" + knee_of(points);
  }
  std::printf("\nknee of cGEMM (paper: about 20), by system: {%s}\n", knees.c_str());

  const std::string json =
      std::string("{\"bench\":\"paper-kaas\",\"quick\":") + (plan.quick ? "true" : "false") +
      ",\"simulated\":true,\"seed\":" + number(static_cast<double>(plan.first_seed)) +
      ",\"online\":\"" + (plan.gaps.empty() ? "Poisson" : "gaps") + "\",\"etask_policies\":{" +
      others + "},\"compute\":" + json_of(compute) + ",\"memory\":" + json_of(memory) +
      ",\"resnet_single_ratio\":null,\"knee_replicas\":{" + knees + "},\"at_equal_rate\":{" +
      matched + "},\"distributions_at_equal_rate\":{" + distributions + "},\"by_etask_start\":[" +
      starts + "],\"inputs\":[" + sensitivity + "],\"surface\":[" + rows + "],\"cgemm\":[" +
      varied + "]}";
  return write_last_line(json, out);
}

}  // namespace
}  // namespace lambent::paper_kaas

int main(int count, char** arguments) {
  lambent::paper_kaas::Plan plan;
  const char* out = nullptr;
  for (int i = 1; i < count; ++i) {
    if (std::strcmp(arguments[i], "--quick") == 0) {
      plan.quick = true;
      plan.seeds = 2;
      plan.requests = 300;
      plan.at_least_s = 10;
      plan.warm_up_s = 30;
      plan.replicas = {1, 4, 5, 16, 32};
    } else if (std::strcmp(arguments[i], "--outstanding") == 0) {
      plan.by_outstanding = true;
    } else if (std::strcmp(arguments[i], "--etask-start-ms") == 0 && i + 1 < count &&
               lambent::workload::whole_number_of(arguments[i + 1])) {
      plan.etask_start_ms = *lambent::workload::whole_number_of(arguments[++i]);
    } else if (std::strcmp(arguments[i], "--out") == 0 && i + 1 < count) {
      out = arguments[++i];
    } else if (std::strcmp(arguments[i], "--seed") == 0 && i + 1 < count &&
               lambent::workload::whole_number_of(arguments[i + 1])) {
      plan.first_seed = *lambent::workload::whole_number_of(arguments[++i]);
    } else if (std::strcmp(arguments[i], "--traces") == 0 && i + 1 < count) {
      auto gaps = lambent::paper_kaas::open_gaps(std::string(arguments[++i]) + "/kaas/gaps.txt");
      if (!gaps.ok()) {
        std::fprintf(stderr, "paper_kaas_bench: %s\n", gaps.error().message.c_str());
        return 1;
      }
      plan.gaps = std::move(*gaps);
    } else {
      std::fprintf(stderr,
                   "usage: paper_kaas_bench [--quick] [--outstanding] [--etask-start-ms MS] "
                   "[--out FILE] [--seed N] [--traces DIR]\n");
      return 2;
    }
  }
  return lambent::paper_kaas::run(plan, out);
}
