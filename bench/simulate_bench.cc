// simulate_bench [--quick] [--only CASE]: how many invocations a second `lambent simulate` gets
// through on one core, with 24 and with 4,000 functions, beside a bare event loop over the same
// arrivals. Prints a table and, as its last line, one JSON object. `--once CASE` runs ours alone,
// in this process, for a profiler, and prints the hash of all that was decided.
//
// *Ours* is what `lambent simulate` does once its workload is open: arrivals drawn by the
// generator, the worker's dispatcher, modelled devices, statistics by function; under the policy
// and the memory rule that it has by default, and in the cases named so under MQFQ-Sticky where
// every sandbox counts against memory, which asks less of it.
// The *bare* loop draws the same arrivals, has a heap of what ends when, as many slots as the GPUs
// have tokens, one queue, and a sum of latencies: no functions' queues, no order among them, no
// memory, no cold starts. The *bound* is the bare loop that also looks, at each arrival and end, at
// as many lines of memory as ours has to fetch from beyond a core's own cache, and does nothing
// with them: once asking for all of an event together, once for each when the one before is there.
// No simulator that looks at so many is faster than the former. Each run is a process of its own,
// so that its peak of memory is its own; runs take turns. Rates are per second of CPU time, for the
// machine may be shared; those of the clock stand beside.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <deque>
#include <functional>
#include <queue>
#include <string>
#include <vector>

#include "core/base/check.h"
#include "core/base/random.h"
#include "decide/scheduling/make_policy.h"
#include "sim/simulator/workload_run.h"
#include "sim/workload/catalogue.h"
#include "sim/workload/generator.h"

namespace lambent {
namespace {

struct Case {
  std::string name;
  uint32_t functions;
  unsigned gpus;
  double load_per_gpu;  // GPU seconds asked for per second; a GPU gives 1.67 with two at work
  unsigned max_concurrency;
  uint64_t memory_gib;  // of a GPU
  double invocations;
  std::string policy = std::string(scheduling::kDefaultPolicy);
  scheduling::MemoryRule rule = scheduling::MemoryRule::kMoveIdle;
};

struct Figures {
  uint64_t invocations = 0;
  uint64_t failed = 0;
  double cpu_s = 0;
  double wall_s = 0;
  double peak_rss_mb = 0;
  double cold_ratio = 0;
  double utilisation = 0;
  uint64_t log_hash = 0;
};

constexpr unsigned kTokens = 2;
constexpr double kSlowdown = 0.2;

double seconds_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

const workload::Catalogue& catalogue() {
  static const workload::Catalogue kCatalogue = [] {
    auto read = workload::open_catalogue(LAMBENT_SHARE_DIR "/catalogue/mqfq_table1.csv");
    CHECK(read.ok(), "the catalogue is part of the repository");
    return std::move(read).value();
  }();
  return kCatalogue;
}

struct Workload {
  workload::Trace trace;
  std::vector<workload::CatalogueEntry> entries;
};

Workload workload_of(const Case& one) {
  double mean_s = 0;
  for (const auto& entry : catalogue()) mean_s += entry.gpu_warm_s;
  mean_s /= static_cast<double>(catalogue().size());
  const double load = one.load_per_gpu * one.gpus;
  workload::GeneratorOptions options{.functions = one.functions,
                                     .duration = from_seconds(one.invocations * mean_s / load),
                                     .offered_load = load};
  auto trace = workload::generate(options, catalogue());
  CHECK(trace.ok(), "the generator takes these options");
  Workload made{std::move(trace).value(), {}};
  for (const auto& function : made.trace.functions) {
    made.entries.push_back(*workload::find_entry(catalogue(), function.catalogue_entry));
  }
  return made;
}

void run_ours(const Case& one, Workload& work, Figures& figures) {
  simulator::WorkloadRunOptions options;
  options.max_concurrency = one.max_concurrency;
  options.device.slowdown = kSlowdown;
  for (unsigned i = 0; i < one.gpus; ++i) {
    options.dispatch.fleet.devices.push_back({.id = DeviceId{i + 1},
                                              .memory = Bytes::gib(one.memory_gib),
                                              .tokens = kTokens,
                                              .contexts = 32});
  }
  options.dispatch.fleet.most_sandboxes = 32 * one.gpus;
  options.dispatch.fleet.memory_rule = one.rule;
  options.dispatch.fleet.starts_outside_tokens = scheduling::kStartsOutsideTokens;
  scheduling::PolicyOptions policy;
  policy.fcfs_moves_off_after_run = false;
  const auto totals =
      simulator::run_workload(work.trace, work.entries, options,
                              std::move(scheduling::make_policy(one.policy, policy)).value(), {});
  CHECK(totals.ok(), "a generated workload does not fail");
  figures.invocations = totals->invocations;
  figures.failed = totals->summary.failed;
  figures.cold_ratio = totals->summary.cold_ratio;
  figures.utilisation = totals->utilisation;
  figures.log_hash = totals->log_hash;
}

// `visit(event)` is called at every arrival and end.
template <typename Visit>
void run_loop(const Case& one, Workload& work, Figures& figures, Visit visit) {
  std::vector<Duration> execution;
  for (const auto& entry : work.entries) execution.push_back(from_seconds(entry.gpu_warm_s));
  struct End {
    Duration at;
    Duration arrived;
    bool operator>(const End& other) const { return at > other.at; }
  };
  std::priority_queue<End, std::vector<End>, std::greater<>> ends;
  std::deque<workload::Arrival> queue;
  double latencies_s = 0;
  const size_t slots = one.gpus * kTokens;
  auto arrival = work.trace.arrivals->next();
  while (arrival || !ends.empty()) {
    if (!ends.empty() && (!arrival || ends.top().at <= arrival->at)) {
      const End end = ends.top();
      ends.pop();
      latencies_s += to_seconds(end.at - end.arrived);
      visit();
      ++figures.invocations;
      if (queue.empty()) continue;
      ends.push({end.at + execution[queue.front().function], queue.front().at});
      queue.pop_front();
      continue;
    }
    visit();
    if (ends.size() < slots) {
      ends.push({arrival->at + execution[arrival->function], arrival->at});
    } else {
      queue.push_back(*arrival);
    }
    arrival = work.trace.arrivals->next();
  }
  CHECK(latencies_s > 0, "something ran");
}

void run_bare(const Case& one, Workload& work, Figures& figures) {
  run_loop(one, work, figures, [] {});
}

// Memory of the size that ours takes, each line of which says where to look next.
class Lines {
 public:
  explicit Lines(const Case& one) : lines_(one.functions * kBytesOfFunction / sizeof(Line)) {
    // One cycle through all of them (Sattolo), so that who follows it has to wait for every line.
    SeededRandom random(5);
    std::vector<uint32_t> order(lines_.size());
    for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    for (size_t i = order.size(); i-- > 1;) std::swap(order[i], order[random.below(i)]);
    for (uint32_t i = 0; i < order.size(); ++i) lines_[i].next = order[i];
  }

  // So many, each when the one before is there.
  void look_alone(unsigned count) {
    for (unsigned i = 0; i < count; ++i) at_ = lines_[at_].next;
  }
  // None waits for another of the same event.
  void look_together(unsigned count) {
    uint64_t sum = 0;
    for (unsigned i = 0; i < count; ++i) {
      sum += lines_[(++looks_ * 0x9e3779b97f4a7c15ULL >> 32) * lines_.size() >> 32].next;
    }
    at_ += sum == 0 ? 1 : 0;
  }
  // So that no look is left out.
  uint32_t at() const { return at_; }

 private:
  // The case of 4,000 functions takes some 20 MB, its program and arrivals included.
  static constexpr size_t kBytesOfFunction = 4'096;
  struct alignas(64) Line {
    uint32_t next = 0;
  };
  std::vector<Line> lines_;
  uint32_t at_ = 0;
  uint64_t looks_ = 0;
};

// What ours fetches from beyond 1 MiB with 4,000 functions (callgrind), at the two events that
// every invocation has.
constexpr unsigned kLooksOfInvocation = 30;

void run_looks_together(const Case& one, Workload& work, Figures& figures) {
  Lines lines(one);
  run_loop(one, work, figures, [&] { lines.look_together(kLooksOfInvocation / 2); });
  CHECK(lines.at() < ~0U, "a line");
}

void run_looks_alone(const Case& one, Workload& work, Figures& figures) {
  Lines lines(one);
  run_loop(one, work, figures, [&] { lines.look_alone(kLooksOfInvocation / 2); });
  CHECK(lines.at() < ~0U, "a line");
}

using Run = void (*)(const Case&, Workload&, Figures&);

// In a process of its own.
Figures measure(const Case& one, Run run) {
  int ends[2];
  CHECK(pipe(ends) == 0, "a pipe");
  const pid_t child = fork();
  CHECK(child >= 0, "a process");
  if (child == 0) {
    Workload work = workload_of(one);
    Figures figures;
    const double cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    const double wall = seconds_of(CLOCK_MONOTONIC);
    run(one, work, figures);
    figures.cpu_s = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    figures.wall_s = seconds_of(CLOCK_MONOTONIC) - wall;
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    figures.peak_rss_mb = static_cast<double>(usage.ru_maxrss) / 1024;
    const bool written = write(ends[1], &figures, sizeof(figures)) == sizeof(figures);
    _exit(written ? 0 : 1);
  }
  close(ends[1]);
  Figures figures;
  const bool got = read(ends[0], &figures, sizeof(figures)) == sizeof(figures);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(got && status == 0, "a run ended badly");
  return figures;
}

double rate_of(const Figures& figures, double seconds) {
  return static_cast<double>(figures.invocations) / seconds;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Row {
  Case one;
  std::vector<double> ours, bare, ratio, wall;  // rates, and bare over ours pair by pair
  std::vector<double> together, alone;          // rates of the bound
  Figures last;
};

Row measure_case(const Case& one, int repeats) {
  Row row{.one = one};
  for (int i = 0; i < repeats; ++i) {
    const Figures bare = measure(one, run_bare);
    const Figures together = measure(one, run_looks_together);
    const Figures alone = measure(one, run_looks_alone);
    row.last = measure(one, run_ours);
    row.bare.push_back(rate_of(bare, bare.cpu_s));
    row.together.push_back(rate_of(together, together.cpu_s));
    row.alone.push_back(rate_of(alone, alone.cpu_s));
    row.ours.push_back(rate_of(row.last, row.last.cpu_s));
    row.wall.push_back(rate_of(row.last, row.last.wall_s));
    row.ratio.push_back(row.bare.back() / row.ours.back());
  }
  std::printf(
      "%-16s %9u %5u %11.0f %11.0f %11.0f %6.1f %11.0f %11.0f %6.1f %% %6.1f %% %6.1f %% %7.1f\n",
      one.name.c_str(), one.functions, one.gpus, median(row.ours), median(row.wall),
      median(row.bare), median(row.ratio), median(row.together), median(row.alone),
      100 * row.last.cold_ratio, 100 * row.last.utilisation,
      100 * static_cast<double>(row.last.failed) / static_cast<double>(row.last.invocations),
      row.last.peak_rss_mb);
  std::fflush(stdout);
  return row;
}

std::string json_list(const std::vector<double>& values, const char* format) {
  std::string text = "[";
  for (const double value : values) {
    char number[32];
    std::snprintf(number, sizeof(number), format, value);
    text += (text.size() > 1 ? "," : "") + std::string(number);
  }
  return text + "]";
}

std::string json_of(const Row& row) {
  char text[512];
  std::snprintf(text, sizeof(text),
                "\"%s\":{\"policy\":\"%s\",\"memory_rule\":\"%s\",\"functions\":%u,\"gpus\":%u,"
                "\"gpu_gib\":%llu,\"load_per_gpu\":%.2f,"
                "\"invocations\":%llu,"
                "\"rejected_share\":%.4f,\"cold_ratio\":%.4f,\"utilisation\":%.3f,"
                "\"peak_rss_mb\":%.1f,",
                row.one.name.c_str(), row.one.policy.c_str(),
                row.one.rule == scheduling::MemoryRule::kMoveIdle ? "move-idle" : "every-sandbox",
                row.one.functions, row.one.gpus,
                static_cast<unsigned long long>(row.one.memory_gib), row.one.load_per_gpu,
                static_cast<unsigned long long>(row.last.invocations),
                static_cast<double>(row.last.failed) / static_cast<double>(row.last.invocations),
                row.last.cold_ratio, row.last.utilisation, row.last.peak_rss_mb);
  return text + ("\"invocations_per_s\":" + json_list(row.ours, "%.0f")) +
         ",\"bound_together_per_s\":" + json_list(row.together, "%.0f") +
         ",\"bound_alone_per_s\":" + json_list(row.alone, "%.0f") +
         ",\"of_the_clock\":" + json_list(row.wall, "%.0f") +
         ",\"bare_invocations_per_s\":" + json_list(row.bare, "%.0f") +
         ",\"bare_over_ours\":" + json_list(row.ratio, "%.2f") + "}";
}

}  // namespace

int usage() {
  std::fprintf(stderr, "usage: simulate_bench [--quick] [--only CASE | --once CASE]\n");
  return 2;
}

std::vector<Case> cases_of(double invocations) {
  const Case few{.name = "few",
                 .functions = 24,
                 .gpus = 8,
                 .load_per_gpu = 0.7,
                 .max_concurrency = 4,
                 .memory_gib = 16,
                 .invocations = invocations};
  const Case thousands{.name = "thousands",
                       .functions = 4'000,
                       .gpus = 512,
                       .load_per_gpu = 0.7,
                       .max_concurrency = 256,
                       .memory_gib = 80,
                       .invocations = invocations};
  const auto named = [](Case one, const char* name, auto change) {
    one.name = name;
    change(one);
    return one;
  };
  const auto mqfq = [](Case& one) {
    one.policy = "mqfq-sticky";
    one.rule = scheduling::MemoryRule::kEverySandbox;
  };
  const auto over = [](Case& one) { one.load_per_gpu = 4; };
  return {few,
          thousands,
          named(few, "few_mqfq", mqfq),
          named(thousands, "thousands_mqfq", mqfq),
          named(thousands, "thousands_16gib", [](Case& one) { one.memory_gib = 16; }),
          named(few, "few_over", over),
          named(thousands, "thousands_over", over)};
}

int run_once(const std::string& name, double invocations) {
  for (const Case& one : cases_of(invocations)) {
    if (one.name != name) continue;
    Workload work = workload_of(one);
    Figures figures;
    run_ours(one, work, figures);
    std::printf("%llu invocations, log hash %016llx\n",
                static_cast<unsigned long long>(figures.invocations),
                static_cast<unsigned long long>(figures.log_hash));
    return 0;
  }
  return usage();
}

int run(bool quick, const std::string& only) {
  const double many = quick ? 200e3 : 1e6;
  const int repeats = quick ? 3 : 5;
  std::printf("%sone core; medians of %d; invocations a second of CPU time\n",
              quick ? "QUICK RUN; " : "", repeats);
  std::printf("%-16s %9s %5s %11s %11s %11s %6s %11s %11s %8s %8s %8s %7s\n", "case", "functions",
              "gpus", "ours", "by clock", "bare loop", "ratio", "bound", "if alone", "cold", "busy",
              "refused", "MB");
  std::vector<Row> rows;
  for (const Case& one : cases_of(many)) {
    if (only.empty() || only == one.name) rows.push_back(measure_case(one, repeats));
  }
  if (!only.empty()) {
    if (rows.empty()) return usage();
    std::printf("{\"bench\":\"simulate\",\"quick\":%s,\"only\":true,\"cases\":{%s}}\n",
                quick ? "true" : "false", json_of(rows[0]).c_str());
    return 0;
  }
  // The same work ten times as long: memory should not know.
  Case longer = rows[1].one;
  longer.name = "thousands_x10";
  longer.invocations *= 10;
  const Row long_row = measure_case(longer, 1);

  double peak = long_row.last.peak_rss_mb;
  for (const Row& row : rows) peak = std::max(peak, row.last.peak_rss_mb);
  std::string cases;
  for (const Row& row : rows) cases += json_of(row) + ",";
  std::printf(
      "{\"bench\":\"simulate\",\"quick\":%s,\"policy\":\"%s\",\"repeats\":%d,"
      "\"invocations_per_s\":{\"24\":%.0f,\"4000\":%.0f},\"bare_over_ours\":{\"24\":%.2f,"
      "\"4000\":%.2f},\"bound\":{\"looks\":%u,\"together_per_s\":{\"24\":%.0f,\"4000\":%.0f},"
      "\"alone_per_s\":{\"24\":%.0f,\"4000\":%.0f}},\"peak_rss_mb\":%.1f,\"peak_rss_mb_by_length\":"
      "{\"1\":%.1f,\"10\":%.1f},"
      "\"journal_overhead_pct\":null,\"cases\":{%s%s}}\n",
      quick ? "true" : "false", rows[0].one.policy.c_str(), repeats, median(rows[0].ours),
      median(rows[1].ours), median(rows[0].ratio), median(rows[1].ratio), kLooksOfInvocation,
      median(rows[0].together), median(rows[1].together), median(rows[0].alone),
      median(rows[1].alone), peak, rows[1].last.peak_rss_mb, long_row.last.peak_rss_mb,
      cases.c_str(), json_of(long_row).c_str());
  return 0;
}

}  // namespace lambent

int main(int count, char** arguments) {
  bool quick = false;
  std::string only;
  std::string once;
  for (int i = 1; i < count; ++i) {
    if (std::strcmp(arguments[i], "--quick") == 0) {
      quick = true;
    } else if (std::strcmp(arguments[i], "--only") == 0 && i + 1 < count) {
      only = arguments[++i];
    } else if (std::strcmp(arguments[i], "--once") == 0 && i + 1 < count) {
      once = arguments[++i];
    } else {
      return lambent::usage();
    }
  }
  if (!once.empty()) return lambent::run_once(once, quick ? 200e3 : 1e6);
  return lambent::run(quick, only);
}
