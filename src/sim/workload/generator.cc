#include "sim/workload/generator.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <numeric>
#include <utility>

#include "sim/workload/limits.h"
#include "sim/workload/spreading.h"

namespace lambent::workload {
namespace {

constexpr const char* kClasses[] = {"periodic", "bursty", "sporadic", "steady"};

// From so many on, the load is met without trying.
constexpr double kManyArrivals = 10e6;

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

// One function's instants in seconds, in order, at `rate` per second on average.
class Process {
 public:
  Process(const Plan& plan, double rate, double duration)
      : label_(plan.label), rate_(rate), duration_(duration), random_(plan.seed) {
    if (label_ == kClasses[0]) {
      next_ = 1 / rate_ * random_.uniform();
    } else {
      if (label_ == kClasses[1]) size_ = 8, closeness_ = 0.05;
      if (label_ == kClasses[2]) size_ = 1.5, closeness_ = 0.01;
      next_ = exponential(size_ / rate_, random_);
    }
  }

  // Nothing at the end.
  std::optional<double> next() {
    if (label_ == kClasses[0]) return next_of_timer();
    if (label_ == kClasses[1] || label_ == kClasses[2]) return next_of_clusters();
    if (!(next_ < duration_)) return std::nullopt;
    return std::exchange(next_, next_ + exponential(1 / rate_, random_));
  }

 private:
  // A timer: a fixed gap, a drawn phase, a hundredth of jitter.
  std::optional<double> next_of_timer() {
    if (!(next_ < duration_)) return std::nullopt;
    const double gap = 1 / rate_;
    const double at = std::exchange(next_, next_ + gap);
    return std::min(at + 0.01 * gap * random_.uniform(), duration_);
  }

  // Clusters begin at random; each has `size` arrivals on average (geometric), whose gaps are
  // `closeness` of the function's mean gap. One may still run when the next begins.
  std::optional<double> next_of_clusters() {
    while (next_ < duration_ && (waiting_.empty() || waiting_.front() > next_)) {
      double at = next_;
      do {
        if (at < duration_) push(at);
        at += exponential(closeness_ / rate_, random_);
      } while (random_.uniform() < 1 - 1 / size_);
      next_ += exponential(size_ / rate_, random_);
    }
    if (waiting_.empty()) return std::nullopt;
    std::pop_heap(waiting_.begin(), waiting_.end(), std::greater<>());
    const double at = waiting_.back();
    waiting_.pop_back();
    return at;
  }

  void push(double at) {
    waiting_.push_back(at);
    std::push_heap(waiting_.begin(), waiting_.end(), std::greater<>());
  }

  const char* label_;
  double rate_;
  double duration_;
  double size_ = 1;
  double closeness_ = 1;
  SeededRandom random_;
  double next_ = 0;              // arrival, or beginning of a cluster
  std::vector<double> waiting_;  // the arrivals of clusters that have begun, as a heap
};

// The arrivals of all functions in order, drawn as they are asked for.
class GeneratedArrivals final : public ArrivalSource {
 public:
  GeneratedArrivals(const std::vector<Plan>& plans, double rate, double duration) {
    for (uint32_t i = 0; i < plans.size(); ++i) {
      processes_.emplace_back(plans[i], rate * plans[i].share, duration);
      const auto at = processes_[i].next();
      if (at) heads_.push_back({.at = from_seconds(*at), .function = i});
    }
    std::make_heap(heads_.begin(), heads_.end(), std::greater<>());
  }

  std::optional<Arrival> next() override {
    if (heads_.empty()) return std::nullopt;
    const Arrival first = heads_.front();
    if (const auto at = processes_[first.function].next()) {
      sink({.at = from_seconds(*at), .function = first.function});
    } else {
      std::pop_heap(heads_.begin(), heads_.end(), std::greater<>());
      heads_.pop_back();
    }
    return first;
  }

 private:
  // Puts the arrival at the top of the heap or where the order wants it.
  void sink(const Arrival& arrival) {
    size_t hole = 0;
    for (size_t child = 1; child < heads_.size(); child = 2 * hole + 1) {
      if (child + 1 < heads_.size() && heads_[child + 1] < heads_[child]) ++child;
      if (!(heads_[child] < arrival)) break;
      heads_[hole] = heads_[child];
      hole = child;
    }
    heads_[hole] = arrival;
  }

  std::vector<Process> processes_;
  std::vector<Arrival> heads_;  // the next one of each function that has one, as a heap
};

// What such a draw would come to, in seconds of work.
double work_of_draw(const std::vector<Plan>& plans, double rate, double duration) {
  double work = 0;
  for (const Plan& plan : plans) {
    Process process(plan, rate * plan.share, duration);
    while (process.next()) work += plan.entry->gpu_warm_s;
  }
  return work;
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
  double mean_s = 0;
  for (const Plan& plan : plans) mean_s += plan.share * plan.entry->gpu_warm_s;
  const double duration = to_seconds(options.duration);
  double rate = options.offered_load / mean_s;
  if (rate * duration > static_cast<double>(limits::kGeneratedArrivals)) {
    return Error{ErrorCode::kResourceExhausted, "this load over this duration has more than " +
                                                    std::to_string(limits::kGeneratedArrivals) +
                                                    " arrivals"};
  }
  // Chance moves the load off its target; a common factor on all rates brings it back. The best of
  // a few tries stands, since single invocations of long functions make it jump. Among very many
  // arrivals chance moves nothing.
  double best_rate = rate;
  double best_miss = INFINITY;
  for (int round = 0; round < 12 && rate * duration < kManyArrivals; ++round) {
    const double load = work_of_draw(plans, rate, duration) / duration;
    const double miss = std::abs(load / options.offered_load - 1);
    if (miss < best_miss) {
      best_miss = miss;
      best_rate = rate;
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
  trace.length = options.duration;
  trace.arrivals = std::make_unique<GeneratedArrivals>(plans, best_rate, duration);
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
