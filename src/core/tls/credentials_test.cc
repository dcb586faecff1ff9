#include "core/tls/credentials.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "core/base/fd.h"

namespace lambent::tls {
namespace {

TEST(Credentials, AreReadFromTheFilesThatAreNamed) {
  char folder[] = "/tmp/lambent-credentials-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string file = std::string(folder) + "/c.pem";
  ASSERT_TRUE(write_file_atomically(file, "text", false).ok());
  const auto read = read_credentials({.certificate = file, .key = "", .authorities = file});
  ASSERT_TRUE(read.ok()) << to_string(read.error());
  EXPECT_EQ(read->certificate, "text");
  EXPECT_EQ(read->key, "");
  EXPECT_EQ(read->authorities, "text");
  const auto missing =
      read_credentials({.certificate = file, .key = file + "x", .authorities = ""});
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_NE(missing.error().message.find(file + "x"), std::string::npos);
  ASSERT_TRUE(write_file_atomically(file, std::string(2 << 20, 'x'), false).ok());
  EXPECT_EQ(read_credentials({.certificate = file, .key = "", .authorities = ""}).error().code,
            ErrorCode::kResourceExhausted);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace lambent::tls
