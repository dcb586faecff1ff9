#include "workload/generator.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "domain/limits.h"
#include "workload/spreading.h"

namespace lambent::workload {
namespace {

constexpr const char* kClasses[] = {"periodic", "bursty", "sporadic", "steady"};

struct Plan {
  const char* label = "";
  const CatalogueEntry* entry = nullptr;
  double share = 0;   // of all invocations
  uint64_t seed = 0;  // of its own arrivals, so that functions do not disturb each other
};

Error invalid(const char* why) { return Error{ErrorCode::kInvalidArgument, why}; }

Result<void> check(const GeneratorOptions& options) {
  if (options.functions == 0 || options.functions > limits::kTraceFunctions) {
    return invalid("the number of functions must be 1 to 100,000");
  }
  if (options.duration <= Duration::zero()) return invalid("the duration must be above zero");
  if (!(options.offered_load > 0) || options.offered_load > 1e6) {
    return invalid("the offered load must be above zero");
  }
  if (!(options.popularity_exponent >= 0) || options.popularity_exponent > 10) {
    return invalid("the popularity exponent must be 0 to 10");
  }
  double all = 0;
  for (const double share : {options.periodic_share, options.bursty_share, options.sporadic_share,
                             options.steady_share}) {
    if (!(share >= 0) || share > 1e6) return invalid("a class's share must not be negative");
    all += share;
  }
  if (!(all > 0)) return invalid("at least one class must have a share");
  return {};
}

template <typename T>
void shuffle(std::vector<T>& values, Random& random) {
  for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[random.below(i)]);
}

// Each class gets its part of the functions, rounded so that none is lost; the order is drawn.
std::vector<const char*> draw_classes(const GeneratorOptions& options, Random& random) {
  const double shares[] = {options.periodic_share, options.bursty_share, options.sporadic_share,
                           options.steady_share};
  const double all = std::accumulate(std::begin(shares), std::end(shares), 0.0);
  std::vector<const char*> classes;
  double until = 0;
  for (size_t i = 0; i < 4; ++i) {
    until += shares[i] / all * static_cast<double>(options.functions);
    while (static_cast<double>(classes.size()) + 0.5 < until) classes.push_back(kClasses[i]);
  }
  while (classes.size() < options.functions) classes.push_back("steady");
  shuffle(classes, random);
  return classes;
}

// What is rare is sporadic in Azure too: sporadic functions take the last ranks of popularity.
std::vector<Plan> plan_functions(const GeneratorOptions& options, const Catalogue& catalogue) {
  SeededRandom random(options.seed);
  std::vector<Plan> plans(options.functions);
  const auto classes = draw_classes(options, random);
  std::vector<const CatalogueEntry*> entries;
  for (size_t i = 0; i < plans.size(); ++i) entries.push_back(&catalogue[i % catalogue.size()]);
  shuffle(entries, random);
  for (size_t i = 0; i < plans.size(); ++i) {
    plans[i] = {.label = classes[i], .entry = entries[i], .seed = random.next()};
  }
  std::stable_partition(plans.begin(), plans.end(),
                        [](const Plan& plan) { return plan.label != kClasses[2]; });
  double all = 0;
  for (size_t rank = 0; rank < plans.size(); ++rank) {
    plans[rank].share = std::pow(static_cast<double>(rank + 1), -options.popularity_exponent);
    all += plans[rank].share;
  }
  for (Plan& plan : plans) plan.share /= all;
  shuffle(plans, random);
  return plans;
}

// One function's instants in seconds at `rate` per second on average.
class Process {
 public:
  Process(const Plan& plan, double rate, double duration)
      : rate_(rate), duration_(duration), random_(plan.seed) {
    if (plan.label == kClasses[0]) {
      periodic();
    } else if (plan.label == kClasses[1]) {
      clusters(8, 0.05);
    } else if (plan.label == kClasses[2]) {
      clusters(1.5, 0.01);
    } else {
      for (double at = exponential(1 / rate_, random_); at < duration_;
           at += exponential(1 / rate_, random_)) {
        instants_.push_back(at);
      }
    }
  }

  const std::vector<double>& instants() const { return instants_; }

 private:
  // A timer: a fixed gap, a drawn phase, a hundredth of jitter.
  void periodic() {
    const double gap = 1 / rate_;
    for (double at = gap * random_.uniform(); at < duration_; at += gap) {
      instants_.push_back(std::min(at + 0.01 * gap * random_.uniform(), duration_));
    }
  }

  // Clusters begin at random; each has `size` arrivals on average (geometric), whose gaps are
  // `closeness` of the function's mean gap.
  void clusters(double size, double closeness) {
    const double cluster_gap = size / rate_;
    const double gap = closeness / rate_;
    for (double begin = exponential(cluster_gap, random_); begin < duration_;
         begin += exponential(cluster_gap, random_)) {
      double at = begin;
      do {
        if (at < duration_) instants_.push_back(at);
        at += exponential(gap, random_);
      } while (random_.uniform() < 1 - 1 / size);
    }
  }

  double rate_;
  double duration_;
  SeededRandom random_;
  std::vector<double> instants_;
};

std::vector<Arrival> draw(const std::vector<Plan>& plans, double rate, double duration) {
  std::vector<Arrival> arrivals;
  for (uint32_t i = 0; i < plans.size(); ++i) {
    const Process process(plans[i], rate * plans[i].share, duration);
    for (const double at : process.instants()) {
      arrivals.push_back({.at = from_seconds(at), .function = i});
    }
  }
  return arrivals;
}

}  // namespace

double load_of(const std::vector<Arrival>& arrivals, const std::vector<double>& warm_s,
               Duration duration) {
  double work = 0;
  for (const Arrival& arrival : arrivals) work += warm_s[arrival.function];
  return work / to_seconds(duration);
}

Result<Trace> generate(const GeneratorOptions& options, const Catalogue& catalogue) {
  RETURN_IF_ERROR(check(options));
  CHECK(!catalogue.empty(), "a catalogue has at least one function");
  const std::vector<Plan> plans = plan_functions(options, catalogue);
  std::vector<double> warm_s;
  double mean_s = 0;
  for (const Plan& plan : plans) {
    warm_s.push_back(plan.entry->gpu_warm_s);
    mean_s += plan.share * plan.entry->gpu_warm_s;
  }
  const double duration = to_seconds(options.duration);
  double rate = options.offered_load / mean_s;
  if (rate * duration > static_cast<double>(limits::kTraceArrivals) / 2) {
    return Error{ErrorCode::kResourceExhausted,
                 "this load over this duration has too many arrivals"};
  }
  // Chance moves the load off its target; a common factor on all rates brings it back. The best of
  // a few tries stands, since single invocations of long functions make it jump.
  std::vector<Arrival> best;
  double best_miss = INFINITY;
  for (int round = 0; round < 12; ++round) {
    std::vector<Arrival> arrivals = draw(plans, rate, duration);
    const double load = load_of(arrivals, warm_s, options.duration);
    const double miss = std::abs(load / options.offered_load - 1);
    if (miss < best_miss) {
      best_miss = miss;
      best = std::move(arrivals);
    }
    if (best_miss < 0.01) break;
    rate *= std::clamp(load > 0 ? options.offered_load / load : 2.0, 0.5, 2.0);
  }
  Trace trace{.name = "generated-" + std::to_string(options.seed), .format = "generated"};
  for (size_t i = 0; i < plans.size(); ++i) {
    char name[32];
    std::snprintf(name, sizeof(name), "f%04zu", i);
    trace.functions.push_back(
        {.name = name, .catalogue_entry = plans[i].entry->name, .label = plans[i].label});
  }
  trace.arrivals = source_of(std::move(best));
  return trace;
}

std::string trace_csv(const std::vector<Arrival>& arrivals,
                      const std::vector<TraceFunction>& functions) {
  std::string text = "t_ms,function\n";
  for (const Arrival& arrival : arrivals) {
    char time[40];
    std::snprintf(time, sizeof(time), "%.3f,", to_milliseconds(arrival.at));
    text += time + functions[arrival.function].name + "\n";
  }
  return text;
}

std::string functions_csv(const std::vector<TraceFunction>& functions) {
  std::string text = "function,label,gpu_function\n";
  for (const TraceFunction& function : functions) {
    text += function.name + "," + function.label + "," + function.catalogue_entry + "\n";
  }
  return text;
}

}  // namespace lambent::workload
