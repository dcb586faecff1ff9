// Where a token comes from: a file that is its owner's, or the environment.
#include "bin/token_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "core/base/testing/testing.h"

namespace lambent::bin {
namespace {

using testing::HasSubstr;
using testing::Not;

class TokenSource : public testing::Test {
 protected:
  void SetUp() override { unsetenv("LAMBENT_TOKEN"); }
  void TearDown() override { unsetenv("LAMBENT_TOKEN"); }

  std::string file(const std::string& text, mode_t mode) {
    const std::string path = folder.path() + "/token";
    std::ofstream(path) << text;
    EXPECT_EQ(chmod(path.c_str(), mode), 0);
    return path;
  }

  TemporaryFolder folder;
};

TEST_F(TokenSource, AFileIsPreferredToTheEnvironment) {
  setenv("LAMBENT_TOKEN", "lambent_of_environment", 1);
  EXPECT_EQ(*find_token(file("lambent_of_file\n", 0600)), "lambent_of_file");
  EXPECT_EQ(*find_token(""), "lambent_of_environment");
}

TEST_F(TokenSource, WithoutEitherThereIsNoToken) {
  EXPECT_EQ(*find_token(""), "");
  setenv("LAMBENT_TOKEN", "", 1);
  EXPECT_EQ(*find_token(""), "");
}

TEST_F(TokenSource, AFileThatOthersCanReadIsRefusedWithTheRemedyAndWithoutItsText) {
  for (const mode_t mode : {mode_t{0640}, mode_t{0604}, mode_t{0620}}) {
    const auto token = find_token(file("lambent_s3cret", mode));
    ASSERT_FALSE(token.ok());
    EXPECT_EQ(token.error().code, ErrorCode::kFailedPrecondition);
    EXPECT_THAT(token.error().message, HasSubstr("chmod 600"));
    EXPECT_THAT(token.error().message, Not(HasSubstr("s3cret")));
  }
}

TEST_F(TokenSource, WhatIsNoTokenIsNamedByItsSourceAndNotShown) {
  const auto of_file = find_token(file("s3cret and more", 0600));
  ASSERT_FALSE(of_file.ok());
  EXPECT_THAT(of_file.error().message, HasSubstr("/token"));
  EXPECT_THAT(of_file.error().message, Not(HasSubstr("s3cret")));
  setenv("LAMBENT_TOKEN", "s3cret\nmore", 1);
  const auto of_environment = find_token("");
  ASSERT_FALSE(of_environment.ok());
  EXPECT_THAT(of_environment.error().message, HasSubstr("LAMBENT_TOKEN"));
  EXPECT_THAT(of_environment.error().message, Not(HasSubstr("s3cret")));
  EXPECT_EQ(find_token(folder.path() + "/missing").error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace lambent::bin
