#include "sim/workload/node_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lambent::workload {
namespace {

using testing::HasSubstr;

NodeProfile some_profile() {
  return {.gpu = "A \"GPU\"",
          .emulated = true,
          .time_scale = 10,
          .devices = 2,
          .device_memory = Bytes::mib(16160),
          .context_memory = Bytes::mib(336),
          .sandbox_s = 0.005,
          .init_floor_s = 0.3,
          .init_overhead_s = 0.02,
          .run_overhead_s = 0.0011,
          .request_overhead_s = 0.0005,
          .stop_s = 0.012,
          .contention = {1, 2.1, 3.15},
          .host_to_device_bytes_per_s = 12e9,
          .device_to_host_bytes_per_s = 12.8e9,
          .first_out_s_per_gib = 0.4};
}

std::string with(const std::string& from, const std::string& to) {
  std::string text = text_of(some_profile());
  text.replace(text.find(from), from.size(), to);
  return text;
}

TEST(NodeProfile, ComesBackAsItWasWritten) {
  const auto read = parse_profile(text_of(some_profile()), "node.toml");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(*read, some_profile());
}

TEST(NodeProfile, NamesFileLineAndKey) {
  for (const auto& [text, why] : std::vector<std::pair<std::string, std::string>>{
           {"", "node.toml: not a profile"},
           {"format = 1\n", "of this version; 'lambent calibrate' writes a new one"},
           {"# one\n# \xe2\x80\xa8two\n", "node.toml: line 2: a character that is not plain"},
           {"a = = 1\n", "node.toml: line 1"},
           {"format = 2\n", "no table [node]"},
           {with("sandbox_ms = 5", "sandbox_ms = -5"), "'start.sandbox_ms' is not a number from 0"},
           {with("sandbox_ms = 5", "sandbox_ms = nan"), "'start.sandbox_ms' is not a number"},
           {with("sandbox_ms = 5", "sandbox_ms = \"5\""), "line 14"},
           {with("stop_ms = 12", ""), "'start.stop_ms' is missing"},
           {with("stop_ms = 12", "stop_ms = 12\nstep_ms = 1"), "'start.step_ms' is not a key"},
           {with("[1, 2.1, 3.15]", "[]"), "'contention.factors' is not a list"},
           {with("[1, 2.1, 3.15]", "[1, inf]"), "'contention.factors' is not a list"},
           {with("first_out_ms_per_gib = 400", "first_out_ms_per_gib = inf"),
            "'link.first_out_ms_per_gib' is not a number from 0"},
           {with("emulated = true", "emulated = 1"), "neither true nor false"}}) {
    const auto read = parse_profile(text, "node.toml");
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_EQ(read.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(read.error().message, HasSubstr(why)) << text;
  }
}

}  // namespace
}  // namespace lambent::workload
