#include "sim/workload/csv.h"
#include "sim/workload/limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

namespace lambent::workload {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Table {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
  size_t bad = 0;
  std::string error;
};

Table table_of(std::string_view text, std::vector<std::string> header = {}) {
  const auto lines = lines_of(text);
  auto reader = RowReader::start(*lines, "t.csv", std::move(header));
  if (!reader.ok()) return {.error = reader.error().message};
  Table table{.header = reader->header()};
  BadRows bad("t.csv");
  std::vector<std::string_view> fields;
  while (reader->next(fields, bad).value()) table.rows.emplace_back(fields.begin(), fields.end());
  table.bad = bad.count();
  if (bad.count() > 0) table.error = bad.verdict().error().message;
  return table;
}

TEST(RowReader, FindsOutWhatStandsBetweenFields) {
  for (const std::string mark : {",", ";", "\t", "|"}) {
    const Table table = table_of("a" + mark + "b\n1" + mark + "x\n");
    EXPECT_THAT(table.header, ElementsAre("a", "b")) << mark;
    EXPECT_THAT(table.rows, ElementsAre(ElementsAre("1", "x"))) << mark;
  }
  // Others in quotes, or fewer of them, do not count.
  EXPECT_THAT(table_of("\"a,b,c,d\";e\n1;2\n").header, ElementsAre("a,b,c,d", "e"));
  EXPECT_THAT(table_of("a,b;c,d\n1,2,3\n").header, ElementsAre("a", "b;c", "d"));
  EXPECT_THAT(table_of("alone\n1\n").rows, ElementsAre(ElementsAre("1")));
}

TEST(RowReader, TakesNamesForAFileWithoutAHeader) {
  const Table table = table_of("1,x\n2,y\n3\n", {"time", "f"});
  EXPECT_THAT(table.header, ElementsAre("time", "f"));
  EXPECT_THAT(table.rows, ElementsAre(ElementsAre("1", "x"), ElementsAre("2", "y")));
  EXPECT_THAT(table.error, HasSubstr("line 3: 1 fields where the header has 2"));
}

TEST(RowReader, ReadsJsonLines) {
  const Table table = table_of(
      "{\"t\": 1.5, \"f\": \"a,b\", \"hash_ids\": [1, 2]}\n"
      "\n"
      "{\"f\": \"c\", \"more\": 1, \"t\": 12345678901234567}\n"
      "{\"t\": null, \"f\": true}\n"
      "[1]\n"
      "{\"t\": 1\n"
      "{\"t\": 1e999}\n");
  EXPECT_THAT(table.header, ElementsAre("t", "f", "hash_ids"));
  EXPECT_THAT(table.rows,
              ElementsAre(ElementsAre("1.5", "a,b", ""), ElementsAre("12345678901234567", "c", ""),
                          ElementsAre("", "true", "")));
  EXPECT_EQ(table.bad, 3u);
  EXPECT_THAT(table.error, HasSubstr("line 5: no JSON object; line 6: no JSON object; line 7"));
}

TEST(RowReader, TakesKeysOfTheObjectItselfAndTheLastOfEqualOnes) {
  const Table table = table_of(
      "{\"t\": 1, \"in\": {\"f\": \"no\", \"l\": [{\"t\": 9}]}, \"f\": \"a\", \"t\": 2}\n"
      "{\"f\": \"x\", \"f\": [\"y\"], \"t\": -3, \"in\": \"s\"}\n"
      "{\"t\": 1} 2\n"
      "7\n");
  EXPECT_THAT(table.header, ElementsAre("t", "in", "f"));
  EXPECT_THAT(table.rows, ElementsAre(ElementsAre("2", "", "a"), ElementsAre("-3", "s", "")));
  EXPECT_EQ(table.bad, 2u);
}

TEST(RowReader, RefusesMoreColumnsThanFit) {
  const auto wide = [](size_t columns, bool is_json) {
    std::string text = is_json ? "{" : "";
    char name[24];
    for (size_t i = 0; i < columns; ++i) {
      snprintf(name, sizeof(name), is_json ? "\"%zx\":1" : "%zx", i);
      text += (i == 0 ? "" : ",") + std::string(name);
    }
    return text + (is_json ? "}\n" : "\n");
  };
  for (const bool is_json : {false, true}) {
    EXPECT_EQ(table_of(wide(limits::kTraceColumns, is_json)).header.size(), limits::kTraceColumns);
    EXPECT_THAT(table_of(wide(limits::kTraceColumns + 1, is_json)).error,
                HasSubstr("t.csv line 1: there are 100003 columns; at most 100002 fit"));
  }
}

TEST(RowReader, RefusesAJsonDocumentOverSeveralLines) {
  EXPECT_THAT(table_of("{\n  \"a\": 1\n}\n").error, HasSubstr("jq -c ."));
  EXPECT_THAT(table_of("[\n{\"a\": 1}]\n").error, HasSubstr("jq -c '.[]' 't.csv'"));
}

}  // namespace
}  // namespace lambent::workload
