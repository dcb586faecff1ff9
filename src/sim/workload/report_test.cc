#include "sim/workload/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lambent::workload {
namespace {

using testing::HasSubstr;
using testing::Not;

RunFile small_run(const std::string& policy) {
  RunFile run{.name = "r.jsonl"};
  run.header = {.trace = "<t>", .policy = policy, .time_scale = 10, .overhead_s = 0.0001};
  run.header.functions = {{"a&b", "FFT", 0.9}, {"idle", "Lud", 2}};
  for (int i = 1; i <= 50; ++i) {
    RunRecord record{.at_s = i * 0.1};
    record.sample = {.latency_s = i * 0.2, .queue_s = i * 0.1, .run_s = i * 0.05};
    run.records.push_back(record);
    run.readings.push_back({.at_s = i * 0.1, .utilisation = 0.5, .in_flight = 2});
  }
  run.end = RunEnd{10};
  return run;
}

// Every tag that opens closes, in order; enough of a parser for a page that we wrote ourselves.
bool is_well_formed(std::string_view html) {
  std::vector<std::string> open;
  size_t at = html.find('\n');  // past the document type
  while ((at = html.find('<', at)) != std::string_view::npos) {
    const size_t end = html.find('>', at);
    if (end == std::string_view::npos) return false;
    const std::string_view tag = html.substr(at + 1, end - at - 1);
    at = end;
    if (tag.find('<') != std::string_view::npos) return false;
    if (tag.ends_with('/')) continue;
    const std::string name(tag.substr(0, tag.find_first_of(" \n")));
    if (!name.starts_with('/')) {
      open.push_back(name);
    } else if (open.empty() || "/" + open.back() != name) {
      return false;
    } else {
      open.pop_back();
    }
  }
  return open.empty();
}

TEST(Report, ShowsDevicesLagAndColdStartsWhereTheRunsHaveThem) {
  const std::string without = report_html({small_run("fcfs")}, "t");
  for (const char* title : {"On the devices", "Virtual-time lag", "Cold starts"}) {
    EXPECT_THAT(without, Not(HasSubstr(title)));
  }
  RunFile run = small_run("mqfq");
  run.header.devices = 2;
  for (size_t i = 0; i < run.records.size(); ++i) {
    run.records[i].device = i % 2 == 0 ? 1 : 2;
    run.readings[i].lag_s = 1.5;
  }
  run.records[3].sample.start = StartClass::kCold;
  run.records[3].sample.cold_s = 0.25;
  run.records[4].sample.memory_s = 0.5;
  const std::string html = report_html({run}, "t");
  EXPECT_TRUE(is_well_formed(html));
  EXPECT_THAT(html, HasSubstr("mqfq GPU 0"));
  EXPECT_THAT(html, HasSubstr("mqfq GPU 1"));
  EXPECT_THAT(html, HasSubstr("a&amp;b: cold start of 250 ms"));
  EXPECT_THAT(html, HasSubstr(", memory: "));
  EXPECT_THAT(html, HasSubstr("Virtual-time lag"));
  EXPECT_THAT(html, HasSubstr("Cold starts"));
}

TEST(Report, IsOneWellFormedPageThatFetchesNothing) {
  const std::string html = report_html({small_run("fcfs"), small_run("mqfq")}, "A <title> & more");
  EXPECT_TRUE(is_well_formed(html));
  EXPECT_FALSE(is_well_formed(html.substr(0, html.size() - 9)));
  EXPECT_THAT(html, HasSubstr("A &lt;title&gt; &amp; more"));
  EXPECT_THAT(html, HasSubstr("a&amp;b"));
  EXPECT_THAT(html, HasSubstr("These times are emulated."));
  EXPECT_THAT(html, Not(HasSubstr("src=")));
  EXPECT_THAT(html, Not(HasSubstr("href=")));
  EXPECT_THAT(html, Not(HasSubstr("<script")));
  EXPECT_EQ(html, report_html({small_run("fcfs"), small_run("mqfq")}, "A <title> & more"));
}

TEST(Report, SaysWhichRunsAreNotToBeTrusted) {
  RunFile run = small_run("slow machine");
  EXPECT_THAT(report_html({run}, "t"), Not(HasSubstr("Not valid")));
  run.header.overhead_s = 0.5;
  run.end.reset();
  const std::string html = report_html({run}, "t");
  EXPECT_THAT(html, HasSubstr("Not valid: slow machine"));
  EXPECT_THAT(html, HasSubstr("Cut off: slow machine"));
}

TEST(Report, ShowsARunInWhichNothingSucceeded) {
  RunFile run = small_run("none");
  for (RunRecord& record : run.records) record.sample.succeeded = false;
  run.readings.clear();
  EXPECT_TRUE(is_well_formed(report_html({run}, "t")));
}

}  // namespace
}  // namespace lambent::workload
