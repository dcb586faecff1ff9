// Versions, aliases and revisions come back as they were after a restart.
#include "node/catalog/version_table.h"

#include <gtest/gtest.h>

#include "node/catalog/testing/testing.h"

namespace lambent::catalog {
namespace {

class VersionTable : public testing::Test {
 protected:
  VersionTable() { reopen(); }
  void reopen() {
    catalog_.reset();
    auto opened = Catalog::open(path_, {}, loop_.post());
    ASSERT_TRUE(opened.ok()) << to_string(opened.error());
    catalog_ = std::move(*opened);
  }
  FunctionSpec put(FunctionSpec spec) {
    return loop_.await<FunctionSpec>([&](auto done) { catalog_->put_function(spec, done); })
        .value();
  }
  Result<FunctionSpec> publish(const FunctionSpec& spec, std::optional<uint64_t> number = {}) {
    return loop_.await<FunctionSpec>(
        [&](auto done) { catalog_->publish_version(spec, number, done); });
  }
  Result<void> remove(const FunctionName& name) {
    return loop_.await<void>([&](auto done) { catalog_->remove_function(name, done); });
  }
  Result<void> put(const Alias& alias) {
    return loop_.await<void>([&](auto done) { catalog_->put_alias(alias, done); });
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_ / "catalog.db";
  TestLoop loop_;
  std::unique_ptr<Catalog> catalog_;
};

TEST_F(VersionTable, AVersionIsAFunctionOfItsOwnAndItsNumberIsNeverUsedAgain) {
  const FunctionSpec function = put(sample_function("f"));
  const FunctionSpec first = publish(function).value();
  EXPECT_EQ(first.name.name, "f:1");
  EXPECT_NE(first.id, function.id);
  EXPECT_EQ(publish(function)->name.name, "f:2");
  ASSERT_TRUE(remove({kDefaultTenant, "f:2"}).ok());
  reopen();
  EXPECT_EQ(publish(function)->name.name, "f:3");
  const Snapshot snapshot = catalog_->load_all().value();
  ASSERT_EQ(snapshot.functions.size(), 3u);
  EXPECT_EQ(snapshot.functions[1], first);
  EXPECT_EQ(publish(sample_function("gone")).error().code, ErrorCode::kNotFound);
}

TEST_F(VersionTable, VersionsOfAnotherNodeComeInAnyOrderUnderTheirNumbers) {
  const FunctionSpec function = put(sample_function("f"));
  const auto keep = [&](const FunctionSpec& spec, uint64_t number) {
    return loop_.await<FunctionSpec>(
        [&](auto done) { catalog_->keep_version(spec, number, done); });
  };
  EXPECT_EQ(keep(function, 5)->name.name, "f:5");
  EXPECT_EQ(keep(function, 2)->name.name, "f:2");
  EXPECT_EQ(publish(function)->name.name, "f:6");
  EXPECT_EQ(keep(sample_function("gone"), 1).error().code, ErrorCode::kNotFound);
}

TEST_F(VersionTable, ANumberThatIsAskedForIsAboveAllThatWereUsed) {
  const FunctionSpec function = put(sample_function("f"));
  EXPECT_EQ(publish(function, 3)->name.name, "f:3");
  EXPECT_EQ(publish(function)->name.name, "f:4");
  ASSERT_TRUE(publish(function, 7).ok());
  ASSERT_TRUE(remove({kDefaultTenant, "f:7"}).ok());
  for (const uint64_t used : {uint64_t{2}, uint64_t{4}, uint64_t{7}}) {
    const auto refused = publish(function, used);
    ASSERT_FALSE(refused.ok()) << used;
    EXPECT_EQ(refused.error().code, ErrorCode::kFailedPrecondition);
  }
  EXPECT_EQ(publish(function)->name.name, "f:8");
}

TEST_F(VersionTable, AFunctionGoesWithItsVersionsAliasesAndRevisions) {
  const FunctionSpec function = put(sample_function("f"));
  put(sample_function("f-2"));
  put(sample_function("f2"));
  ASSERT_TRUE(publish(function).ok());
  ASSERT_TRUE(put(Alias{.function = function.name,
                        .name = "prod",
                        .description = "d",
                        .version = "1",
                        .second = "2",
                        .second_share = 0.5,
                        .provisioned = 3,
                        .revision = 4})
                  .ok());
  reopen();
  Snapshot snapshot = catalog_->load_all().value();
  ASSERT_EQ(snapshot.aliases.size(), 1u);
  EXPECT_EQ(snapshot.aliases[0].function, function.name);
  EXPECT_EQ(snapshot.aliases[0].second_share, 0.5);
  EXPECT_EQ(snapshot.aliases[0].provisioned, 3u);
  EXPECT_EQ(snapshot.aliases[0].revision, 4u);
  ASSERT_TRUE(remove(function.name).ok());
  snapshot = catalog_->load_all().value();
  EXPECT_EQ(snapshot.functions.size(), 2u);
  EXPECT_TRUE(snapshot.aliases.empty());
  EXPECT_EQ(snapshot.revisions.size(), 2u);
  put(sample_function("f"));
  EXPECT_EQ(publish(sample_function("f"))->name.name, "f:1");
}

TEST_F(VersionTable, OnlyTheLastRevisionsAreKept) {
  FunctionSpec function = put(sample_function("f"));
  for (size_t i = 0; i < kRevisionsKept + 2; ++i) {
    ++function.revision;
    put(function);
  }
  reopen();
  const Snapshot snapshot = catalog_->load_all().value();
  ASSERT_EQ(snapshot.revisions.size(), kRevisionsKept);
  EXPECT_EQ(snapshot.revisions.back(), function);
}

TEST_F(VersionTable, ADeploymentUnderWayIsFoundByTheNextWorker) {
  const DeploymentRecord record{.spec = sample_function("f"), .creates = true, .failure = ""};
  ASSERT_TRUE(loop_.await<void>([&](auto done) { catalog_->put_deployment(record, done); }).ok());
  reopen();
  EXPECT_EQ(catalog_->load_all()->deployments, std::vector{record});
  ASSERT_TRUE(
      loop_.await<void>([&](auto done) { catalog_->remove_deployment(record.spec.name, done); })
          .ok());
  EXPECT_TRUE(catalog_->load_all()->deployments.empty());
}

}  // namespace
}  // namespace lambent::catalog
