#include "core/metrics/registry.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace lambent::metrics {
namespace {

TEST(RegistryTest, TheTextHasHelpTypeAndASampleForEachSetOfLabels) {
  Registry registry;
  auto& calls = registry.family<Counter>("calls_total", "Calls.");
  calls.add({{"b", "2"}, {"a", "1"}}).increment();
  calls.add({{"a", "1"}, {"b", "2"}}).increment(2.5);
  calls.add({}).increment();
  EXPECT_EQ(registry.text(),
            "# HELP calls_total Calls.\n"
            "# TYPE calls_total counter\n"
            "calls_total 1\n"
            "calls_total{a=\"1\",b=\"2\"} 3.5\n");
}

TEST(RegistryTest, BucketsCountUpAndHoldTheirBounds) {
  Registry registry;
  const std::array<double, 2> bounds = {0.5, 1};
  Histogram& wait = registry.family<Histogram>("wait_seconds", "Waits.").add({{"f", "x"}}, bounds);
  for (const double value : {0.25, 0.5, 0.75, 8.0}) wait.observe(value);
  EXPECT_EQ(registry.text(),
            "# HELP wait_seconds Waits.\n"
            "# TYPE wait_seconds histogram\n"
            "wait_seconds_count{f=\"x\"} 4\n"
            "wait_seconds_sum{f=\"x\"} 9.5\n"
            "wait_seconds_bucket{f=\"x\",le=\"0.5\"} 2\n"
            "wait_seconds_bucket{f=\"x\",le=\"1\"} 3\n"
            "wait_seconds_bucket{f=\"x\",le=\"+Inf\"} 4\n");
}

TEST(RegistryTest, AFamilyWithoutMetricsIsNotTold) {
  Registry registry;
  auto& size = registry.family<Gauge>("size_bytes", "Size.");
  EXPECT_EQ(registry.text(), "");
  size.add({{"of", "one"}});
  size.add({{"of", "two"}}).set(2);
  size.remove({{"of", "one"}});
  EXPECT_EQ(registry.text().find("one"), std::string::npos);
  EXPECT_NE(registry.text().find("size_bytes{of=\"two\"} 2\n"), std::string::npos);
}

TEST(RegistryTest, WhatEndsALabelOrALineIsEscaped) {
  Registry registry;
  registry.family<Gauge>("g", "a \"quoted\"\nline \\").add({{"l", "a\"b\\c\nd"}}).set(1);
  EXPECT_EQ(registry.text(),
            "# HELP g a \"quoted\"\\nline \\\\\n"
            "# TYPE g gauge\n"
            "g{l=\"a\\\"b\\\\c\\nd\"} 1\n");
}

TEST(RegistryTest, NumbersReadBackAsTheSame) {
  Registry registry;
  auto& family = registry.family<Gauge>("g", "G.");
  Gauge& gauge = family.add({});
  for (const double value : {0.0, -3.0, 0.1, 1e-9, 17179869184.0, 1.8e19, 1.0 / 3}) {
    gauge.set(value);
    const std::string text = registry.text();
    EXPECT_EQ(std::stod(text.substr(text.rfind(' ') + 1)), value) << text;
  }
  gauge.set(17179869184.0);
  EXPECT_NE(registry.text().find("g 17179869184\n"), std::string::npos);
  gauge.set(INFINITY);
  EXPECT_NE(registry.text().find("g +Inf\n"), std::string::npos);
}

TEST(RegistryTest, ACounterNeverFalls) {
  Counter counter;
  counter.increment(3);
  counter.increment(-1);
  counter.increment(NAN);
  EXPECT_EQ(counter.value(), 3);
}

}  // namespace
}  // namespace lambent::metrics
