#include "edge/frontend/volume_copy.h"

#include <gtest/gtest.h>

#include <string>

#include "core/domain/limits.h"

namespace lambent::frontend {
namespace {

const std::string kDigest(64, 'a');

std::string replaced(std::string text, const std::string& old, const std::string& by) {
  return text.replace(text.find(old), old.size(), by);
}

TEST(VolumeCopy, AListIsReadBackAndItsVersionIsThatOfItsVolumes) {
  const VolumeStatus weights{.name = "weights", .files = 2, .size = Bytes(13), .version = kDigest};
  const VolumeList list = volume_list_of({{"default", weights}, {"red", weights}});
  const auto read = read_volume_list(json_text_of(list));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, list);
  EXPECT_NE(volume_list_of({{"default", weights}}).version, list.version);
  EXPECT_EQ(volume_list_of({}).version,
            read_volume_list(json_text_of(volume_list_of({})))->version);
}

TEST(VolumeCopy, WhatNoNodeSaysOfItsVolumesIsNoList) {
  const std::string text = json_text_of(volume_list_of(
      {{"default", {.name = "weights", .files = 777, .size = Bytes(13), .version = kDigest}}}));
  ASSERT_TRUE(read_volume_list(text).ok());
  EXPECT_FALSE(read_volume_list("").ok());
  EXPECT_FALSE(read_volume_list("[]").ok());
  for (const char* wrong : {"-777", "7.5", "\"777\"", "9223372036854775808", "null"}) {
    EXPECT_FALSE(read_volume_list(replaced(text, "777", wrong)).ok()) << wrong;
  }
  EXPECT_FALSE(read_volume_list(replaced(text, "weights", "../etc")).ok());
  EXPECT_FALSE(read_volume_list(replaced(text, kDigest, "aa")).ok());
  EXPECT_FALSE(read_volume_list(replaced(text, "\"default\"", "7")).ok());
}

TEST(VolumeCopy, APageIsReadBack) {
  const VolumePage page{.version = kDigest,
                        .files = {{"a", Bytes(1), kDigest}, {"b/c", Bytes(0), kDigest}},
                        .is_last = false};
  EXPECT_EQ(*read_volume_page(json_text_of(page)), page);
  const VolumePage last{.version = kDigest};
  EXPECT_EQ(*read_volume_page(json_text_of(last)), last);
}

TEST(VolumeCopy, APageNamesFilesBelowTheVolumeInOrderAndNoMoreThanItMay) {
  VolumePage page{.version = kDigest,
                  .files = {{"a", Bytes(1), kDigest}, {"b", Bytes(2), kDigest}}};
  const std::string text = json_text_of(page);
  for (const char* path : {"../b", "/etc/passwd", "b/../../c", "", "b//c", "a"}) {
    EXPECT_FALSE(read_volume_page(replaced(text, "\"b\"", "\"" + std::string(path) + "\"")).ok())
        << path;
  }
  EXPECT_FALSE(read_volume_page(replaced(text, "true", "1")).ok());
  EXPECT_FALSE(read_volume_page(json_text_of({.version = kDigest, .is_last = false})).ok())
      << "asking for the next page would not end";
  for (size_t each = 0; each < limits::kVolumeFilesPerPage; ++each) {
    page.files.push_back({"c" + std::to_string(1'000'000 + each), Bytes(1), kDigest});
  }
  EXPECT_FALSE(read_volume_page(json_text_of(page)).ok());
}

}  // namespace
}  // namespace lambent::frontend
