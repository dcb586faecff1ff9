#include "node/tenants/node_key.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "core/base/testing/testing.h"
#include "core/crypto/crypto.h"

namespace lambent::tenants {
namespace {

TEST(NodeKeyTest, IsMadeOnceForItsOwnerOnly) {
  const TemporaryFolder folder;
  const std::string path = folder / "node.key";
  const std::string key = read_or_make_node_key(path).value();
  EXPECT_EQ(key.size(), crypto::kKeySize);
  EXPECT_EQ(read_or_make_node_key(path).value(), key);
  struct stat about {};
  ASSERT_EQ(::stat(path.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777U, 0600U);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder / "."), {}), 1);
}

TEST(NodeKeyTest, AKeyThatOthersCanReadIsRefused) {
  const TemporaryFolder folder;
  const std::string path = folder / "node.key";
  ASSERT_TRUE(read_or_make_node_key(path).ok());
  ASSERT_EQ(::chmod(path.c_str(), 0640), 0);
  const auto key = read_or_make_node_key(path);
  ASSERT_FALSE(key.ok());
  EXPECT_EQ(key.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_NE(key.error().message.find("chmod 600"), std::string::npos);
}

TEST(NodeKeyTest, WhatIsNoKeyIsRefusedAndKept) {
  const TemporaryFolder folder;
  const std::string path = folder / "node.key";
  for (const std::string& text : {std::string(), std::string(31, 'x'), std::string(33, 'x')}) {
    std::ofstream(path) << text;
    ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
    EXPECT_EQ(read_or_make_node_key(path).error().code, ErrorCode::kFailedPrecondition);
    EXPECT_EQ(std::filesystem::file_size(path), text.size());
  }
  std::filesystem::create_directory(folder / "a folder");
  EXPECT_FALSE(read_or_make_node_key(folder / "a folder").ok());
  EXPECT_FALSE(read_or_make_node_key(folder / "no" + "/node.key").ok());
}

}  // namespace
}  // namespace lambent::tenants
