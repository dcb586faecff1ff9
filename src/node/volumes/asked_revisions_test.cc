#include "node/volumes/asked_revisions.h"

#include <gtest/gtest.h>

namespace lambent::volumes {
namespace {

TEST(AskedRevisionsTest, ARevisionIsKnownUntilTheNextOneOfItsFunction) {
  AskedRevisions asked;
  EXPECT_FALSE(asked.has(FunctionId(1), 1));
  asked.note(FunctionId(1), 1);
  EXPECT_TRUE(asked.has(FunctionId(1), 1));
  EXPECT_FALSE(asked.has(FunctionId(2), 1));
  asked.note(FunctionId(1), 2);
  EXPECT_FALSE(asked.has(FunctionId(1), 1));
  EXPECT_TRUE(asked.has(FunctionId(1), 2));
}

TEST(AskedRevisionsTest, FunctionsThatComeAndGoTakeNoMoreThanTheLimit) {
  AskedRevisions asked;
  for (uint32_t id = 1; id <= 3 * AskedRevisions::kMost; ++id) {
    asked.note(FunctionId(id), 1);
    ASSERT_LE(asked.size(), AskedRevisions::kMost);
    ASSERT_TRUE(asked.has(FunctionId(id), 1));
  }
  // A new revision of a function that is known takes no place.
  const size_t before = asked.size();
  for (uint64_t revision = 2; revision < 5; ++revision) {
    asked.note(FunctionId(3 * AskedRevisions::kMost), revision);
  }
  EXPECT_EQ(asked.size(), before);
}

}  // namespace
}  // namespace lambent::volumes
