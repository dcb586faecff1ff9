#include "sim/workload/file_kind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lambent::workload {
namespace {

using testing::HasSubstr;

TEST(FileKind, NamesTheCommandThatMakesATable) {
  EXPECT_EQ(no_table_because("\xFD"
                             "7zXZ...",
                             "t.csv.xz"),
            "is packed with xz: unpack it with xz -dc 't.csv.xz' > trace.csv");
  EXPECT_THAT(no_table_because("\x28\xB5\x2F\xFD...", "t"), HasSubstr("zstd -dc 't' > trace.csv"));
  EXPECT_THAT(no_table_because("BZh91AY", "t"), HasSubstr("bzip2 -dc 't'"));
  EXPECT_THAT(no_table_because("PK\x03\x04...", "R2.zip"),
              HasSubstr("unzip -p 'R2.zip' NAME > trace.csv"));
  EXPECT_THAT(no_table_because("Rar!\x1A\x07...", "t.rar"),
              HasSubstr("unrar p -inul 't.rar' NAME"));
  EXPECT_THAT(no_table_because("PAR1...", "t"), HasSubstr("index=False)\" 't' trace.csv"));
  EXPECT_THAT(no_table_because("\xFF\xFEt", "t"), HasSubstr("iconv -f UTF-16"));
  EXPECT_THAT(no_table_because("version https://git-lfs.github.com/spec/v1", "t"),
              HasSubstr("git lfs pull"));
  EXPECT_THAT(no_table_because(" <!DOCTYPE html>", "t"), HasSubstr("a page of the web"));
  const std::string tar = std::string("a.csv").append(252, '\0') + "ustar" + std::string(250, '\0');
  EXPECT_THAT(no_table_because(tar, "t.tar.gz"), HasSubstr("tar -xOf 't.tar.gz' NAME"));
  EXPECT_THAT(no_table_because(std::string("a\0b", 3), "t"), HasSubstr("it is no text"));
}

TEST(FileKind, QuotesAFileForTheShell) {
  EXPECT_THAT(no_table_because("BZh", "it's; rm x"), HasSubstr("'it'\\''s; rm x'"));
}

TEST(FileKind, TakesTablesForTables) {
  for (const char* text : {"", "t_ms,function", "{\"a\":1}", "PK", "BZ", "ustar", "<"}) {
    EXPECT_EQ(no_table_because(text, "t"), "") << text;
  }
}

}  // namespace
}  // namespace lambent::workload
