#include "edge/cli/gpu_result.h"

#include <gtest/gtest.h>

namespace lambent::cli {
namespace {

std::string table_of(std::string_view text) {
  const auto table = gpu_table(text, "result.json");
  EXPECT_TRUE(table.ok());
  return table.ok() && table->has_value() ? **table : "";
}

TEST(GpuResult, IsARowForEachStepWithWhatItTold) {
  const std::string table =
      table_of(R"({"name": "gpu", "emulated": false, "complete": true, "steps": [
    {"name": "contention", "outcome": "ok", "seconds": 9,
     "result": {"together_of_alone": 0.98765, "by_turns_of_alone": 0.9, "longest_wait_ms": 101}},
    {"name": "driver_memory", "outcome": "ok", "seconds": 20,
     "result": {"ways": {"bare": {"same": true}, "moved": {"same": true, "of_bare": 0.75},
                         "uvm": {"same": false}}}},
    {"name": "swap", "outcome": "hung", "seconds": 180, "reason": "not over after 180 s"}]})");
  EXPECT_NE(table.find("| contention | ok | 9 | two at once, of a single one 0.9877; by turns 0.9; "
                       "longest wait, ms 101 |  |\n"),
            std::string::npos)
      << table;
  EXPECT_NE(table.find("| moved same, 0.75 of bare; uvm NOT THE SAME |"), std::string::npos)
      << table;
  EXPECT_NE(table.find("| swap | hung | 180 |  | not over after 180 s |\n"), std::string::npos);
  EXPECT_EQ(table.find("mulated"), std::string::npos);
  EXPECT_EQ(table.find("Cut off"), std::string::npos);
}

TEST(GpuResult, SaysWhatItWasTakenOnAndWhetherItIsWhole) {
  const std::string table =
      table_of(R"({"name": "gpu", "emulated": true, "complete": false, "steps": []})");
  EXPECT_NE(table.find("An emulated GPU"), std::string::npos);
  EXPECT_NE(table.find("Cut off"), std::string::npos);
}

TEST(GpuResult, KeepsWordsOfOthersInTheirCell) {
  const std::string table = table_of(
      R"({"name": "gpu", "complete": true, "steps": [
        {"name": "shim", "outcome": "failed", "reason": "a | b\nc", "result": [1]}]})");
  EXPECT_NE(table.find("| shim | failed |  |  | a \\| b c |\n"), std::string::npos) << table;
}

TEST(GpuResult, IsNotWhatARunWrote) {
  for (const std::string_view text :
       {"", "[]", "{}", "{\"name\": 3}", "{\"name\": \"swap\"}", "x"}) {
    const auto table = gpu_table(text, "run.jsonl");
    ASSERT_TRUE(table.ok()) << text;
    EXPECT_FALSE(table->has_value()) << text;
  }
}

TEST(GpuResult, RefusesWhatHasNoSteps) {
  for (const std::string_view text :
       {R"({"name": "gpu"})", R"({"name": "gpu", "steps": 3})", R"({"name": "gpu", "steps": [3]})",
        R"({"name": "gpu", "steps": [{"name": "shim"}]})"}) {
    const auto table = gpu_table(text, "result.json");
    ASSERT_FALSE(table.ok()) << text;
    EXPECT_EQ(table.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(table.error().message.find("result.json"), std::string::npos);
  }
}

}  // namespace
}  // namespace lambent::cli
