#include "sim/workload/spreading.h"

#include <cmath>
#include <cstdio>

namespace lambent::workload {
namespace {

Duration part(Duration whole, double share) {
  return Duration(static_cast<int64_t>(static_cast<double>(whole.count()) * share));
}

}  // namespace

std::optional<Spreading> spreading_from_name(std::string_view name) {
  if (name == "uniform") return Spreading::kUniform;
  if (name == "equidistant") return Spreading::kEquidistant;
  if (name == "poisson") return Spreading::kPoisson;
  return std::nullopt;
}

std::string_view name_of(Spreading spreading) {
  switch (spreading) {
    case Spreading::kUniform:
      return "uniform";
    case Spreading::kEquidistant:
      return "equidistant";
    case Spreading::kPoisson:
      return "poisson";
  }
  return "unknown";
}

std::string words_of(Spreading spreading, Duration interval, uint64_t seed) {
  char length[32];
  std::snprintf(length, sizeof(length), "%g", to_seconds(interval));
  std::string where = "at instants drawn uniformly";
  if (spreading == Spreading::kEquidistant) where = "evenly, from an instant that is drawn";
  if (spreading == Spreading::kPoisson) where = "after exponential gaps, so the count is a mean";
  return std::string("the invocations that are counted in ") + length + " s lie in them " + where +
         ", by seed " + std::to_string(seed) + " (--spread, --seed)";
}

double exponential(double mean, Random& random) { return -mean * std::log1p(-random.uniform()); }

void spread(Spreading how, uint64_t count, Duration minute, Random& random,
            std::vector<Duration>& instants) {
  if (count == 0) return;
  const double gap = 1.0 / static_cast<double>(count);
  switch (how) {
    case Spreading::kUniform:
      for (uint64_t i = 0; i < count; ++i) instants.push_back(part(minute, random.uniform()));
      break;
    case Spreading::kEquidistant: {
      const double phase = random.uniform();
      for (uint64_t i = 0; i < count; ++i) {
        instants.push_back(part(minute, (static_cast<double>(i) + phase) * gap));
      }
      break;
    }
    case Spreading::kPoisson:
      for (double at = exponential(gap, random); at < 1; at += exponential(gap, random)) {
        instants.push_back(part(minute, at));
      }
      break;
  }
}

}  // namespace lambent::workload
