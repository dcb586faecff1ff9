#include "node/catalog/migrations.h"

#include <gtest/gtest.h>

#include "node/catalog/catalog.h"
#include "node/catalog/testing/testing.h"

namespace lambent::catalog {
namespace {

std::string schema_of(Database& database) {
  std::string schema;
  auto rows = database.prepare("SELECT name, sql FROM sqlite_master ORDER BY name");
  while (*rows->next()) schema += rows->column_text(0) + ": " + rows->column_text(1) + "\n";
  return schema;
}

// A catalog as a worker of then left it, with these rows.
void make_older(const std::string& path, size_t version, const std::string& insertion) {
  auto older = Database::open(path);
  ASSERT_TRUE(migrate(**older, version).ok());
  ASSERT_TRUE((*older)->run(insertion).ok());
}

std::string async_invocations(const std::string& rows) {
  return "INSERT INTO async_invocations (tenant, id, function_name, payload, content_type, "
         "client_context, trace_id, idempotency_key, submitted_at_ns, attempts, state) VALUES " +
         rows;
}

TEST(Migrations, EveryOlderVersionReachesTheSchemaThatAnEmptyOneReaches) {
  const TemporaryFolder folder;
  auto fresh = Database::open(folder / "fresh.db");
  ASSERT_TRUE(migrate(**fresh).ok());
  for (size_t version = 0; version <= migrations().size(); ++version) {
    auto older = Database::open(folder / std::to_string(version));
    ASSERT_TRUE(migrate(**older, version).ok());
    EXPECT_EQ(*schema_version(**older), static_cast<int64_t>(version));
    ASSERT_TRUE(migrate(**older).ok());
    EXPECT_EQ(schema_of(**older), schema_of(**fresh)) << "from version " << version;
  }
}

TEST(Migrations, DataOfAnOlderVersionIsKept) {
  const TemporaryFolder folder;
  make_older(
      folder / "catalog.db", 1,
      "INSERT INTO functions (tenant, name, revision, kind, runtime, runtime_name, handler, "
      "description, role, timeout_ns, memory_bytes, gpu_memory_bytes, gpu_launch_mode, "
      "weight, max_concurrency, code_sha256, code_bytes, last_modified_ns) VALUES (1, 'old', "
      "4, 'handler', 'provided', 'provided', '', '', '', 1000000000, 1, 0, 'compute', 1.0, "
      "1, '', 0, 0)");
  TestLoop loop;
  auto catalog = Catalog::open(folder / "catalog.db", {}, loop.post());
  ASSERT_TRUE(catalog.ok());
  EXPECT_EQ((*catalog)->load_all()->functions.at(0).name.name, "old");
}

TEST(Migrations, WhatInvocationsOfBeforeTakeIsCounted) {
  const TemporaryFolder folder;
  make_older(folder / "catalog.db", 29,
             async_invocations("(3, randomblob(16), 'f', zeroblob(100), '', 'abc', '', '', 0, 0, "
                               "'queued'), (3, randomblob(16), 'f', zeroblob(20), '', '', '', '', "
                               "0, 0, 'queued')"));
  TestLoop loop;
  auto catalog = Catalog::open(folder / "catalog.db", {}, loop.post());
  ASSERT_TRUE(catalog.ok());
  ASSERT_TRUE((*catalog)->load_all().ok());
  EXPECT_EQ((*catalog)->async_bytes(TenantId(3)),
            limits::kAsyncOverhead + limits::kAsyncOverhead + Bytes(123));
}

TEST(Migrations, KeysOfInvocationsOfBeforeLoseTheNumberOfTheirTenant) {
  const TemporaryFolder folder;
  make_older(folder / "catalog.db", 30,
             async_invocations("(13, randomblob(16), 'f', '', '', '', '', '13/f/sdk/1/2/3', 0, 0, "
                               "'queued'), (13, randomblob(16), 'f', '', '', '', '', '', 0, 0, "
                               "'queued')"));
  TestLoop loop;
  auto catalog = Catalog::open(folder / "catalog.db", {}, loop.post());
  ASSERT_TRUE(catalog.ok());
  const auto pending = (*catalog)->pending_async(0, 10);
  ASSERT_EQ(pending->size(), 2u);
  EXPECT_EQ(pending->at(0).request.idempotency_key, "f/sdk/1/2/3");
  EXPECT_EQ(pending->at(1).request.idempotency_key, "");
}

TEST(Migrations, ADatabaseOfANewerVersionIsRefused) {
  const TemporaryFolder folder;
  {
    auto database = Database::open(folder / "catalog.db");
    ASSERT_TRUE(migrate(**database).ok());
    ASSERT_TRUE((*database)->run("INSERT INTO schema_version VALUES (1000)").ok());
  }
  TestLoop loop;
  const auto opened = Catalog::open(folder / "catalog.db", {}, loop.post());
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_NE(opened.error().message.find("newer"), std::string::npos);
}

TEST(Migrations, EveryTableOfATenantIsKeyedByIt) {
  const TemporaryFolder folder;
  auto database = Database::open(folder / "catalog.db");
  ASSERT_TRUE(migrate(**database).ok());
  auto tables = (*database)->prepare(
      "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name "
      "NOT IN ('schema_version', 'devices', 'tenants') AND NOT EXISTS (SELECT 1 FROM "
      "pragma_table_info(sqlite_master.name) AS "
      "c WHERE c.name = 'tenant' AND c.\"notnull\" = 1)");
  ASSERT_TRUE(tables.ok());
  EXPECT_FALSE(*tables->next()) << "without a tenant: " << tables->column_text(0);
}

}  // namespace
}  // namespace lambent::catalog
