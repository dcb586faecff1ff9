#include "node/catalog/backup.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "core/base/fd.h"
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

// What lies in the folder, and the bytes of the database.
std::map<std::string, std::string> files_in(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& each : std::filesystem::directory_iterator(folder)) {
    const auto bytes = read_file(each.path(), 64 * 1024 * 1024);
    files[each.path().filename()] = bytes.ok() ? *bytes : to_string(bytes.error());
  }
  return files;
}

TEST_F(BackupTest, TheSchemaOfALargeOrOpenDatabaseIsToldAndNothingChanges) {
  EXPECT_EQ(check_schema(folder_ / "nothing.db").error().code, ErrorCode::kNotFound);
  put("a");
  EXPECT_TRUE(check_schema(path_).ok()) << "while a worker has it open";
  const std::string folder = folder_ / "some # 100% folder?";
  std::filesystem::create_directory(folder);
  ASSERT_TRUE(copy_database(path_, folder + "/copy.db").ok());
  for (const char* name : {"/copy.db-wal", "/copy.db-shm"}) std::filesystem::remove(folder + name);
  ASSERT_EQ(::chmod((folder + "/copy.db").c_str(), 0640), 0);
  const auto before = files_in(folder);
  ASSERT_EQ(before.size(), 1U);
  EXPECT_TRUE(check_schema(folder + "/copy.db").ok());
  std::ofstream(folder + "/empty.db").flush();
  EXPECT_TRUE(check_schema(folder + "/empty.db").ok());
  EXPECT_EQ(std::filesystem::file_size(folder + "/empty.db"), 0U);
  std::filesystem::remove(folder + "/empty.db");
  EXPECT_EQ(files_in(folder), before);
  struct stat about {};
  ASSERT_EQ(::stat((folder + "/copy.db").c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777U, 0640U);

  std::ofstream(folder + "/damaged.db") << std::string(10'000, 'x');
  EXPECT_EQ(check_schema(folder + "/damaged.db").error().code, ErrorCode::kDataLoss);
  const auto newer = Database::open(folder + "/copy.db");
  ASSERT_TRUE((*newer)->run("INSERT INTO schema_version VALUES (1000)").ok());
  EXPECT_EQ(check_schema(folder + "/copy.db").error().code, ErrorCode::kFailedPrecondition)
      << "it is in the log beside the file";
}

// What is behind the schema is not looked at: that would take as long as the database is large.
TEST_F(BackupTest, TheSchemaIsToldWithoutReadingAllOfTheDatabase) {
  for (int i = 0; i < 40; ++i) put("function-" + std::to_string(i));
  const std::string copy = folder_ / "copy.db";
  ASSERT_TRUE(copy_database(path_, copy).ok());
  for (const char* name : {"-wal", "-shm"}) std::filesystem::remove(copy + name);
  const auto size = std::filesystem::file_size(copy);
  {
    std::fstream file(copy, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(size - 4096));
    file << std::string(4096, 'x');
  }
  ASSERT_EQ(check_database(copy).error().code, ErrorCode::kDataLoss);
  EXPECT_TRUE(check_schema(copy).ok());
}

}  // namespace
}  // namespace lambent::catalog
