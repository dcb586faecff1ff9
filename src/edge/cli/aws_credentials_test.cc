#include "edge/cli/aws_credentials.h"

#include <gtest/gtest.h>

namespace lambent::cli {
namespace {

using Settings = std::map<std::string, std::string>;

TEST(AwsCredentials, AreThoseOfTheSection) {
  const std::string text =
      "# mine\n[default]\naws_access_key_id = id\nAWS_SECRET_ACCESS_KEY=se=cret\r\n"
      "s3 =\n  region = indented\nno setting\n[ other ]\nregion = eu-west-1";
  EXPECT_EQ(
      aws_section(text, "default"),
      (Settings{{"aws_access_key_id", "id"}, {"aws_secret_access_key", "se=cret"}, {"s3", ""}}));
  EXPECT_EQ(aws_section(text, "other"), (Settings{{"region", "eu-west-1"}}));
  EXPECT_EQ(aws_section(text, "none"), Settings());
  EXPECT_EQ(aws_section("", "default"), Settings());
}

}  // namespace
}  // namespace lambent::cli
