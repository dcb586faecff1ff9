#include "bench/paper_streambox/loads.h"

#include <algorithm>
#include <cmath>
#include <fstream>

#include "core/base/random.h"

namespace lambent::paper_streambox {

Result<std::vector<Load>> read_loads(const std::string& folder) {
  std::vector<Load> loads;
  for (const char* name : {"bursty", "periodic", "sporadic"}) {
    const std::string path = folder + "/streambox/" + name + "-load.txt";
    std::ifstream file(path);
    Load load{name, {}};
    for (double count = 0; file >> count;) {
      if (count < 0 || count > 1e6)
        return Error{ErrorCode::kInvalidArgument, path + ": a count is no count"};
      load.per_minute.push_back(count);
    }
    if (load.per_minute.empty() || !file.eof()) {
      return Error{ErrorCode::kInvalidArgument,
                   path + " cannot be read, or has something other than one number a line"};
    }
    loads.push_back(std::move(load));
  }
  return loads;
}

std::vector<Load> generated_loads(uint64_t seed, size_t minutes) {
  SeededRandom random(seed);
  const auto noise = [&](double by) { return 1 + by * (2 * random.uniform() - 1); };
  std::vector<Load> loads = {{"bursty", {}}, {"periodic", {}}, {"sporadic", {}}};
  double level = 300;
  for (size_t minute = 0; minute < minutes; ++minute) {
    // Long bursts of ten times the quiet rate, and short ones between.
    if (random.below(10) == 0) level = level > 1000 ? 300 : 2900;
    const double spike = random.below(7) == 0 ? 1200 : 0;
    loads[0].per_minute.push_back(std::max(level, spike) * noise(0.1));
    const double wave = 130 + 200 * std::sin(static_cast<double>(minute) / 40);
    loads[1].per_minute.push_back(std::max(0.0, wave + 120 * noise(1) - 120));
    loads[2].per_minute.push_back(random.below(38) == 0 ? 67 * noise(0.3) : 0);
  }
  return loads;
}

Load part_of(const Load& load, size_t first, size_t count) {
  const auto& all = load.per_minute;
  first = std::min(first, all.size());
  const size_t end = std::min(all.size(), first + count);
  return {load.name,
          {all.begin() + static_cast<ptrdiff_t>(first), all.begin() + static_cast<ptrdiff_t>(end)}};
}

std::vector<double> arrivals_of(const Load& load, double scale, uint64_t seed) {
  SeededRandom random(seed);
  std::vector<double> arrivals;
  for (size_t minute = 0; minute < load.per_minute.size(); ++minute) {
    const double wanted = load.per_minute[minute] * scale;
    uint64_t count = static_cast<uint64_t>(wanted);
    if (random.uniform() < wanted - static_cast<double>(count)) ++count;
    for (; count > 0; --count) {
      arrivals.push_back(60 * (static_cast<double>(minute) + random.uniform()));
    }
  }
  std::ranges::sort(arrivals);
  return arrivals;
}

}  // namespace lambent::paper_streambox
