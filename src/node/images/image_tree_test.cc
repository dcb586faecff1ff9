#include "node/images/image_tree.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "core/base/fd.h"

namespace lambent::images {
namespace {

namespace fs = std::filesystem;

class ImageTreeTest : public testing::Test {
 protected:
  ImageTreeTest() {
    std::string path = (fs::temp_directory_path() / "lambent-image-XXXXXX").string();
    folder_ = mkdtemp(path.data());
    root_ = folder_ + "/root";
    fs::create_directories(root_ + "/etc");
    fs::create_directories(root_ + "/lib/x86_64-linux-gnu");
    write(folder_ + "/secret", "treasure");
  }
  ~ImageTreeTest() override { remove_tree(folder_); }

  static void write(const std::string& path, const std::string& text) {
    ASSERT_TRUE(write_file_atomically(path, text, false).ok());
  }

  std::string folder_;
  std::string root_;
};

TEST_F(ImageTreeTest, ALinkOfTheImageLeadsNowhereButIntoIt) {
  write(root_ + "/etc/real", "inside");
  fs::create_symlink("/etc/real", root_ + "/etc/passwd");
  EXPECT_EQ(*read_inside(root_, "/etc/passwd", 100), "inside");
  for (const char* target : {"../../secret", "../../../../../../../etc/hostname"}) {
    fs::remove(root_ + "/etc/passwd");
    fs::create_symlink(target, root_ + "/etc/passwd");
    EXPECT_EQ(read_inside(root_, "/etc/passwd", 100).error().code, ErrorCode::kNotFound);
  }
  fs::remove(root_ + "/etc/passwd");
  fs::create_symlink(folder_ + "/secret", root_ + "/etc/passwd");
  EXPECT_FALSE(read_inside(root_, "/etc/passwd", 100).ok());
}

TEST_F(ImageTreeTest, WhatIsNoPlainFileIsNotRead) {
  ASSERT_EQ(mkfifo((root_ + "/etc/passwd").c_str(), 0644), 0);
  EXPECT_FALSE(read_inside(root_, "/etc/passwd", 100).ok());
  EXPECT_FALSE(read_inside(root_, "/etc", 100).ok());
}

TEST_F(ImageTreeTest, OnlyTheBeginningOfALargeFileIsRead) {
  write(root_ + "/etc/passwd", "0123456789");
  EXPECT_EQ(*read_inside(root_, "/etc/passwd", 4), "0123");
}

TEST_F(ImageTreeTest, TheCLibraryTellsItsVersion) {
  EXPECT_EQ(c_library_of(root_), CLibrary{});
  write(root_ + "/lib/ld-musl-x86_64.so.1", "x");
  EXPECT_EQ(c_library_of(root_), (CLibrary{"musl", ""}));
  write(root_ + "/lib/x86_64-linux-gnu/libc.so.6",
        "GNU C Library (Debian GLIBC 2.31-13) stable release version 2.31.\n");
  EXPECT_EQ(c_library_of(root_), (CLibrary{"glibc", "2.31"}));
}

TEST_F(ImageTreeTest, ALibraryNamesTheNewestCLibraryThatItNeeds) {
  write(folder_ + "/lib.so", std::string("GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.4\0", 33));
  EXPECT_EQ(glibc_needed_by(folder_ + "/lib.so"), "2.34");
  EXPECT_EQ(glibc_needed_by(folder_ + "/missing"), "");
}

TEST(IsVersionAtLeastTest, ComparesNumbers) {
  EXPECT_TRUE(is_version_at_least("2.36", "2.4"));
  EXPECT_TRUE(is_version_at_least("2.4", "2.4"));
  EXPECT_FALSE(is_version_at_least("2.31", "2.34"));
  EXPECT_FALSE(is_version_at_least("", "2.34"));
  EXPECT_TRUE(is_version_at_least("2.31", ""));
}

TEST_F(ImageTreeTest, ATreeThatForbidsItIsRemovedAllTheSame) {
  fs::create_directories(root_ + "/locked/inner");
  write(root_ + "/locked/inner/file", "x");
  fs::permissions(root_ + "/locked/inner", fs::perms::none);
  fs::permissions(root_ + "/locked", fs::perms::none);
  fs::create_symlink(folder_ + "/secret", root_ + "/link");
  remove_tree(root_);
  EXPECT_FALSE(fs::exists(root_));
  EXPECT_TRUE(fs::exists(folder_ + "/secret"));
}

}  // namespace
}  // namespace lambent::images
