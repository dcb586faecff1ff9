#include "sim/workload/generator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/workload/trace_reader.h"

namespace lambent::workload {
namespace {

Catalogue small_catalogue() {
  return {{.name = "short", .gpu_warm_s = 0.05, .cpu_warm_s = 1, .gpu_cold_s = 1},
          {.name = "long", .gpu_warm_s = 1, .cpu_warm_s = 9, .gpu_cold_s = 3}};
}

double load_of_trace(const std::vector<Arrival>& arrivals, const Trace& trace,
                     const Catalogue& catalogue, Duration duration) {
  std::vector<double> warm_s;
  for (const auto& f : trace.functions) {
    warm_s.push_back(find_entry(catalogue, f.catalogue_entry)->gpu_warm_s);
  }
  return load_of(arrivals, warm_s, duration);
}

TEST(Generator, GivesTheSameWorkloadForTheSameSeed) {
  const Catalogue catalogue = small_catalogue();
  auto once = generate({.seed = 3}, catalogue);
  auto again = generate({.seed = 3}, catalogue);
  auto other = generate({.seed = 4}, catalogue);
  ASSERT_TRUE(once.ok() && again.ok() && other.ok());
  const auto arrivals = drain(*once->arrivals);
  EXPECT_FALSE(arrivals.empty());
  EXPECT_EQ(arrivals, drain(*again->arrivals));
  EXPECT_NE(arrivals, drain(*other->arrivals));
}

TEST(Generator, MeetsTheOfferedLoad) {
  const Catalogue catalogue = small_catalogue();
  for (const double load : {0.2, 0.5, 0.9}) {
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      auto trace = generate({.offered_load = load, .seed = seed}, catalogue);
      ASSERT_TRUE(trace.ok());
      const auto arrivals = drain(*trace->arrivals);
      EXPECT_TRUE(std::is_sorted(arrivals.begin(), arrivals.end()));
      EXPECT_LE(arrivals.back().at, seconds(600));
      EXPECT_NEAR(load_of_trace(arrivals, *trace, catalogue, seconds(600)), load, 0.1 * load)
          << "seed " << seed;
    }
  }
}

TEST(Generator, HasEveryClassAndAHeavyTail) {
  auto trace = generate({.functions = 100, .offered_load = 3, .seed = 2}, small_catalogue());
  ASSERT_TRUE(trace.ok());
  std::map<std::string, int> classes;
  for (const auto& f : trace->functions) ++classes[f.label];
  EXPECT_EQ(classes, (std::map<std::string, int>{
                         {"periodic", 35}, {"bursty", 25}, {"sporadic", 20}, {"steady", 20}}));
  std::vector<int> counts(100);
  const auto arrivals = drain(*trace->arrivals);
  for (const Arrival& arrival : arrivals) ++counts[arrival.function];
  std::sort(counts.rbegin(), counts.rend());
  int top = 0;
  for (int i = 0; i < 10; ++i) top += counts[static_cast<size_t>(i)];
  EXPECT_GT(top, static_cast<int>(arrivals.size()) / 2) << "ten of a hundred make half";
}

// The coefficient of variation of the gaps of a single function of one class.
double variation_of(GeneratorOptions options) {
  options.functions = 1;
  options.offered_load = 0.5;
  options.duration = seconds(36'000);
  auto trace = generate(options, {{.name = "f", .gpu_warm_s = 1}});
  const auto arrivals = drain(*trace->arrivals);
  double sum = 0;
  double squares = 0;
  for (size_t i = 1; i < arrivals.size(); ++i) {
    const double gap = to_seconds(arrivals[i].at - arrivals[i - 1].at);
    sum += gap;
    squares += gap * gap;
  }
  const double n = static_cast<double>(arrivals.size() - 1);
  return std::sqrt(squares / n - sum / n * sum / n) / (sum / n);
}

TEST(Generator, ClassesDifferInTheVariationOfTheirGaps) {
  EXPECT_LT(variation_of({.bursty_share = 0, .sporadic_share = 0, .steady_share = 0}), 0.05);
  EXPECT_NEAR(variation_of({.periodic_share = 0, .bursty_share = 0, .sporadic_share = 0}), 1, 0.1);
  EXPECT_GT(variation_of({.periodic_share = 0, .sporadic_share = 0, .steady_share = 0}), 2);
  EXPECT_GT(variation_of({.periodic_share = 0, .bursty_share = 0, .steady_share = 0}), 1.2);
}

TEST(Generator, WritesWhatTheReaderReadsBack) {
  auto trace = generate({.seed = 5}, small_catalogue());
  ASSERT_TRUE(trace.ok());
  const auto arrivals = drain(*trace->arrivals);
  const std::string text = trace_csv(arrivals, trace->functions);
  const std::string functions = functions_csv(trace->functions);
  auto back = read_trace(lines_of(text), lines_of(functions).get(), "g.csv", {});
  ASSERT_TRUE(back.ok()) << back.error().message;
  ASSERT_EQ(back->functions.size(), trace->functions.size());
  EXPECT_EQ(back->functions[3].label, trace->functions[3].label);
  EXPECT_EQ(back->functions[3].catalogue_entry, trace->functions[3].catalogue_entry);
  const auto read = drain(*back->arrivals);
  ASSERT_EQ(read.size(), arrivals.size());
  EXPECT_NEAR(to_seconds(read[9].at), to_seconds(arrivals[9].at), 2e-6);
}

TEST(Generator, GivesItsFirstArrivalsAtOnceHoweverManyFollow) {
  auto trace = generate({.duration = seconds(100'000'000), .offered_load = 50}, small_catalogue());
  ASSERT_TRUE(trace.ok());
  Arrival before{};
  for (int i = 0; i < 1'000; ++i) {
    const auto arrival = trace->arrivals->next();
    ASSERT_TRUE(arrival.has_value());
    EXPECT_LE(before, *arrival);
    before = *arrival;
  }
  EXPECT_LT(before.at, seconds(1'000));
}

TEST(Generator, RefusesOptionsThatMakeNoSense) {
  const Catalogue catalogue = small_catalogue();
  EXPECT_FALSE(generate({.functions = 0}, catalogue).ok());
  EXPECT_FALSE(generate({.duration = seconds(0)}, catalogue).ok());
  EXPECT_FALSE(generate({.offered_load = 0}, catalogue).ok());
  EXPECT_FALSE(generate({.offered_load = NAN}, catalogue).ok());
  EXPECT_FALSE(generate({.periodic_share = -1}, catalogue).ok());
  EXPECT_EQ(
      generate({.duration = seconds(100'000'000), .offered_load = 1e4}, catalogue).error().code,
      ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace lambent::workload
