#include "bench/paper_fluidfaas/loads.h"

#include <algorithm>
#include <cmath>

#include "core/base/random.h"
#include "sim/workload/csv.h"
#include "sim/workload/trace_reader.h"

namespace lambent::paper_fluidfaas {
namespace {

using slice_simulator::Arrival;

void sort(Load& load) {
  std::ranges::sort(load.arrivals, [](const Arrival& a, const Arrival& b) {
    return a.at != b.at ? a.at < b.at : a.function < b.function;
  });
}

FunctionId function_of(size_t application) {
  return FunctionId(static_cast<uint32_t>(application) + 1);
}

// Counts for each second, as so many arrivals spread evenly by chance.
void spread(const std::vector<double>& per_second, size_t application, Random& random, Load& load) {
  for (size_t second = 0; second < per_second.size(); ++second) {
    auto count = static_cast<uint64_t>(per_second[second]);
    if (random.uniform() < per_second[second] - static_cast<double>(count)) ++count;
    for (; count > 0; --count) {
      const double at_s = static_cast<double>(second) + random.uniform();
      load.arrivals.push_back({Instant(from_seconds(at_s)), function_of(application)});
    }
  }
}

void scale_to(std::vector<double>& per_second, double mean) {
  double sum = 0;
  for (const double count : per_second) sum += count;
  if (sum <= 0) return;
  for (double& count : per_second) count *= mean * static_cast<double>(per_second.size()) / sum;
}

}  // namespace

double rate_of(Size size) {
  static constexpr double kGapMs[] = {53.6, 26.8, 13.4};
  return 1e3 / kGapMs[static_cast<size_t>(size)];
}

Result<Load> read_load(const std::string& folder, Size size) {
  const std::string path = folder + "/fluidfaas_arrivals/" + load_of(size) + ".csv.gz";
  ASSIGN_OR_RETURN(auto lines, workload::open_lines(path));
  ASSIGN_OR_RETURN(auto rows, workload::RowReader::start(*lines, path));
  ASSIGN_OR_RETURN(const size_t time, rows.required_column("t_ms"));
  ASSIGN_OR_RETURN(const size_t app, rows.required_column("app"));
  workload::BadRows bad(path);
  std::vector<std::string_view> fields;
  Load load{load_of(size), {}};
  while (true) {
    ASSIGN_OR_RETURN(const bool more, rows.next(fields, bad));
    if (!more) break;
    const auto at_ms = workload::number_of(fields[time]);
    const std::string_view name = fields[app];
    const bool known =
        name.size() == 4 && name.starts_with("app") && name[3] >= '0' && name[3] < '4';
    if (!at_ms || *at_ms < 0 || *at_ms > 1e9 || !known) {
      bad.add(rows.line(), "a time in ms and one of app0 to app3");
      continue;
    }
    load.arrivals.push_back(
        {Instant(from_seconds(*at_ms / 1e3)), function_of(static_cast<size_t>(name[3] - '0'))});
  }
  RETURN_IF_ERROR(bad.verdict());
  sort(load);
  return load;
}

Load generated_load(Size size, uint64_t seed, double length_s) {
  SeededRandom random(seed);
  Load load{"generated", {}};
  for (size_t i = 0; i < kApplications; ++i) {
    std::vector<double> counts;
    double level = 1;
    for (size_t second = 0; second < static_cast<size_t>(length_s); ++second) {
      const double noise = 0.7 + 0.6 * random.uniform();
      // Bursts of three times the quiet rate, ten seconds long in the mean.
      if (i % 2 == 0 && random.below(10) == 0) level = random.below(3) == 0 ? 3 : 0.7;
      counts.push_back(level * noise);
    }
    scale_to(counts, rate_of(size) / kApplications);
    spread(counts, i, random, load);
  }
  sort(load);
  return load;
}

Load visits(size_t functions, double gap_s, double length_s, uint64_t seed) {
  SeededRandom random(seed);
  Load load{"visits", {}};
  for (size_t i = 0; i < functions; ++i) {
    const auto gap = [&] { return -gap_s * std::log(1 - random.uniform()); };
    for (double visit_s = gap(); visit_s < length_s; visit_s += gap()) {
      double at_s = visit_s;
      for (uint64_t left = 1 + random.below(5); left > 0 && at_s < length_s; --left) {
        load.arrivals.push_back({Instant(from_seconds(at_s)), function_of(i)});
        at_s += 0.2 + 0.4 * random.uniform();
      }
    }
  }
  sort(load);
  return load;
}

Load ramped(const Load& load, double ramp_s, uint64_t seed) {
  SeededRandom random(seed);
  Load longer{load.name, {}};
  for (const Arrival& arrival : load.arrivals) {
    const double at_s = to_seconds(arrival.at.time_since_epoch());
    if (at_s >= ramp_s) break;
    if (random.uniform() < at_s / ramp_s) longer.arrivals.push_back(arrival);
  }
  for (const Arrival& arrival : load.arrivals) {
    longer.arrivals.push_back({arrival.at + from_seconds(ramp_s), arrival.function});
  }
  return longer;
}

Load scaled(const Load& load, double factor, double length_s, size_t applications, uint64_t seed) {
  SeededRandom random(seed);
  Load more{load.name, {}};
  for (const Arrival& arrival : load.arrivals) {
    if (arrival.function.value > applications) continue;
    auto copies = static_cast<uint64_t>(factor);
    if (random.uniform() < factor - static_cast<double>(copies)) ++copies;
    for (uint64_t i = 0; i < copies; ++i) {
      double at_s = to_seconds(arrival.at.time_since_epoch());
      if (i > 0) at_s = std::abs(at_s + random.uniform() - 0.5);
      if (at_s < length_s) more.arrivals.push_back({Instant(from_seconds(at_s)), arrival.function});
    }
  }
  sort(more);
  return more;
}

}  // namespace lambent::paper_fluidfaas
