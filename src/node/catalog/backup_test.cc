#include "node/catalog/backup.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "node/catalog/database.h"
#include "node/catalog/testing/testing.h"

namespace lambent::catalog {
namespace {

class BackupTest : public testing::Test {
 protected:
  BackupTest() : catalog_(std::move(*Catalog::open(path_, {}, loop_.post()))) {}

  void put(const std::string& name) {
    ASSERT_TRUE(loop_
                    .await<FunctionSpec>(
                        [&](auto done) { catalog_->put_function(sample_function(name), done); })
                    .ok());
  }
  size_t functions_in(const std::string& path) {
    TestLoop loop;
    const auto copy = std::move(*Catalog::open(path, {}, loop.post()));
    return copy->load_all()->functions.size();
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_ / "catalog.db";
  TestLoop loop_;
  std::unique_ptr<Catalog> catalog_;
};

TEST_F(BackupTest, ACopyHasWhatWasCommittedWhileTheCatalogIsOpen) {
  put("a");
  ASSERT_TRUE(copy_database(path_, folder_ / "one.db").ok());
  put("b");
  ASSERT_TRUE(copy_database(path_, folder_ / "two.db").ok());
  put("c");
  EXPECT_EQ(functions_in(folder_ / "one.db"), 1u);
  EXPECT_EQ(functions_in(folder_ / "two.db"), 2u);
  EXPECT_EQ(catalog_->load_all()->functions.size(), 3u);
  struct stat about {};
  ASSERT_EQ(::stat((folder_ / "one.db").c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777U, 0600U);
}

TEST_F(BackupTest, NothingIsOverwrittenAndNothingIsMadeUp) {
  std::ofstream(folder_ / "there.db") << "x";
  EXPECT_EQ(copy_database(path_, folder_ / "there.db").error().code, ErrorCode::kAlreadyExists);
  EXPECT_EQ(copy_database(folder_ / "nothing.db", folder_ / "new.db").error().code,
            ErrorCode::kNotFound);
  EXPECT_FALSE(std::ifstream(folder_ / "nothing.db").good());
}

TEST_F(BackupTest, ADamagedOrANewerDatabaseIsTold) {
  std::ofstream(folder_ / "damaged.db") << std::string(10'000, 'x');
  EXPECT_EQ(check_database(folder_ / "damaged.db").error().code, ErrorCode::kDataLoss);
  ASSERT_TRUE(copy_database(path_, folder_ / "newer.db").ok());
  EXPECT_TRUE(check_database(folder_ / "newer.db").ok());
  {
    auto database = Database::open(folder_ / "newer.db");
    ASSERT_TRUE((*database)->run("INSERT INTO schema_version VALUES (1000)").ok());
  }
  EXPECT_EQ(check_database(folder_ / "newer.db").error().code, ErrorCode::kFailedPrecondition);
}

}  // namespace
}  // namespace lambent::catalog
