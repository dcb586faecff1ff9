#include "edge/inference/shared_memory_regions.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>

namespace lambent::inference {
namespace {

using testing::HasSubstr;

constexpr TenantId kTeam{7};
constexpr TenantId kOther{8};
constexpr uint64_t kHuge = std::numeric_limits<uint64_t>::max();

class SharedMemoryRegionsTest : public testing::Test {
 protected:
  SharedMemoryRegionsTest() {
    write("frames", "0123456789");
    regions_.emplace(folder_);
  }
  ~SharedMemoryRegionsTest() override { std::filesystem::remove_all(folder_); }

  static std::string new_folder() {
    char name[] = "/tmp/lambent-regions-XXXXXX";
    return mkdtemp(name);
  }
  std::string path(const std::string& file) const { return folder_ + "/" + file; }
  void write(const std::string& file, const std::string& content) const {
    std::ofstream(path(file)) << content;
  }
  std::string content(const std::string& file) const {
    std::ifstream stream(path(file));
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  Result<void> add(RegionSpec spec, TenantId tenant = kTeam) {
    return regions_->add(tenant, std::move(spec), owners_);
  }
  ErrorCode refusal_of(RegionSpec spec) {
    const auto added = add(std::move(spec));
    return added.ok() ? ErrorCode::kUnknown : added.error().code;
  }
  SharedMemoryRegions::Region region(const std::string& name) const {
    return *regions_->find(kTeam, name);
  }

  const std::string folder_ = new_folder();
  std::vector<uid_t> owners_ = {geteuid()};
  std::optional<SharedMemoryRegions> regions_;
};

TEST_F(SharedMemoryRegionsTest, BytesGoOutOfTheFileAndIntoIt) {
  ASSERT_TRUE(add({.name = "a", .key = "/frames", .offset = 2, .byte_size = 6}).ok());
  std::string bytes = "before ";
  ASSERT_TRUE(region("a")->read(1, 3, bytes).ok());
  EXPECT_EQ(bytes, "before 345");
  ASSERT_TRUE(region("a")->write(4, "xy").ok());
  EXPECT_EQ(content("frames"), "012345xy89");
}

TEST_F(SharedMemoryRegionsTest, NothingBeyondARegionIsTouched) {
  ASSERT_TRUE(add({.name = "a", .key = "frames", .offset = 2, .byte_size = 6}).ok());
  EXPECT_TRUE(region("a")->check(0, 6).ok());
  EXPECT_TRUE(region("a")->check(6, 0).ok());
  for (const auto& [offset, size] : std::vector<std::pair<uint64_t, uint64_t>>{
           {0, 7}, {1, 6}, {7, 0}, {kHuge, 1}, {1, kHuge}, {kHuge, kHuge}}) {
    std::string bytes;
    EXPECT_EQ(region("a")->check(offset, size).error().code, ErrorCode::kInvalidArgument);
    EXPECT_FALSE(region("a")->read(offset, size, bytes).ok());
  }
  EXPECT_THAT(region("a")->write(5, "xy").error().message, HasSubstr("'a' has 6 bytes"));
  EXPECT_EQ(content("frames"), "0123456789");
}

TEST_F(SharedMemoryRegionsTest, AFileThatBecameShorterIsAnError) {
  ASSERT_TRUE(add({.name = "a", .key = "frames", .byte_size = 10}).ok());
  ASSERT_EQ(truncate(path("frames").c_str(), 4), 0);
  std::string bytes;
  EXPECT_TRUE(region("a")->read(0, 4, bytes).ok());
  EXPECT_THAT(region("a")->read(2, 4, bytes).error().message, HasSubstr("is shorter than"));
  EXPECT_EQ(region("a")->write(2, "xxxx").error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(content("frames"), "0123");
}

TEST_F(SharedMemoryRegionsTest, ARegionLiesInItsFile) {
  for (const auto& [offset, size] : std::vector<std::pair<uint64_t, uint64_t>>{
           {0, 0}, {0, 11}, {11, 1}, {10, 1}, {1, kHuge}, {kHuge, 1}, {kHuge, kHuge}}) {
    EXPECT_EQ(refusal_of({.name = "a", .key = "frames", .offset = offset, .byte_size = size}),
              ErrorCode::kInvalidArgument)
        << offset << " " << size;
  }
  EXPECT_FALSE(regions_->has_any(kTeam));
}

TEST_F(SharedMemoryRegionsTest, KeysAreNamesInOneFolder) {
  EXPECT_EQ(*file_of_key("/a"), "a");
  EXPECT_EQ(*file_of_key("a"), "a");
  EXPECT_TRUE(file_of_key(std::string(254, 'a')).ok());
  for (const std::string& key :
       {std::string(), std::string("/"), std::string("//a"), std::string("a/b"), std::string(".."),
        std::string("/."), std::string("/../etc/passwd"), std::string("a\0b", 3),
        std::string(255, 'a'), std::string("/sem.lock")}) {
    EXPECT_FALSE(file_of_key(key).ok()) << key;
    EXPECT_EQ(refusal_of({.name = "a", .key = key, .byte_size = 1}), ErrorCode::kInvalidArgument);
  }
}

TEST_F(SharedMemoryRegionsTest, OnlyFilesOfUsersWhoAreNamedAreOpened) {
  owners_ = {geteuid() + 1};
  const auto others = add({.name = "a", .key = "frames", .byte_size = 1});
  const auto absent = add({.name = "a", .key = "frame", .byte_size = 1});
  EXPECT_EQ(others.error().code, ErrorCode::kNotFound);
  // Whether it is there is not told.
  EXPECT_EQ(others.error().message.substr(0, 30), absent.error().message.substr(0, 30));
  owners_ = {};
  EXPECT_EQ(refusal_of({.name = "a", .key = "frames", .byte_size = 1}), ErrorCode::kNotFound);
}

TEST_F(SharedMemoryRegionsTest, WhatIsNoFileIsRefused) {
  ASSERT_EQ(symlink("frames", path("link").c_str()), 0);
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  ASSERT_EQ(mkdir(path("folder").c_str(), 0700), 0);
  for (const char* key : {"link", "pipe", "folder"}) {
    EXPECT_EQ(refusal_of({.name = "a", .key = key, .byte_size = 1}), ErrorCode::kNotFound) << key;
  }
}

TEST_F(SharedMemoryRegionsTest, RegionsAreTheirTenants) {
  const RegionSpec spec{.name = "a", .key = "/frames", .byte_size = 10};
  ASSERT_TRUE(add(spec).ok());
  EXPECT_EQ(regions_->find(kOther, "a").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(regions_->list(kTeam), std::vector{spec});
  EXPECT_TRUE(regions_->list(kOther).empty());
  regions_->remove(kOther, "a");
  regions_->remove_all(kOther);
  EXPECT_EQ(refusal_of(spec), ErrorCode::kAlreadyExists);
  ASSERT_TRUE(add(spec, kOther).ok());
  const auto kept = region("a");
  regions_->remove(kTeam, "a");
  EXPECT_FALSE(regions_->has_any(kTeam));
  EXPECT_TRUE(regions_->has_any(kOther));
  std::string bytes;
  EXPECT_TRUE(kept->read(0, 10, bytes).ok());
}

TEST_F(SharedMemoryRegionsTest, RangesOfOneFileOverlapByWhicheverRegion) {
  write("other", "0123456789");
  ASSERT_TRUE(add({.name = "a", .key = "frames", .offset = 0, .byte_size = 8}).ok());
  ASSERT_TRUE(add({.name = "b", .key = "frames", .offset = 4, .byte_size = 4}).ok());
  ASSERT_TRUE(add({.name = "c", .key = "other", .offset = 4, .byte_size = 4}).ok());
  EXPECT_TRUE(region("a")->overlaps(3, 2, *region("b"), 0, 1));
  EXPECT_FALSE(region("a")->overlaps(2, 2, *region("b"), 0, 4));
  EXPECT_FALSE(region("b")->overlaps(2, 2, *region("a"), 0, 6));
  EXPECT_FALSE(region("a")->overlaps(4, 0, *region("b"), 0, 4));
  EXPECT_FALSE(region("b")->overlaps(0, 4, *region("c"), 0, 4));
}

TEST_F(SharedMemoryRegionsTest, NamesAndNumbersAreBounded) {
  for (const std::string& name : {std::string(), std::string(256, 'a'), std::string("a\nb")}) {
    EXPECT_EQ(refusal_of({.name = name, .key = "frames", .byte_size = 1}),
              ErrorCode::kInvalidArgument);
  }
  for (size_t i = 0; i < kMostRegionsOfTenant; ++i) {
    ASSERT_TRUE(add({.name = std::to_string(i), .key = "frames", .byte_size = 1}).ok());
  }
  EXPECT_EQ(refusal_of({.name = "a", .key = "frames", .byte_size = 1}),
            ErrorCode::kResourceExhausted);
  EXPECT_TRUE(add({.name = "a", .key = "frames", .byte_size = 1}, kOther).ok());
}

}  // namespace
}  // namespace lambent::inference
