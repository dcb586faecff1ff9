#include "core/archive/entry_path.h"

#include <gtest/gtest.h>

namespace lambent::archive {
namespace {

TEST(EntryPath, IsBroughtToOneForm) {
  EXPECT_EQ(*normalize_entry_path("a//b/./c/"), "a/b/c");
  EXPECT_EQ(*normalize_entry_path("./"), "");
  EXPECT_EQ(*normalize_entry_path("..."), "...");
}

TEST(EntryPath, ThatLeadsOutsideIsRefused) {
  for (const char* path : {"/etc/passwd", "..", "a/../../b", "a/..", "../a"}) {
    EXPECT_FALSE(normalize_entry_path(path).ok()) << path;
  }
  EXPECT_FALSE(normalize_entry_path(std::string("a\0b", 3)).ok());
  EXPECT_FALSE(normalize_entry_path(std::string(256, 'a')).ok());
  EXPECT_FALSE(normalize_entry_path(std::string(2049, '/')).ok());
}

TEST(LinkTarget, MayGoUpOnlyToTheTop) {
  EXPECT_TRUE(check_link_target("a/b/c", "../../x").ok());
  EXPECT_TRUE(check_link_target("a", "b/c").ok());
  EXPECT_FALSE(check_link_target("a/b/c", "../../../x").ok());
  EXPECT_FALSE(check_link_target("a", "..").ok());
  EXPECT_FALSE(check_link_target("a", "/etc/passwd").ok());
  EXPECT_FALSE(check_link_target("a", "").ok());
}

TEST(LinkTarget, MayNotGoUpAfterANameThatCouldBeALinkItself) {
  EXPECT_FALSE(check_link_target("a/b/c", "d/../../x").ok());
}

TEST(EntryTree, TakesEachNameOnceAndNothingBelowAFile) {
  EntryTree tree;
  EXPECT_TRUE(tree.add("a/b", EntryType::kFile).ok());
  EXPECT_TRUE(tree.add("a", EntryType::kFolder).ok());
  EXPECT_TRUE(tree.add("l", EntryType::kLink).ok());
  EXPECT_FALSE(tree.add("a/b", EntryType::kFile).ok());
  EXPECT_FALSE(tree.add("a", EntryType::kLink).ok());
  EXPECT_FALSE(tree.add("a/b/c", EntryType::kFile).ok());
  EXPECT_FALSE(tree.add("l/c", EntryType::kFile).ok());
  EXPECT_FALSE(tree.add("l", EntryType::kFolder).ok());
}

}  // namespace
}  // namespace lambent::archive
