#include "bench/paper_mqfq/unseen_families.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "bench/json.h"

namespace lambent::paper_mqfq {
namespace {

using workload::CatalogueEntry;

constexpr double kLength_s = 600;
constexpr double kTwoPi = 6.283185307179586;

// How many of the functions a pool holds, where the family does not say.
constexpr double kPoolShares[] = {0.34, 0.5, 0.67, 1.0};
constexpr double kSlowdowns[] = {0, 0.2, 0.5, 0.8, 1.0, 1.2};
constexpr unsigned kGpus[] = {1, 1, 2, 4, 8};

const UnseenFamily kFamilies[] = {
    {"diurnal", "rates follow a day of 200 s, with bursts of ten times the rate for 5 s"},
    {"flash-crowd", "steady calls, and one function after the other 30 times as many for 30 s"},
    {"correlated", "groups of functions that are called within a fifth of a second"},
    {"on-off", "each function is called for some 20 s and then silent for some 100 s"},
    {"heavy-tail", "runs of one function differ by lognormal factors, sigma 1.3"},
    {"many-tiny", "nine of ten functions take 20 to 100 ms, the others 5 to 15 s"},
    {"large-memory", "each function has 4 to 10 GiB: two or three fit"},
    {"small-pool", "all functions are equally busy, and the pool holds a quarter of them"},
    {"closed-loop", "clients that think for 0.5 to 20 s and then call again"},
    {"workflows", "chains of three functions: each is called a fixed time after the one before"},
    {"cron", "timers at the minute, with up to a second of jitter"},
    {"drift", "what is popular at the beginning is rare at the end"},
    {"dominant", "one function has nine of ten calls"},
    {"pareto", "gaps between calls are Pareto, alpha 1.2"},
    {"bimodal", "one run in eight of a function takes ten times as long as its others", true},
    {"mmpp", "three groups of functions, each busy for minutes at four times its calm rate", true},
    {"deployed-later", "half of the functions come in the middle, a quarter goes before", true},
    {"alternating", "two halves of the functions, each busy while the other is calm", true},
    {"inference", "six models, lengths that follow each other (AR(1), sigma 0.8)", true},
    {"one-model",
     "all calls are of one function, at rates that rise and fall by half in 300 s, lengths that "
     "follow each other",
     true},
    {"retries", "clients that give up after a time-out, and call again until they are served",
     true},
    {"map-jobs", "jobs of 10 to 60 calls of a function at once, beside steady calls", true},
};

double exponential(double mean, Random& random) { return -std::log(1 - random.uniform()) * mean; }
double between(double least, double most, Random& random) {
  return least + (most - least) * random.uniform();
}
// Evenly by its logarithm.
double log_between(double least, double most, Random& random) {
  return least * std::pow(most / least, random.uniform());
}
double normal(Random& random) {
  return std::sqrt(-2 * std::log(1 - random.uniform())) * std::cos(kTwoPi * random.uniform());
}

uint64_t seed_of(const std::string& family, uint64_t seed) {
  uint64_t hash = 1469598103934665603ULL;
  for (const char letter : family) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 1099511628211ULL;
  }
  return hash ^ (seed * 0x9e3779b97f4a7c15ULL);
}

// A function's calls as a rate over time, or as instants; at load 1 for a share of 1.
class Draft {
 public:
  Draft(size_t functions, const workload::Catalogue& catalogue, Random& random) : random_(random) {
    for (size_t i = 0; i < functions; ++i) {
      CatalogueEntry entry = catalogue[random.below(catalogue.size())];
      // Others than the nine of the catalogue, in their range.
      const double scale = log_between(0.4, 2.5, random);
      const double init_s = entry.init_s() * log_between(0.5, 2, random);
      entry.gpu_warm_s *= scale;
      entry.gpu_cold_s = entry.gpu_warm_s + std::max(init_s, 0.3);
      entries.push_back(entry);
      shares.push_back(1 / std::pow(static_cast<double>(1 + random.below(functions)), 0.9));
    }
    calls.resize(functions);
  }

  size_t size() const { return entries.size(); }
  double& warm_s(size_t function) { return entries[function].gpu_warm_s; }
  void set_times(size_t function, double warm, double init) {
    entries[function].gpu_warm_s = warm;
    entries[function].gpu_cold_s = warm + init;
  }

  // Calls a second of the function, so that all together ask for `load` device seconds a second.
  double rate(size_t function, double load) const {
    double all = 0;
    for (size_t i = 0; i < entries.size(); ++i) all += shares[i] * entries[i].gpu_warm_s;
    return load * shares[function] / all;
  }
  // A Poisson process whose rate is `rate` times factor(t), at most `most`.
  void poisson(size_t function, double rate, double most,
               const std::function<double(double)>& factor) {
    for (double at = exponential(1 / (rate * most), random_); at < kLength_s;
         at += exponential(1 / (rate * most), random_)) {
      if (random_.uniform() * most < factor(at)) calls[function].push_back(at);
    }
  }
  void steady(size_t function, double rate) {
    poisson(function, rate, 1, [](double) { return 1.0; });
  }

  std::vector<CatalogueEntry> entries;
  std::vector<double> shares;              // of all calls, not normalised
  std::vector<std::vector<double>> calls;  // by function, seconds

 private:
  Random& random_;
};

void draw_diurnal(Draft& draft, double load, Random& random) {
  for (size_t i = 0; i < draft.size(); ++i) {
    const double phase = random.uniform() < 0.7 ? 0 : random.uniform();
    std::vector<double> bursts;
    for (double at = exponential(120, random); at < kLength_s; at += exponential(120, random)) {
      bursts.push_back(at);
    }
    draft.poisson(i, draft.rate(i, load) / 1.35, 12, [&](double at) {
      const bool burst =
          std::ranges::any_of(bursts, [&](double from) { return at >= from && at < from + 5; });
      return (1 + 0.8 * std::sin(kTwoPi * (at / 200 + phase))) * (burst ? 6.6 : 1);
    });
  }
}

void draw_flash_crowd(Draft& draft, double load, Random& random) {
  // The crowds: whose, and from when on.
  std::vector<std::pair<size_t, double>> crowds;
  for (double at = between(40, 90, random); at < kLength_s; at += between(80, 140, random)) {
    crowds.emplace_back(random.below(draft.size()), at);
  }
  for (size_t i = 0; i < draft.size(); ++i) {
    draft.poisson(i, draft.rate(i, load) / 1.4, 30, [&](double at) {
      return std::ranges::any_of(crowds,
                                 [&](const auto& crowd) {
                                   return crowd.first == i && at >= crowd.second &&
                                          at < crowd.second + 30;
                                 })
                 ? 30.0
                 : 1.0;
    });
  }
}

void draw_correlated(Draft& draft, double load, Random& random) {
  const size_t group = 5;
  for (size_t first = 0; first < draft.size(); first += group) {
    const size_t end = std::min(first + group, draft.size());
    double work_s = 0, calls = 0;
    for (size_t i = first; i < end; ++i) {
      work_s += draft.warm_s(i);
      calls += draft.rate(i, load) * draft.warm_s(i);
    }
    const double rate = calls / work_s;
    for (double at = exponential(1 / rate, random); at < kLength_s;
         at += exponential(1 / rate, random)) {
      for (size_t i = first; i < end; ++i) draft.calls[i].push_back(at + 0.2 * random.uniform());
    }
  }
}

void draw_on_off(Draft& draft, double load, Random& random) {
  for (size_t i = 0; i < draft.size(); ++i) {
    const double rate = draft.rate(i, load) * 6;
    for (double at = random.uniform() * 120; at < kLength_s;) {
      const double until = at + exponential(20, random);
      for (double call = at; call < until && call < kLength_s;
           call += exponential(1 / rate, random)) {
        draft.calls[i].push_back(call);
      }
      at = until + exponential(100, random);
    }
  }
}

void draw_steady(Draft& draft, double load, Random&) {
  for (size_t i = 0; i < draft.size(); ++i) draft.steady(i, draft.rate(i, load));
}

void draw_many_tiny(Draft& draft, double load, Random& random) {
  for (size_t i = 0; i < draft.size(); ++i) {
    const bool is_large = i % 10 == 0;
    draft.set_times(i, is_large ? between(5, 15, random) : log_between(0.02, 0.1, random),
                    is_large ? between(5, 20, random) : between(0.5, 3, random));
    // Half of the device time is that of the few large ones.
    const double part = is_large ? 0.1 : 0.9;
    draft.shares[i] = log_between(0.3, 3, random) / draft.warm_s(i) / part;
  }
  draw_steady(draft, load, random);
}

void draw_large_memory(Draft& draft, double load, Random& random) {
  for (CatalogueEntry& entry : draft.entries) {
    entry.device_memory = Bytes::mib(static_cast<uint64_t>(between(4096, 10240, random)));
  }
  draw_steady(draft, load, random);
}

void draw_small_pool(Draft& draft, double load, Random& random) {
  for (size_t i = 0; i < draft.size(); ++i) draft.shares[i] = between(0.7, 1.3, random);
  draw_steady(draft, load, random);
}

// Each chain: A at random, B so long after A, C so long after B, whatever becomes of their runs.
void draw_workflows(Draft& draft, double load, Random& random) {
  for (size_t first = 0; first + 2 < draft.size(); first += 3) {
    const double rate = (draft.rate(first, load) * draft.warm_s(first) +
                         draft.rate(first + 1, load) * draft.warm_s(first + 1) +
                         draft.rate(first + 2, load) * draft.warm_s(first + 2)) /
                        (draft.warm_s(first) + draft.warm_s(first + 1) + draft.warm_s(first + 2));
    const double gaps[] = {log_between(3, 40, random), log_between(3, 40, random)};
    for (double at = exponential(1 / rate, random); at < kLength_s;
         at += exponential(1 / rate, random)) {
      draft.calls[first].push_back(at);
      double then = at;
      for (size_t step = 0; step < 2; ++step) {
        if (random.uniform() < 0.1) break;
        then += gaps[step] * between(0.95, 1.05, random);
        draft.calls[first + 1 + step].push_back(then);
      }
    }
  }
}

void draw_cron(Draft& draft, double load, Random& random) {
  const double periods_s[] = {60, 60, 120, 300};
  for (size_t i = 0; i < draft.size(); ++i) {
    const double period_s = periods_s[random.below(4)];
    const auto at_once = std::max(1.0, std::round(draft.rate(i, load) * period_s));
    for (double tick = 0; tick < kLength_s; tick += period_s) {
      for (double n = 0; n < at_once; ++n) draft.calls[i].push_back(tick + random.uniform());
    }
  }
}

void draw_drift(Draft& draft, double load, Random&) {
  std::vector<double> last = draft.shares;
  std::ranges::reverse(last);
  for (size_t i = 0; i < draft.size(); ++i) {
    const double rate = draft.rate(i, load);
    const double change = last[i] / draft.shares[i];
    draft.poisson(i, rate, std::max(1.0, change),
                  [&](double at) { return 1 + (change - 1) * at / kLength_s; });
  }
}

void draw_dominant(Draft& draft, double load, Random& random) {
  double others = 0;
  for (size_t i = 1; i < draft.size(); ++i) others += draft.shares[i];
  draft.shares[0] = 9 * others;
  draft.set_times(0, log_between(0.05, 0.5, random), between(2, 10, random));
  draw_steady(draft, load, random);
}

void draw_pareto(Draft& draft, double load, Random& random) {
  constexpr double kAlpha = 1.2;
  for (size_t i = 0; i < draft.size(); ++i) {
    const double least = (kAlpha - 1) / kAlpha / draft.rate(i, load);
    double at = random.uniform() / draft.rate(i, load);
    while (at < kLength_s) {
      draft.calls[i].push_back(at);
      at += least * std::pow(1 - random.uniform(), -1 / kAlpha);
    }
  }
}

// Which of two states each of three groups is in changes at random, after minutes.
void draw_mmpp(Draft& draft, double load, Random& random) {
  constexpr size_t kGroups = 3;
  constexpr double kCalm = 0.5, kBusy = 2;  // of the rate: a third of the time is busy
  std::vector<std::vector<std::pair<double, double>>> busy(kGroups);
  for (auto& of_group : busy) {
    double at = random.uniform() < 1.0 / 3 ? 0 : exponential(240, random);
    while (at < kLength_s) {
      const double until = at + exponential(120, random);
      of_group.emplace_back(at, until);
      at = until + exponential(240, random);
    }
  }
  for (size_t i = 0; i < draft.size(); ++i) {
    draft.poisson(i, draft.rate(i, load), kBusy, [&](double at) {
      return std::ranges::any_of(
                 busy[i % kGroups],
                 [&](const auto& one) { return at >= one.first && at < one.second; })
                 ? kBusy
                 : kCalm;
    });
  }
}

// What comes later is called more often than what was there, as long as it is there.
void draw_deployed_later(Draft& draft, double load, Random& random) {
  for (size_t i = 0; i < draft.size(); ++i) {
    double from = 0, until = kLength_s;
    if (i % 2 == 1) from = between(60, 480, random);
    if (i % 4 == 0) until = between(120, 540, random);
    draft.poisson(i, draft.rate(i, load), 1.6, [&](double at) {
      if (at < from || at >= until) return 0.0;
      return from > 0 ? 1.6 : 1.1;
    });
  }
}

void draw_alternating(Draft& draft, double load, Random& random) {
  const double phase_s = between(30, 90, random);
  for (size_t i = 0; i < draft.size(); ++i) {
    draft.poisson(i, draft.rate(i, load), 1.9, [&](double at) {
      return static_cast<size_t>(at / phase_s) % 2 == i % 2 ? 1.9 : 0.1;
    });
  }
}

// Models of one size of run: what a run takes is drawn apart (autocorrelated()).
void draw_inference(Draft& draft, double load, Random& random) {
  for (size_t i = 0; i < draft.size(); ++i) {
    draft.set_times(i, log_between(0.3, 3, random), between(5, 25, random));
    draft.shares[i] = 1 / (1.0 + static_cast<double>(i)) / draft.warm_s(i);
    draft.entries[i].device_memory = Bytes::mib(static_cast<uint64_t>(between(2048, 8192, random)));
  }
  for (size_t i = 0; i < draft.size(); ++i) {
    const double phase = random.uniform();
    draft.poisson(i, draft.rate(i, load), 1.5,
                  [&](double at) { return 1 + 0.5 * std::sin(kTwoPi * (at / 300 + phase)); });
  }
}

void draw_retries(Draft& draft, double load, Random& random) {
  for (size_t i = 0; i < draft.size(); ++i) {
    const double from = between(60, 400, random);
    draft.poisson(i, draft.rate(i, load), 3,
                  [&](double at) { return at >= from && at < from + 60 ? 3.0 : 0.8; });
  }
}

void draw_map_jobs(Draft& draft, double load, Random& random) {
  for (size_t i = 0; i < draft.size(); ++i) {
    const double rate = draft.rate(i, load);
    if (i % 3 != 0) {
      draft.steady(i, rate);
      continue;
    }
    const double calls = between(10, 60, random);
    for (double at = exponential(calls / rate, random); at < kLength_s;
         at += exponential(calls / rate, random)) {
      for (double n = 0; n < calls; ++n) draft.calls[i].push_back(at + 0.05 * random.uniform());
    }
  }
}

using Draw = void (*)(Draft&, double load, Random&);
Draw draw_of(const std::string& family) {
  const std::pair<const char*, Draw> kDraws[] = {{"diurnal", draw_diurnal},
                                                 {"flash-crowd", draw_flash_crowd},
                                                 {"correlated", draw_correlated},
                                                 {"on-off", draw_on_off},
                                                 {"heavy-tail", draw_steady},
                                                 {"many-tiny", draw_many_tiny},
                                                 {"large-memory", draw_large_memory},
                                                 {"small-pool", draw_small_pool},
                                                 {"closed-loop", nullptr},
                                                 {"workflows", draw_workflows},
                                                 {"cron", draw_cron},
                                                 {"drift", draw_drift},
                                                 {"dominant", draw_dominant},
                                                 {"pareto", draw_pareto},
                                                 {"bimodal", draw_steady},
                                                 {"mmpp", draw_mmpp},
                                                 {"deployed-later", draw_deployed_later},
                                                 {"alternating", draw_alternating},
                                                 {"inference", draw_inference},
                                                 {"one-model", draw_inference},
                                                 {"retries", draw_retries},
                                                 {"map-jobs", draw_map_jobs}};
  for (const auto& [name, draw] : kDraws) {
    if (family == name) return draw;
  }
  return nullptr;
}

// Clients until the devices would be at work for `load` of the time, did none ever wait.
void draw_clients(UnseenWorkload& drawn, double load, Random& random) {
  double asked = 0;
  while (asked < load) {
    const auto function = static_cast<uint32_t>(random.below(drawn.base.entries.size()));
    const double think_s = log_between(0.5, 20, random);
    drawn.clients.push_back({function, 20 * random.uniform(), think_s});
    const double warm_s = drawn.base.entries[function].gpu_warm_s;
    asked += warm_s / (think_s + warm_s);
  }
}

// What each arrival takes of what its function does: nothing where it is the same each time.
std::function<double(uint32_t function)> lengths_of(const std::string& family, size_t functions,
                                                    Random& random) {
  if (family == "heavy-tail") {
    return [&random](uint32_t) {
      constexpr double kSigma = 1.3;
      return std::min(std::exp(kSigma * normal(random) - kSigma * kSigma / 2), 20.0);
    };
  }
  if (family == "bimodal") {
    // The mean is 1.
    return [&random](uint32_t) { return (random.uniform() < 0.125 ? 10 : 1) / 2.125; };
  }
  if (family == "inference" || family == "one-model") {
    std::vector<double> states(functions);
    for (double& state : states) state = normal(random);
    return [&random, states](uint32_t function) mutable {
      constexpr double kKept = 0.95, kSigma = 0.8;
      double& state = states[function];
      state = kKept * state + std::sqrt(1 - kKept * kKept) * normal(random);
      return std::min(std::exp(kSigma * state - kSigma * kSigma / 2), 20.0);
    };
  }
  return nullptr;
}

size_t functions_of(const std::string& family, unsigned gpus) {
  if (family == "one-model") return 1;
  if (family == "inference") return 6;
  const size_t few = family == "many-tiny" ? 60 : family == "large-memory" ? 12 : 24;
  return gpus == 1 ? few : few * (gpus + 1) / 2;
}

// Of the device seconds a second that the site can do, what is asked for.
double load_of(const UnseenSite& site, Random& random) {
  const double at_once = site.site.tokens;
  const double rate = at_once / (1 + site.slowdown * (at_once - 1));
  return between(0.4, 0.85, random) * std::max(1.0, std::min(rate, 2.0)) * site.site.gpus;
}

}  // namespace

std::span<const UnseenFamily> unseen_families() { return kFamilies; }

UnseenSite unseen_site(const std::string& family, uint64_t seed, unsigned number) {
  SeededRandom random(seed_of(family + " site", seed) + number);
  UnseenSite drawn;
  drawn.site.gpus = kGpus[random.below(std::size(kGpus))];
  drawn.site.tokens = 1 + (number + static_cast<unsigned>(seed)) % 4;
  drawn.slowdown = kSlowdowns[random.below(std::size(kSlowdowns))];
  const double share =
      family == "small-pool" ? 0.25 : kPoolShares[random.below(std::size(kPoolShares))];
  const auto functions = static_cast<double>(functions_of(family, drawn.site.gpus));
  drawn.site.pool =
      std::max(drawn.site.gpus * 2, static_cast<unsigned>(std::lround(share * functions)));
  // As many sandboxes as may run at once, or there would be no second one.
  if (family == "one-model") {
    drawn.site.pool = std::max(drawn.site.pool, drawn.site.gpus * drawn.site.tokens);
  }
  return drawn;
}

Result<UnseenWorkload> unseen_workload(const std::string& family, uint64_t seed,
                                       const UnseenSite& site,
                                       const workload::Catalogue& catalogue) {
  const Draw draw = draw_of(family);
  if (draw == nullptr && family != "closed-loop") {
    return Error{ErrorCode::kNotFound, "there is no family of workloads '" + family + "'"};
  }
  SeededRandom random(seed_of(family, seed));
  Draft draft(functions_of(family, site.site.gpus), catalogue, random);
  const double load = load_of(site, random);
  if (draw != nullptr) draw(draft, load, random);
  UnseenWorkload drawn;
  Workload& base = drawn.base;
  base.name = family + "-" + std::to_string(seed);
  base.family = family;
  base.entries = draft.entries;
  base.length_s = kLength_s;
  for (uint32_t i = 0; i < draft.size(); ++i) {
    base.functions.push_back({.name = "f" + std::to_string(i)});
    for (const double at : draft.calls[i]) {
      if (at < kLength_s) base.arrivals.push_back({from_seconds(at), i});
    }
  }
  std::ranges::sort(base.arrivals);
  if (family == "closed-loop") draw_clients(drawn, load, random);
  if (family == "retries") drawn.gives_up_after_s = between(10, 40, random);
  if (const auto lengths = lengths_of(family, draft.size(), random)) {
    for (const workload::Arrival& arrival : base.arrivals) {
      drawn.takes_s.push_back(base.entries[arrival.function].gpu_warm_s *
                              lengths(arrival.function));
    }
  }
  return drawn;
}

}  // namespace lambent::paper_mqfq
