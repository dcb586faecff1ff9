#include "node/volumes/host_folders.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

namespace lambent::volumes {
namespace {

namespace fs = std::filesystem;

class HostFoldersTest : public testing::Test {
 protected:
  HostFoldersTest() {
    std::string name = testing::TempDir() + "/host.XXXXXX";
    top_ = fs::canonical(mkdtemp(name.data()));
    fs::create_directories(top_ + "/models/small");
    fs::create_directories(top_ + "/state/volumes");
    fs::create_directory_symlink(top_ + "/models", top_ + "/link");
  }
  ~HostFoldersTest() override { fs::remove_all(top_); }

  Result<HostFolders> open(std::vector<std::string> allowed) {
    return HostFolders::open(allowed, {top_ + "/state"});
  }
  ErrorCode refusal(const std::string& allowed) {
    const auto opened = open({allowed});
    return opened.ok() ? ErrorCode::kUnknown : opened.error().code;
  }

  std::string top_;
};

TEST_F(HostFoldersTest, AreTheAllowedOnesAndWhatIsBelowThem) {
  const auto folders = open({top_ + "/models/"});
  ASSERT_TRUE(folders.ok()) << to_string(folders.error());
  EXPECT_EQ(*folders->resolve("any", top_ + "/models"), top_ + "/models");
  EXPECT_EQ(*folders->resolve("any", top_ + "/models/small"), top_ + "/models/small");
  for (const std::string& path : {top_, top_ + "/models2", top_ + "/state", std::string("/etc")}) {
    EXPECT_EQ(folders->resolve("any", path).error().code, ErrorCode::kPermissionDenied) << path;
  }
}

TEST_F(HostFoldersTest, MayBeLinksThatTheOperatorMade) {
  const auto folders = open({top_ + "/link"});
  ASSERT_TRUE(folders.ok());
  EXPECT_EQ(*folders->resolve("any", top_ + "/link/small"), top_ + "/models/small");
}

TEST_F(HostFoldersTest, MayBeOneTenants) {
  const auto folders = open({top_ + "/models=vision"});
  ASSERT_TRUE(folders.ok());
  EXPECT_TRUE(folders->resolve("vision", top_ + "/models").ok());
  const auto refused = folders->resolve("speech", top_ + "/models");
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("allows none"), std::string::npos)
      << "it does not tell what others have: " << refused.error().message;
}

TEST_F(HostFoldersTest, AreNeitherTheRootNorTheWorkersOwnNorMissing) {
  EXPECT_EQ(refusal("/"), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal(top_ + "/state"), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal(top_ + "/state/volumes"), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal(top_), ErrorCode::kInvalidArgument) << "the state folder is in it";
  EXPECT_EQ(refusal(top_ + "/nowhere"), ErrorCode::kNotFound);
  EXPECT_EQ(refusal("models"), ErrorCode::kNotFound);
}

}  // namespace
}  // namespace lambent::volumes
