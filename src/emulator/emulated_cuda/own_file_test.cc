#include "emulator/emulated_cuda/own_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace lambent::emulated_cuda {
namespace {

TEST(OwnFile, IsReadUnlessOthersMayWriteToItOrItIsNone) {
  char name[] = "/tmp/own_file_test.XXXXXX";
  ASSERT_NE(mkdtemp(name), nullptr);
  const std::string folder = name, file = folder + "/file";
  std::ofstream(file) << "code";
  ASSERT_EQ(chmod(file.c_str(), 0600), 0);
  EXPECT_EQ(read_own_file(file, 4, Reach::kAnyone), "code");
  EXPECT_EQ(read_own_file(file, 3, Reach::kAnyone), std::nullopt);
  ASSERT_EQ(chmod(file.c_str(), 0660), 0);
  EXPECT_EQ(read_own_file(file, 4, Reach::kAnyone), std::nullopt);
  EXPECT_EQ(read_own_file(file, 4, Reach::kOwner), "code");
  ASSERT_EQ(chmod(file.c_str(), 0600), 0);
  std::filesystem::create_symlink(file, folder + "/link");
  EXPECT_EQ(read_own_file(folder + "/link", 4, Reach::kAnyone), std::nullopt);
  ASSERT_EQ(mkfifo((folder + "/pipe").c_str(), 0600), 0);
  EXPECT_EQ(read_own_file(folder + "/pipe", 4, Reach::kAnyone), std::nullopt) << "and at once";
  EXPECT_EQ(read_own_file(folder, 4, Reach::kAnyone), std::nullopt);
  EXPECT_EQ(read_own_file(folder + "/none", 4, Reach::kAnyone), std::nullopt);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace lambent::emulated_cuda
