#include "sim/workload/time_text.h"

#include <gtest/gtest.h>

namespace lambent::workload {
namespace {

Duration since_1970(int64_t whole_s, int64_t ns = 0) { return seconds(whole_s) + Duration(ns); }

TEST(TimeText, ReadsDatesAsCloudsWriteThem) {
  const auto date = [](std::string_view text) { return time_of(text, TimeUnit::kDate); };
  EXPECT_EQ(date("1970-01-01 00:00:00"), Duration(0));
  EXPECT_EQ(date("2023-11-16 18:17:03.9799600"), since_1970(1'700'158'623, 979'960'000));
  EXPECT_EQ(date("2024-05-10 00:00:00.009930+00:00"), since_1970(1'715'299'200, 9'930'000));
  EXPECT_EQ(date("2024-05-12T00:00:00Z"), since_1970(1'715'472'000));
  EXPECT_EQ(date("2024-11-15 16:57"), since_1970(1'731'689'820));
  EXPECT_EQ(date("2024-05-12 02:00:00+0200"), since_1970(1'715'472'000));
  EXPECT_EQ(date("2024-05-11 22:30:00-01:30"), since_1970(1'715'472'000));
  EXPECT_EQ(date("2024-02-29 00:00:00.1234567891"), since_1970(1'709'164'800, 123'456'789));
}

TEST(TimeText, RefusesWhatIsNoDate) {
  for (const char* text :
       {"", "soon", "1700000000", "2023-02-29 00:00:00", "2023-13-01 00:00:00", "2023-11-16",
        "2023-11-16 24:00:00", "2023-11-16 10:60:00", "2023-11-16 10:00:61", "2023-11-16 10:00:00.",
        "2023-11-16 10:00:00+25:00", "2023-11-16 10:00:00+1", "2023-11-16 10:00:00 CET",
        "1969-12-31 23:59:59", "9999-01-01 00:00:00", "23-11-16 10:00:00", "2023-11-16x10:00:00",
        "-023-11-16 10:00:00", "2023-11-16 10:00:00+02:00x"}) {
    EXPECT_FALSE(time_of(text, TimeUnit::kDate).has_value()) << text;
  }
}

TEST(TimeText, ReadsNumbersInTheirUnit) {
  EXPECT_EQ(time_of("1.5", TimeUnit::kSeconds), milliseconds(1500));
  EXPECT_EQ(time_of("1500", TimeUnit::kMilliseconds), milliseconds(1500));
  EXPECT_EQ(time_of("2", TimeUnit::kMinutes), seconds(120));
  EXPECT_EQ(time_of("1", TimeUnit::kHours), seconds(3600));
  EXPECT_EQ(time_of("2500", TimeUnit::kNanoseconds), Duration(2500));
  EXPECT_EQ(time_of("1700000000000", TimeUnit::kMilliseconds), seconds(1'700'000'000));
  // Of our time, and to the nanosecond.
  EXPECT_EQ(time_of("1700000000000002001", TimeUnit::kNanoseconds),
            Duration(1'700'000'000'000'002'001));
  EXPECT_EQ(time_of("1700000000000003", TimeUnit::kMicroseconds),
            Duration(1'700'000'000'000'003'000));
  EXPECT_EQ(time_of("1700000000.000002001", TimeUnit::kSeconds),
            Duration(1'700'000'000'000'002'001));
  EXPECT_EQ(time_of("0.29", TimeUnit::kMilliseconds), Duration(290'000));
  EXPECT_EQ(time_of("9000000000", TimeUnit::kSeconds), seconds(9'000'000'000));
  for (const char* text : {"9000000001", "9000000000000000000", "18446744073709551616", "1.",
                           "1.5.", "1.-5", "+1", "1.5e"}) {
    EXPECT_EQ(time_of(text, TimeUnit::kSeconds).has_value(), std::string_view(text) == "1.")
        << text;
  }
  for (const char* text : {"-1", "nan", "inf", "1e300", "0x10", "1,5", " 1", "1 ", ""}) {
    EXPECT_FALSE(time_of(text, TimeUnit::kSeconds).has_value()) << text;
  }
}

TEST(TimeText, KnowsUnitsByNameAndByTheEndOfAColumn) {
  for (const char* name : {"ns", "us", "ms", "s", "min", "h", "date"}) {
    EXPECT_TRUE(unit_from_name(name).has_value()) << name;
  }
  EXPECT_FALSE(unit_from_name("d").has_value());
  EXPECT_EQ(unit_of_column("invoke_time_ms"), TimeUnit::kMilliseconds);
  EXPECT_EQ(unit_of_column("exec_time_seconds"), TimeUnit::kSeconds);
  EXPECT_EQ(unit_of_column("wait (s)"), TimeUnit::kSeconds);
  EXPECT_FALSE(unit_of_column("_s").has_value());
  EXPECT_FALSE(unit_of_column("timestamp").has_value());
  EXPECT_FALSE(unit_of_column("status").has_value());
}

}  // namespace
}  // namespace lambent::workload
