// Statements of SQLite that are used again: nothing of one use is left for the next.
#include "node/catalog/database.h"

#include <gtest/gtest.h>

#include "node/catalog/testing/testing.h"

namespace lambent::catalog {
namespace {

class DatabaseTest : public testing::Test {
 protected:
  DatabaseTest() { run("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)"); }

  void run(const std::string& sql) {
    const auto done = database_->run(sql);
    ASSERT_TRUE(done.ok()) << to_string(done.error());
  }
  Result<void> insert(int64_t a, const char* b) {
    Statement statement = database_->prepare("INSERT INTO t (a, b) VALUES (?1, ?2)").value();
    statement.bind(1, a);
    if (b != nullptr) statement.bind_text(2, b);
    return statement.run();
  }
  std::string read(int64_t a) {
    Statement statement = database_->prepare("SELECT b FROM t WHERE a = ?1").value();
    if (!statement.bind(1, a).next().value()) return "nothing";
    return statement.column_is_null(0) ? "null" : statement.column_text(0);
  }

  TemporaryFolder folder_;
  std::unique_ptr<Database> database_ = Database::open(folder_ / "test.db").value();
};

TEST_F(DatabaseTest, AStatementHasNoValuesOfItsLastUse) {
  ASSERT_TRUE(insert(1, "one").ok());
  ASSERT_TRUE(insert(2, nullptr).ok());
  EXPECT_EQ(read(1), "one");
  EXPECT_EQ(read(2), "null");
  EXPECT_EQ(read(3), "nothing");
}

TEST_F(DatabaseTest, AStatementThatFailedServesAgain) {
  ASSERT_TRUE(insert(1, "one").ok());
  EXPECT_EQ(insert(1, "again").error().code, ErrorCode::kAlreadyExists);
  EXPECT_TRUE(insert(2, "two").ok());
  EXPECT_EQ(read(1) + read(2), "onetwo");
}

TEST_F(DatabaseTest, TwoOfTheSameWordsAreAtWorkAtOnce) {
  for (int64_t each = 0; each < 3; ++each) ASSERT_TRUE(insert(each, "x").ok());
  const char* all = "SELECT a FROM t ORDER BY a";
  Statement first = database_->prepare(all).value();
  ASSERT_TRUE(first.next().value());
  ASSERT_TRUE(first.next().value());
  {
    Statement second = database_->prepare(all).value();
    ASSERT_TRUE(second.next().value());
    EXPECT_EQ(second.column_int(0), 0);
  }
  EXPECT_EQ(first.column_int(0), 1);
  ASSERT_TRUE(first.next().value());
  EXPECT_EQ(first.column_int(0), 2);
}

// One whose rows were not all read would keep the log from being written back, and a table from
// being dropped.
TEST_F(DatabaseTest, AStatementThatWasNotReadToItsEndHoldsNothing) {
  for (int64_t each = 0; each < 3; ++each) ASSERT_TRUE(insert(each, "x").ok());
  ASSERT_TRUE(database_->prepare("SELECT a FROM t")->next().value());
  run("DROP TABLE t");
  run("CREATE TABLE t (b TEXT, a INTEGER)");
  ASSERT_TRUE(insert(7, "of the new table").ok());
  EXPECT_EQ(read(7), "of the new table");
}

TEST_F(DatabaseTest, TransactionsGoOnWithKeptStatements) {
  for (int64_t each = 0; each < 300; ++each) {
    ASSERT_TRUE(database_->begin().ok());
    ASSERT_TRUE(insert(each, "x").ok());
    EXPECT_TRUE(database_->in_transaction());
    run(each % 2 == 0 ? "COMMIT" : "ROLLBACK");
    // More words than are kept.
    run("UPDATE t SET b = 'y" + std::to_string(each) + "' WHERE a = " + std::to_string(each));
  }
  EXPECT_EQ(read(298), "y298");
  EXPECT_EQ(read(299), "nothing");
  EXPECT_EQ(database_->run("ROLLBACK").error().code, ErrorCode::kInternal);
}

}  // namespace
}  // namespace lambent::catalog
