#include "node/environments/interpreters.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace lambent::environments {
namespace {

class InterpretersTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "interpreters.XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void program(const std::string& name, mode_t mode = 0755) {
    std::ofstream(folder_ + "/" + name) << "#!";
    chmod((folder_ + "/" + name).c_str(), mode);
  }

  std::string folder_;
};

TEST_F(InterpretersTest, AVersionIsFoundByItsName) {
  for (const char* name :
       {"python3.9", "python3.11", "python3.11-config", "python3", "python3.x"}) {
    program(name);
  }
  program("python3.12", 0644);
  std::filesystem::create_symlink("python3.9", folder_ + "/python");
  const auto found = Interpreters::find({folder_, "/nonexistent"}, folder_ + "/python");
  EXPECT_EQ(found.paths().size(), 2u);
  EXPECT_EQ(*found.get("3.11"), (Interpreter{"3.11", folder_ + "/python3.11"}));
  EXPECT_EQ(found.get("")->version, "3.9");
  const auto missing = found.get("3.12");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(missing.error().message,
            "python.version: Python 3.12 is not there; this worker's machine has 3.9, 3.11");
}

TEST_F(InterpretersTest, ARuntimeThatNamesAVersionGetsThatOneOrIsRefused) {
  for (const char* name : {"python3.9", "python3.11"}) program(name);
  const auto found = Interpreters::find({folder_}, folder_ + "/python3.11");
  for (const char* good : {"python3", "python3.11", "provided.al2023", "Image", ""}) {
    EXPECT_TRUE(found.check_runtime(good, "").ok()) << good;
  }
  EXPECT_TRUE(found.check_runtime("python3.9", "3.9").ok());
  EXPECT_TRUE(found.check_runtime("python3", "3.9").ok());
  EXPECT_EQ(found.check_runtime("python3.14", "").error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(found.check_runtime("python3.14", "").error().message,
            "runtime is 'python3.14', which is not there; this worker's machine has 3.9, 3.11, and "
            "'python3' is its Python 3.11");
  EXPECT_EQ(found.check_runtime("python3.9", "").error().message,
            "runtime is 'python3.9', which the worker's own Python 3.11 is not; [python] version = "
            "\"3.9\" in lambent.toml chooses it");
  EXPECT_EQ(found.check_runtime("python3.11", "3.9").error().message,
            "runtime is 'python3.11', but [python] version is '3.9'; name one of the two");
  const auto unknown = Interpreters::find({folder_}, "/nonexistent/python3");
  EXPECT_TRUE(unknown.check_runtime("python3.14", "").ok());
}

TEST_F(InterpretersTest, WithoutAUsualOneAVersionHasToBeNamed) {
  program("python3.11");
  const auto found = Interpreters::find({folder_}, "/nonexistent/python3");
  EXPECT_FALSE(found.get("").ok());
  EXPECT_TRUE(found.get("3.11").ok());
  EXPECT_FALSE(Interpreters::find({}, "").get("3.11").ok());
}

}  // namespace
}  // namespace lambent::environments
