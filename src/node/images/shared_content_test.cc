#include "node/images/shared_content.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "core/base/fd.h"
#include "core/base/testing/testing.h"

namespace lambent::images {
namespace {

namespace fs = std::filesystem;

class ShareFilesTest : public testing::Test {
 protected:
  ShareFilesTest() {
    for (const char* folder : {"new/lib", "old/lib"}) fs::create_directories(folder_ / folder);
  }
  void write(const std::string& name, const std::string& text, time_t changed = 1000) {
    std::ofstream(folder_ / name) << text;
    const std::array<timespec, 2> times = {timespec{changed, 0}, timespec{changed, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, (folder_ / name).c_str(), times.data(), 0), 0);
  }
  Bytes share() { return share_files(folder_ / "new", folder_ / "old", folder_ / "spare"); }
  bool are_one(const std::string& name) {
    return fs::equivalent(folder_ / ("new/" + name), folder_ / ("old/" + name));
  }

  const TemporaryFolder folder_;
};

TEST_F(ShareFilesTest, WhatIsTheSameIsOnTheDiskOnce) {
  const std::string large(300'000, 'x');
  for (const char* tree : {"new/", "old/"}) {
    write(tree + std::string("lib/same"), large);
    write(tree + std::string("lib/empty"), "");
  }
  struct stat before {
  }, after{};
  ASSERT_EQ(stat((folder_ / "new/lib").c_str(), &before), 0);
  EXPECT_GE(share().count, large.size());
  EXPECT_TRUE(are_one("lib/same"));
  EXPECT_EQ(*read_file(folder_ / "new/lib/same", 1 << 20), large);
  ASSERT_EQ(stat((folder_ / "new/lib").c_str(), &after), 0);
  EXPECT_EQ(before.st_mtim.tv_sec, after.st_mtim.tv_sec);
  EXPECT_EQ(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
  EXPECT_EQ(share().count, 0U) << "nothing is left to be shared";
  EXPECT_FALSE(fs::exists(folder_ / "spare"));
}

TEST_F(ShareFilesTest, WhatDiffersInAnythingStaysApart) {
  const std::string one(200'000, 'x');
  std::string other = one;
  other.back() = 'y';
  write("new/lib/bytes", one), write("old/lib/bytes", other);
  write("new/lib/time", one), write("old/lib/time", one, 1001);
  write("new/lib/mode", one), write("old/lib/mode", one);
  fs::permissions(folder_ / "new/lib/mode", fs::perms(0700));
  EXPECT_EQ(share().count, 0U);
  for (const char* name : {"lib/bytes", "lib/time", "lib/mode"}) EXPECT_FALSE(are_one(name));
}

TEST_F(ShareFilesTest, LinksOfAnImageLeadNowhere) {
  fs::create_directories(folder_ / "host");
  for (const char* name : {"host/file", "new/lib/file", "new/direct"}) write(name, "of the host");
  fs::remove_all(folder_ / "old/lib");
  fs::create_symlink(folder_ / "host", folder_ / "old/lib");
  fs::create_symlink(folder_ / "host/file", folder_ / "old/direct");
  EXPECT_EQ(share().count, 0U);
  EXPECT_EQ(fs::hard_link_count(folder_ / "host/file"), 1U);
  fs::rename(folder_ / "new", folder_ / "moved");
  fs::create_symlink(folder_ / "moved", folder_ / "new");
  EXPECT_EQ(share().count, 0U) << "a root that is a link";
}

class ReadyImagesTest : public testing::Test {
 protected:
  void add(char letter, const std::string& registry, std::vector<std::string> layers) {
    PulledImage image;
    image.digest = "sha256:" + std::string(64, letter);
    image.registry = registry;
    image.config.layers = std::move(layers);
    const std::string folder = folder_ / std::string(1, letter);
    fs::create_directories(folder + "/layout/blobs/sha256");
    std::ofstream(folder + "/report.json") << to_json(image);
    std::ofstream(folder + "/layout/blobs/sha256/" + std::string(64, letter)) << "a layer";
  }
  static std::string layer(char letter) { return "sha256:" + std::string(64, letter); }

  const TemporaryFolder folder_;
};

TEST_F(ReadyImagesTest, ARegistrysImagesAreOfferedItsOwnBlobsOnly) {
  add('a', "ghcr.io", {});
  add('b', "docker.io", {});
  add('c', "", {});  // of a layout
  const auto images = ready_images(folder_.path());
  EXPECT_EQ(images.size(), 3U);
  EXPECT_EQ(kept_blobs(images).size(), 3U);
  const auto own = kept_blobs(images, "ghcr.io");
  ASSERT_EQ(own.size(), 1U);
  EXPECT_EQ(own.begin()->first, std::string(64, 'a'));
}

TEST_F(ReadyImagesTest, BlobsThatAreLinksOrHaveOtherNamesAreNone) {
  add('a', "ghcr.io", {});
  const fs::path blobs = folder_ / "a/layout/blobs/sha256";
  std::ofstream(blobs / "noise") << "x";
  fs::create_symlink("/etc/passwd", blobs / std::string(64, 'd'));
  EXPECT_EQ(kept_blobs(ready_images(folder_.path())).size(), 1U);
  fs::rename(blobs, folder_ / "aside");
  fs::create_directory_symlink(folder_ / "aside", blobs);
  EXPECT_EQ(kept_blobs(ready_images(folder_.path())).size(), 0U);
}

TEST_F(ReadyImagesTest, TheClosestHasTheMostLayersInCommon) {
  add('a', "", {layer('1')});
  add('b', "", {layer('1'), layer('2'), layer('9')});
  add('c', "", {});
  const auto images = ready_images(folder_.path());
  const ReadyImage* closest = closest_image(images, {layer('1'), layer('2'), layer('3')});
  ASSERT_NE(closest, nullptr);
  EXPECT_EQ(closest->image.digest, layer('b'));
  EXPECT_EQ(closest_image(images, {layer('7')}), nullptr);
  EXPECT_EQ(closest_image(images, {}), nullptr);
}

}  // namespace
}  // namespace lambent::images
