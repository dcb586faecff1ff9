#include "core/http/message.h"

#include <gtest/gtest.h>

namespace lambent::http {
namespace {

TEST(Headers, NamesCompareWithoutCase) {
  Headers headers;
  headers.add("Content-Type", "a");
  headers.add("content-type", "b");
  EXPECT_EQ(headers.get("CONTENT-TYPE"), "a");
  EXPECT_TRUE(headers.contains("content-Type"));
  EXPECT_FALSE(headers.contains("content"));
  headers.set("CONTENT-TYPE", "c");
  EXPECT_EQ(headers.fields().size(), 1u);
  EXPECT_EQ(headers.get("content-type"), "c");
}

TEST(Target, SplitsAtTheFirstQuestionMark) {
  EXPECT_EQ(path_of("/a/b?c=d?e"), "/a/b");
  EXPECT_EQ(query_of("/a/b?c=d?e"), "c=d?e");
  EXPECT_EQ(path_of("/a"), "/a");
  EXPECT_EQ(query_of("/a"), "");
}

TEST(PercentCoding, DecodesWhatItEncodes) {
  std::string every;
  for (int byte = 1; byte < 256; byte++) every += static_cast<char>(byte);
  std::string decoded;
  ASSERT_TRUE(percent_decode(percent_encode(every), decoded));
  EXPECT_EQ(decoded, every);
  EXPECT_EQ(percent_encode("a b/ü~"), "a%20b%2F%C3%BC~");
}

TEST(PercentCoding, RefusesMalformedEscapesAndNul) {
  std::string out;
  for (const char* text : {"%", "%1", "%g0", "%0g", "abc%", "%00", "a%2"}) {
    EXPECT_FALSE(percent_decode(text, out)) << text;
  }
  EXPECT_FALSE(percent_decode(std::string_view("a\0b", 3), out));
}

TEST(Query, FindsDecodedValues) {
  EXPECT_EQ(query_value("a=1&b=x%20y+z&c", "b"), "x y z");
  EXPECT_EQ(query_value("a=1&b=2", "c"), "");
  EXPECT_EQ(query_value("c", "c"), "");
  EXPECT_EQ(query_value("%61=1", "a"), "1");
  EXPECT_EQ(query_value("a=%zz", "a"), "");
}

}  // namespace
}  // namespace lambent::http
