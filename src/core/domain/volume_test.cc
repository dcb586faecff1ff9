#include "core/domain/volume.h"

#include <gtest/gtest.h>

#include "core/domain/limits.h"
#include "core/domain/mount.h"

namespace lambent {
namespace {

TEST(VolumePath, NamesAFileBelowTheVolume) {
  for (const std::string path :
       {"a", "a/b", "models/v1.2/weights.bin", "..a", "a..", "-", "\u00e9"}) {
    EXPECT_TRUE(validate_volume_path(path).ok()) << path;
  }
  for (const std::string path :
       {"", "/", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "a/./b", "a/../../b", "a\nb",
        "a\x7f", "\xff", "\xc0\xaf", "\xed\xa0\x80", "a\xe2\x82"}) {
    EXPECT_EQ(validate_volume_path(path).error().code, ErrorCode::kInvalidArgument) << path;
  }
  EXPECT_FALSE(validate_volume_path(std::string("a\0b", 3)).ok());
}

TEST(VolumePath, HasPartsOfALengthAndADepthThatFileSystemsTake) {
  EXPECT_TRUE(validate_volume_path(std::string(255, 'a')).ok());
  EXPECT_FALSE(validate_volume_path(std::string(256, 'a')).ok());
  std::string deep = "a";
  for (size_t i = 1; i < limits::kVolumePathDepth; ++i) deep += "/a";
  EXPECT_TRUE(validate_volume_path(deep).ok());
  EXPECT_FALSE(validate_volume_path(deep + "/a").ok());
}

TEST(Mounts, AreTheSameAfterTheyWereText) {
  const Mounts mounts = {{.volume = "weights", .host = {}, .at = "/weights"},
                         {.volume = {}, .host = "/data/models", .at = "/mnt/models"}};
  EXPECT_EQ(text_of(mounts), "weights:/weights,/data/models:/mnt/models");
  EXPECT_EQ(*parse_mounts(text_of(mounts)), mounts);
  EXPECT_EQ(*parse_mounts(""), Mounts());
  for (const char* bad :
       {"weights", ":", "weights:", ":/weights", "a:/a,", ",a:/a", "a:/a,,b:/b"}) {
    EXPECT_FALSE(parse_mounts(bad).ok()) << bad;
  }
}

Result<void> at(const std::string& place) {
  return validate(Mounts{{.volume = "weights", .host = {}, .at = place}});
}

TEST(Mounts, LieAtPlacesOfTheirOwn) {
  for (const char* place :
       {"/weights", "/mnt/weights", "/opt/models", "/var/lib/models", "/data"}) {
    EXPECT_TRUE(at(place).ok()) << place;
  }
  for (const char* place : {"/",
                            "",
                            "weights",
                            "/weights/",
                            "/a/../b",
                            "/a//b",
                            "/var/task",
                            "/var/task/x",
                            "/var",
                            "/proc",
                            "/proc/self",
                            "/dev",
                            "/dev/shm",
                            "/tmp",
                            "/tmp/x",
                            "/usr/lib",
                            "/etc",
                            "/run",
                            "/run/secrets",
                            "/opt",
                            "/opt/lambent",
                            "/opt/lambent/x",
                            "/var/runtime",
                            "/a:b",
                            "/a,b",
                            "/a\nb"}) {
    EXPECT_EQ(at(place).error().code, ErrorCode::kInvalidArgument) << place;
  }
}

TEST(Mounts, LieNotInsideOneAnother) {
  const auto two = [](const std::string& a, const std::string& b) {
    return validate(
        Mounts{{.volume = "x", .host = {}, .at = a}, {.volume = "y", .host = {}, .at = b}});
  };
  EXPECT_TRUE(two("/a", "/b").ok());
  EXPECT_TRUE(two("/a", "/ab").ok());
  EXPECT_FALSE(two("/a", "/a").ok());
  EXPECT_FALSE(two("/a/b", "/a").ok());
}

TEST(Mounts, HaveAVolumeOrAFolderOfTheHost) {
  EXPECT_FALSE(validate(Mounts{{.volume = "x", .host = "/x", .at = "/a"}}).ok());
  EXPECT_FALSE(validate(Mounts{{.volume = {}, .host = {}, .at = "/a"}}).ok());
  EXPECT_FALSE(validate(Mounts{{.volume = "../x", .host = {}, .at = "/a"}}).ok());
  EXPECT_FALSE(validate(Mounts{{.volume = {}, .host = "/data/../etc", .at = "/a"}}).ok());
  EXPECT_FALSE(validate(Mounts{{.volume = {}, .host = "data", .at = "/a"}}).ok());
  EXPECT_FALSE(validate(Mounts(limits::kMountsPerFunction + 1, {"x", "", "/a"})).ok());
}

}  // namespace
}  // namespace lambent
