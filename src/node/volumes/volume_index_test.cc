#include "node/volumes/volume_index.h"

#include <gtest/gtest.h>

#include "core/domain/limits.h"

namespace lambent::volumes {
namespace {

VolumeFile file(std::string path, uint64_t size = 10, std::string sha256 = "a") {
  return {.path = std::move(path), .size = Bytes(size), .sha256 = std::move(sha256)};
}

std::vector<std::string> paths_of(const std::vector<VolumeFile>& files) {
  std::vector<std::string> paths;
  for (const VolumeFile& each : files) paths.push_back(each.path);
  return paths;
}

TEST(VolumeIndex, CountsAContentOnceHoweverManyFilesHaveIt) {
  VolumeIndex index;
  index.put(file("one", 10, "x"));
  index.put(file("two", 10, "x"));
  index.put(file("three", 7, "y"));
  EXPECT_EQ(index.files(), 3u);
  EXPECT_EQ(index.size(), Bytes(17));
  index.remove("one");
  EXPECT_TRUE(index.has_content("x"));
  EXPECT_EQ(index.size(), Bytes(17));
  index.remove("two");
  EXPECT_FALSE(index.has_content("x"));
  EXPECT_EQ(index.size(), Bytes(7));
}

TEST(VolumeIndex, CountsTheNewContentInPlaceOfTheOldOne) {
  VolumeIndex index;
  index.put(file("one", 10, "x"));
  index.put(file("one", 4, "y"));
  EXPECT_EQ(index.files(), 1u);
  EXPECT_EQ(index.size(), Bytes(4));
  EXPECT_FALSE(index.has_content("x"));
}

TEST(VolumeIndex, HasTheSameVersionForTheSameFilesHoweverTheyCame) {
  VolumeIndex one, other;
  EXPECT_EQ(one.version(), std::string(64, '0'));
  one.put(file("a", 1, "x"));
  const std::string only_a = one.version();
  one.put(file("b", 2, "y"));
  other.put(file("b", 7, "z"));
  other.put(file("c", 3, "z"));
  other.put(file("b", 2, "y"));
  EXPECT_NE(other.version(), one.version());
  other.put(file("a", 1, "x"));
  other.remove("c");
  EXPECT_EQ(other.version(), one.version());
  one.remove("b");
  EXPECT_EQ(one.version(), only_a);
  one.put(file("a", 1, "y"));
  EXPECT_NE(one.version(), only_a) << "another content";
}

TEST(VolumeIndex, DoesNotPutAFileWhereAFolderIsNorBelowAFile) {
  VolumeIndex index;
  index.put(file("models/a"));
  EXPECT_EQ(index.can_put("models").error().code, ErrorCode::kFailedPrecondition);
  EXPECT_EQ(index.can_put("models/a/b").error().code, ErrorCode::kFailedPrecondition);
  EXPECT_TRUE(index.can_put("models/a").ok()) << "it may be replaced";
  EXPECT_TRUE(index.can_put("models-b").ok()) << "a name that only begins like the folder's";
}

TEST(VolumeIndex, RefusesMoreFilesThanAVolumeMayHave) {
  VolumeIndex index;
  for (size_t i = 0; i < limits::kFilesPerVolume; ++i) index.put(file("f" + std::to_string(i)));
  EXPECT_EQ(index.can_put("another").error().code, ErrorCode::kResourceExhausted);
  EXPECT_TRUE(index.can_put("f1").ok());
}

TEST(VolumeIndex, FindsAFileOrWhatIsBelowAFolder) {
  VolumeIndex index;
  for (const char* path : {"a", "a-b", "b/1", "b/c/2", "bc"}) index.put(file(path));
  EXPECT_EQ(index.paths_at("a"), (std::vector<std::string>{"a"}));
  EXPECT_EQ(index.paths_at("b"), (std::vector<std::string>{"b/1", "b/c/2"}));
  EXPECT_TRUE(index.paths_at("b/").empty());
  EXPECT_TRUE(index.paths_at("c").empty());
}

TEST(VolumeIndex, ListsInPagesAndByPrefix) {
  VolumeIndex index;
  for (const char* path : {"a", "b/1", "b/2", "b/3", "c"}) index.put(file(path));
  EXPECT_EQ(paths_of(index.list("", "", 2)), (std::vector<std::string>{"a", "b/1"}));
  EXPECT_EQ(paths_of(index.list("", "b/1", 2)), (std::vector<std::string>{"b/2", "b/3"}));
  EXPECT_EQ(paths_of(index.list("b/", "", 10)), (std::vector<std::string>{"b/1", "b/2", "b/3"}));
  EXPECT_EQ(paths_of(index.list("b/", "b/2", 10)), (std::vector<std::string>{"b/3"}));
  EXPECT_TRUE(index.list("d", "", 10).empty());
}

}  // namespace
}  // namespace lambent::volumes
