#include "node/catalog/shared_catalog.h"

#include <gtest/gtest.h>

#include <atomic>

#include "core/base/time.h"
#include "node/catalog/invocation_archive.h"
#include "node/catalog/postgres_database.h"
#include "node/catalog/shared_schema.h"
#include "node/catalog/testing/postgres_server.h"
#include "node/catalog/testing/testing.h"

namespace lambent::catalog {
namespace {

const InvocationId kOne{1, 2};
const InvocationId kTwo{1, 3};
const Expected kNothing{};
const std::vector<TenantFunction> kOfF{{"default", "f"}};
// Of the node's clock, which is not the database's.
constexpr Duration kNow = seconds(1000);

// The database's clock goes on meanwhile.
void expect_near(Duration instant, Duration expected) {
  EXPECT_NEAR(to_seconds(instant), to_seconds(expected), 20);
}

// The same catalog in SQLite and in PostgreSQL.
class SharedTables : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "sqlite") {
      database_ = std::move(*Database::open(folder_ / "shared.db"));
    } else {
      database_ = postgres("", url());
    }
    if (database_) {
      ASSERT_TRUE(migrate_shared(*database_).ok());
    }
  }

  // A database of PostgreSQL of this test's own; null: skipped.
  std::unique_ptr<Database> postgres(const std::string& lease, const std::string& url) {
    if (url.empty()) return nullptr;
    auto opened = open_postgres({.url = url, .lease = lease, .pause = Duration::zero()}, clock_);
    EXPECT_TRUE(opened.ok());
    return std::move(*opened);
  }
  std::string url() {
    PostgresServer& server = PostgresServer::shared();
    if (!server.there()) return {};
    if (name_.empty()) {
      static std::atomic<int> number = 0;
      name_ = "test" + std::to_string(++number);
      auto first = open_postgres({.url = server.url("postgres")}, clock_);
      EXPECT_TRUE((*first)->run("CREATE DATABASE " + name_).ok());
    }
    return server.url(name_);
  }
  bool skipped() const { return database_ == nullptr; }

  // In a transaction of its own.
  template <typename Work>
  auto commit(Work work) {
    EXPECT_TRUE(database_->begin().ok());
    auto outcome = work(*database_);
    EXPECT_TRUE(database_->run(outcome.ok() ? "COMMIT" : "ROLLBACK").ok());
    return outcome;
  }
  Result<SharedDeployment> put(const SharedFunction& function,
                               const std::optional<Expected>& expected,
                               const std::string& package = "zip") {
    return commit([&](Database& database) {
      return put_shared_function(database, function, expected,
                                 [&]() -> Result<std::string> { return package; });
    });
  }
  SharedContents contents() {
    auto read = read_shared(*database_, UINT64_MAX);
    EXPECT_TRUE(read.ok());
    return read->value_or(SharedContents());
  }
  Result<InvocationId> submit(const Owner& owner, InvocationId id, const std::string& key = "",
                              const std::string& function = "f") {
    SharedInvocation invocation{
        .tenant = "default", .request = {}, .submitted_at = kNow - seconds(5)};
    invocation.request.id = id;
    invocation.request.function.name = function;
    invocation.request.payload = std::string("{\0}", 3);
    invocation.request.idempotency_key = key;
    return commit(
        [&](Database& database) { return put_shared_async(database, owner, invocation, kNow); });
  }
  Result<void> finish(const Owner& owner, InvocationId id,
                      Duration expires_at = kNow + seconds(60)) {
    InvocationResult result{.id = id, .outcome = Outcome::kFunctionError, .payload = "\xff'\\x"};
    result.error = Error{ErrorCode::kAborted, "why"};
    result.device = DeviceId(3);
    return commit([&](Database& database) {
      return finish_shared_async(database, owner, "default", result, expires_at, {}, kNow);
    });
  }

  uint64_t count(const std::string& table) {
    auto ask = database_->prepare("SELECT count(*) FROM " + table);
    EXPECT_TRUE(ask.ok() && ask->next().ok());
    return ask->column_uint(0);
  }

  SystemClock clock_;
  TemporaryFolder folder_;
  std::string name_;
  std::unique_ptr<Database> database_;
  const SharedFunction first_{"default", "f", "d1", "sha1", R"({"it's": "é"})"};
  const SharedFunction second_{"default", "f", "d2", "sha2", "{}"};
  const Owner a_{"a", "a1"};
  const Owner b_{"b", "b1"};
};

INSTANTIATE_TEST_SUITE_P(Kinds, SharedTables, ::testing::Values("sqlite", "postgresql"),
                         [](const auto& kind) { return kind.param; });

#define SKIP_WITHOUT_SERVER() \
  if (skipped()) GTEST_SKIP() << "PostgreSQL is not installed"

TEST_P(SharedTables, EachStepOfTheSchemaLeadsToTheLast) {
  SKIP_WITHOUT_SERVER();
  EXPECT_TRUE(migrate_shared(*database_).ok());  // there is nothing left to do
  EXPECT_TRUE(put(first_, kNothing).ok());
  const bool is_postgres = GetParam() == "postgresql";
  if (is_postgres) {
    EXPECT_TRUE(check_shared_schema(*database_).ok());
  }
  ASSERT_TRUE(database_->run("INSERT INTO shared_schema (version) VALUES (1000)").ok());
  const auto newer = migrate_shared(*database_);
  ASSERT_FALSE(newer.ok());
  EXPECT_EQ(newer.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_FALSE(database_->in_transaction());
  if (!is_postgres) return;
  EXPECT_EQ(check_shared_schema(*database_).error().message,
            "the shared catalog has schema version 1000, made by a newer Lambent; this one knows "
            "up to 2: upgrade this node");
  ASSERT_TRUE(database_->run("DROP TABLE shared_schema").ok());
  EXPECT_TRUE(check_shared_schema(*database_).ok()) << "an empty one, which stays so";
  EXPECT_TRUE(check_shared_schema(*database_).ok());
}

TEST_P(SharedTables, VersionsHaveNumbersThatAreUsedOnceAndGoWithTheirFunction) {
  SKIP_WITHOUT_SERVER();
  ASSERT_TRUE(database_->run("UPDATE shared_versions_brought SET brought = 1").ok());
  ASSERT_TRUE(put(first_, kNothing).ok());
  const auto publish = [&](SharedVersion publication) {
    return commit([&](Database& database) { return publish_shared(database, publication); });
  };
  const SharedVersion next{.version = first_, .function_digest = "d1", .number = {}};
  EXPECT_EQ(*publish(next), 1U);
  EXPECT_EQ(*publish(next), 2U);
  // Through another node, which has one of its own.
  SharedVersion higher = next;
  higher.last_here = 6;
  EXPECT_EQ(*publish(higher), 7U);
  const auto remove = [&](const std::string& name, bool is_needed) {
    return commit([&](Database& database) {
      return remove_shared_version(database, "default", name, "d1",
                                   [is_needed](const std::string&) { return is_needed; });
    });
  };
  EXPECT_EQ(remove("f:7", true).error().code, ErrorCode::kFailedPrecondition);
  EXPECT_TRUE(remove("f:7", false).ok());
  EXPECT_EQ(*publish(next), 8U) << "the number of one that was removed is not used again";
  SharedVersion asked = next;
  asked.number = 8;
  EXPECT_EQ(publish(asked).error().code, ErrorCode::kFailedPrecondition);
  SharedVersion stale = next;
  stale.function_digest = "d0";
  EXPECT_EQ(publish(stale).error().code, ErrorCode::kAborted);
  stale.version.name = "other";
  EXPECT_EQ(publish(stale).error().code, ErrorCode::kFailedPrecondition) << "only one node has it";
  // The package of a version stays when the function has another.
  ASSERT_TRUE(put(second_, Expected{.digest = "d1"}).ok());
  EXPECT_EQ(*read_shared_package(*database_, "sha1"), "zip");
  EXPECT_EQ(contents().functions.size(), 4U);
  ASSERT_TRUE(commit([&](Database& database) {
                return remove_shared_function(database, "default", "f", "d2");
              }).ok());
  EXPECT_TRUE(contents().functions.empty());
  EXPECT_EQ(read_shared_package(*database_, "sha1").error().code, ErrorCode::kNotFound);
}

TEST_P(SharedTables, AFunctionWithALikeNameKeepsItsVersions) {
  SKIP_WITHOUT_SERVER();
  ASSERT_TRUE(database_->run("UPDATE shared_versions_brought SET brought = 1").ok());
  for (const std::string name : {"a_b", "axb"}) {
    ASSERT_TRUE(put({"default", name, "d1", "sha1", "{}"}, kNothing).ok());
    const SharedVersion version{
        .version = {"default", name, "d1", "sha1", "{}"}, .function_digest = "d1", .number = {}};
    ASSERT_TRUE(commit([&](Database& database) { return publish_shared(database, version); }).ok());
  }
  ASSERT_TRUE(commit([&](Database& database) {
                return remove_shared_function(database, "default", "a_b", "d1");
              }).ok());
  ASSERT_EQ(contents().functions.size(), 2U);
  EXPECT_EQ(contents().functions[1].name, "axb:1");
}

TEST_P(SharedTables, OfTwoChangesOfAnAliasOneIsRefusedAndItsVersionsMustBeThere) {
  SKIP_WITHOUT_SERVER();
  const SharedFunction prod{"default", "f:prod", "p1", "", "{}"};
  SharedFunction changed = prod;
  changed.digest = "p2";
  const auto put_alias = [&](const SharedFunction& alias, const std::string& expected,
                             std::vector<std::string> versions) {
    return commit(
        [&](Database& database) { return put_shared_alias(database, alias, expected, versions); });
  };
  ASSERT_TRUE(put(first_, kNothing).ok());
  EXPECT_EQ(put_alias(prod, "", {}).error().code, ErrorCode::kUnavailable)
      << "the first node has not brought its own";
  ASSERT_TRUE(database_->run("UPDATE shared_versions_brought SET brought = 1").ok());
  EXPECT_EQ(put_alias(prod, "", {"f:1"}).error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(put_alias(prod, "", {"f"}).ok());
  EXPECT_TRUE(put_alias(prod, "", {}).ok()) << "it is that already";
  EXPECT_EQ(put_alias(changed, "", {}).error().code, ErrorCode::kAborted);
  EXPECT_TRUE(put_alias(changed, "p1", {}).ok());
  EXPECT_EQ(put_alias(prod, "p1", {}).error().code, ErrorCode::kAborted);
}

TEST_P(SharedTables, WhatTheFirstNodeHadIsBroughtOnce) {
  SKIP_WITHOUT_SERVER();
  ASSERT_TRUE(put(first_, kNothing).ok());
  const BroughtVersions brought{.all = {{"default", "f:3", "d3", "sha3", "{}"},
                                        {"default", "f:prod", "p1", "", "{}"},
                                        {"default", "unknown:1", "u1", "sha4", "{}"}},
                                .last = {{{"default", "f"}, 5}}};
  const auto bring = [&](const BroughtVersions& all) {
    return commit([&](Database& database) {
      return bring_versions(database, all, [](const std::string& sha256) -> Result<std::string> {
        return "zip of " + sha256;
      });
    });
  };
  EXPECT_FALSE(*versions_are_brought(*database_));
  ASSERT_TRUE(bring(brought).ok());
  EXPECT_TRUE(*versions_are_brought(*database_));
  ASSERT_EQ(contents().functions.size(), 3U);
  EXPECT_EQ(*read_shared_package(*database_, "sha3"), "zip of sha3");
  EXPECT_EQ(*commit([&](Database& database) {
    return publish_shared(database, {.version = first_, .function_digest = "d1", .number = {}});
  }),
            6U);
  ASSERT_TRUE(bring({.all = {{"default", "f:9", "d9", "", "{}"}}, .last = {}}).ok());
  EXPECT_EQ(contents().functions.size(), 4U) << "nothing comes a second time";
}

TEST_P(SharedTables, WhatIsTriedAgainAndWhatFollowsAResultAreKept) {
  SKIP_WITHOUT_SERVER();
  ASSERT_TRUE(submit(a_, kOne).ok());
  const AsyncRetry retry{.runs = 1, .due_at = kNow + seconds(77), .last_failure = "E: no"};
  const auto try_again = [&](const Owner& owner) {
    return commit([&](Database& database) {
      return retry_shared_async(database, owner, "default", kOne, retry, kNow);
    });
  };
  EXPECT_EQ(try_again(b_).error().code, ErrorCode::kNotFound) << "it is another node's";
  ASSERT_TRUE(try_again(a_).ok());
  const auto found = [&](InvocationId id) {
    auto pending = find_shared_pending(*database_, a_, "default", id, kNow);
    EXPECT_TRUE(pending.ok());
    return pending.ok() ? *pending : std::nullopt;
  };
  ASSERT_TRUE(found(kOne));
  EXPECT_EQ(found(kOne)->runs, 1U);
  expect_near(found(kOne)->due_at, kNow + seconds(77));
  EXPECT_EQ(found(kOne)->last_failure, "E: no");
  AsyncSuccessor next{.id = kTwo, .name = {kDefaultTenant, "audit"}, .chain = 2};
  next.payload = [](std::string_view source) { return "of " + std::string(source); };
  InvocationResult result{.id = kOne, .runs = 2, .destination = "audit as x"};
  const auto end = [&] {
    return commit([&](Database& database) {
      return finish_shared_async(database, a_, "default", result, kNow + seconds(60), next, kNow);
    });
  };
  ASSERT_TRUE(end().ok());
  EXPECT_EQ(end().error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(found(kOne));
  ASSERT_TRUE(found(kTwo));
  EXPECT_EQ(found(kTwo)->request.payload, std::string("of {\0}", 6));
  EXPECT_EQ(found(kTwo)->chain, 2U);
  const auto kept = read_shared_result(*database_, "default", kOne);
  EXPECT_EQ((*kept)->runs, 2U);
  EXPECT_EQ((*kept)->destination, "audit as x");
}

TEST_P(SharedTables, AFunctionIsReadAsItWasPutWithItsPackage) {
  SKIP_WITHOUT_SERVER();
  const std::string package("PK\0\xff\n", 5);
  ASSERT_TRUE(put(first_, kNothing, package).ok());
  EXPECT_EQ(*read_shared_function(*database_, "default", "f"), first_.copy);
  EXPECT_EQ(*read_shared_package(*database_, "sha1"), package);
  const SharedContents all = contents();
  ASSERT_EQ(all.functions.size(), 1U);
  EXPECT_EQ(all.functions[0].digest, "d1");
  EXPECT_FALSE(read_shared(*database_, all.version)->has_value());
  EXPECT_EQ(read_shared_function(*database_, "other", "f").error().code, ErrorCode::kNotFound);
}

TEST_P(SharedTables, OfTwoChangesOfOneStateTheSecondIsRefused) {
  SKIP_WITHOUT_SERVER();
  ASSERT_TRUE(put(first_, kNothing).ok());
  EXPECT_EQ(put(second_, kNothing).error().code, ErrorCode::kAborted);
  EXPECT_EQ(contents().functions[0].digest, "d1");
  EXPECT_TRUE(put(second_, Expected{"d1"}).ok());
  const uint64_t version = contents().version;
  // Who copies it says the same again.
  EXPECT_TRUE(put(second_, Expected{"d1"}).ok());
  EXPECT_EQ(contents().version, version);
  EXPECT_TRUE(read_shared_package(*database_, "sha1").ok()) << "of the revision before";
  const auto remove = [&](const std::string& expected) {
    return commit([&](Database& database) {
      return remove_shared_function(database, "default", "f", expected);
    });
  };
  EXPECT_EQ(remove("d1").error().code, ErrorCode::kAborted);
  EXPECT_TRUE(remove("d2").ok());
  EXPECT_TRUE(remove("d2").ok());
  EXPECT_TRUE(contents().functions.empty());
  EXPECT_EQ(read_shared_package(*database_, "sha1").error().code, ErrorCode::kNotFound);
}

TEST_P(SharedTables, WhoPutsACopyAddsNothing) {
  SKIP_WITHOUT_SERVER();
  EXPECT_EQ(put(first_, std::nullopt).error().code, ErrorCode::kAborted);
  ASSERT_TRUE(put(first_, Expected{.digest = "of before", .or_nothing = true}).ok());
  EXPECT_TRUE(put(first_, std::nullopt).ok());
  EXPECT_EQ(put(second_, std::nullopt).error().code, ErrorCode::kAborted);
}

TEST_P(SharedTables, APackageThatCannotBeReadLeavesTheFunctionAsItWas) {
  SKIP_WITHOUT_SERVER();
  const auto outcome = commit([&](Database& database) {
    return put_shared_function(database, first_, kNothing, []() -> Result<std::string> {
      return Error{ErrorCode::kNotFound, "no file"};
    });
  });
  EXPECT_EQ(outcome.error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(contents().functions.empty());
}

TEST_P(SharedTables, ATenantWithFunctionsIsNotRemoved) {
  SKIP_WITHOUT_SERVER();
  const SharedTenant tenant{"team", R"({"weight": 2})"};
  const auto put_it = [&](Database& database) { return put_shared_tenant(database, tenant); };
  const auto remove = [](Database& database) { return remove_shared_tenant(database, "team"); };
  ASSERT_TRUE(commit(put_it).ok());
  const uint64_t version = contents().version;
  ASSERT_TRUE(commit(put_it).ok());
  EXPECT_EQ(contents().version, version);
  EXPECT_EQ(contents().tenants, std::vector<SharedTenant>{tenant});
  ASSERT_TRUE(put({"team", "f", "d", "", "{}"}, kNothing).ok());
  EXPECT_EQ(commit(remove).error().code, ErrorCode::kFailedPrecondition);
  ASSERT_TRUE(commit([](Database& database) {
                return remove_shared_function(database, "team", "f", "d");
              }).ok());
  EXPECT_TRUE(commit(remove).ok());
  EXPECT_TRUE(contents().tenants.empty());
}

TEST_P(SharedTables, TokensAreReadAsTheyWerePutAndGoWithTheirTenant) {
  SKIP_WITHOUT_SERVER();
  const SharedTenant team{"team", R"({"weight": 2})"};
  SharedToken token{.tenant = "team", .token = {}, .secret_sha256 = std::string(32, '\xff')};
  token.token.id = "LAMB1";
  token.token.name = "it's é";
  token.token.scopes = {Scope::kDeploy, Scope::kRead};
  token.token.created_at = seconds(5);
  const auto put_it = [&](const SharedToken& which) {
    return commit([&](Database& database) { return put_shared_token(database, which, team); });
  };
  ASSERT_TRUE(put_it(token).ok());
  ASSERT_TRUE(put_it(token).ok());  // the answer to the first was lost
  SharedToken certificate = token;
  certificate.token.id = "LAMB2";
  certificate.token.certificate = "dns:gpu2.example";
  certificate.token.expires_at = seconds(60);
  ASSERT_TRUE(put_it(certificate).ok());
  SharedToken same_name = certificate;
  same_name.token.id = "LAMB3";
  EXPECT_EQ(put_it(same_name).error().code, ErrorCode::kAlreadyExists);
  const auto read = *read_shared_access(*database_, UINT64_MAX);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->tokens, (std::vector<SharedToken>{token, certificate}));
  EXPECT_EQ(contents().tenants, std::vector<SharedTenant>{team});
  EXPECT_FALSE(read_shared_access(*database_, read->version)->has_value());
  const auto remove_one = [](Database& database) { return remove_shared_token(database, "LAMB1"); };
  ASSERT_TRUE(commit(remove_one).ok());
  ASSERT_TRUE(commit(remove_one).ok());
  EXPECT_EQ(read_shared_access(*database_, read->version)->value().tokens,
            std::vector<SharedToken>{certificate});
  ASSERT_TRUE(
      commit([](Database& database) { return remove_shared_tenant(database, "team"); }).ok());
  EXPECT_TRUE(read_shared_access(*database_, UINT64_MAX)->value().tokens.empty());
}

TEST_P(SharedTables, SecretsAreKeptAsTheyAreSealed) {
  SKIP_WITHOUT_SERVER();
  const SharedTenant known{"default", "{}"};
  const auto put_it = [&](const SharedSecret& secret) {
    return commit([&](Database& database) { return put_shared_secret(database, secret, known); });
  };
  SharedSecret secret{"default", "key", std::string("\0\xff'", 3), seconds(5)};
  ASSERT_TRUE(put_it(secret).ok());
  secret.sealed = "another";
  secret.changed_at = seconds(6);
  ASSERT_TRUE(put_it(secret).ok());
  EXPECT_EQ(read_shared_access(*database_, UINT64_MAX)->value().secrets,
            std::vector<SharedSecret>{secret});
  ASSERT_TRUE(commit([](Database& database) {
                return remove_shared_secret(database, "default", "key");
              }).ok());
  EXPECT_TRUE(read_shared_access(*database_, UINT64_MAX)->value().secrets.empty());
}

TEST_P(SharedTables, ANodeWithAnotherKeyIsRefused) {
  SKIP_WITHOUT_SERVER();
  ASSERT_TRUE(settle_shared_key(*database_, "proof").ok());
  ASSERT_TRUE(settle_shared_key(*database_, "proof").ok());
  const auto refused = settle_shared_key(*database_, "another");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_NE(refused.error().message.find("--cluster-key"), std::string::npos);
  EXPECT_FALSE(database_->in_transaction());
}

TEST_P(SharedTables, AProgramThatKnowsNoAdditionsRemovesTenantsWithAllThatIsTheirs) {
  SKIP_WITHOUT_SERVER();
  ASSERT_TRUE(
      commit([](Database& database) {
        return put_shared_secret(database, {"team", "key", "sealed", seconds(5)}, {"team", "{}"});
      }).ok());
  // As it did.
  ASSERT_TRUE(database_->run("DELETE FROM shared_tenants WHERE name = 'team'").ok());
  EXPECT_TRUE(read_shared_access(*database_, UINT64_MAX)->value().secrets.empty());
}

TEST_P(SharedTables, AnInvocationIsFinishedOnceByItsOwner) {
  SKIP_WITHOUT_SERVER();
  EXPECT_EQ(*submit(a_, kOne), kOne);
  EXPECT_EQ(*submit(a_, kOne), kOne);  // the answer to the first was lost
  EXPECT_EQ(submit(b_, kOne).error().code, ErrorCode::kAlreadyExists);
  EXPECT_FALSE(read_shared_result(*database_, "default", kOne)->has_value());
  EXPECT_EQ(finish(b_, kOne).error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(submit(a_, kTwo).ok());
  ASSERT_TRUE(finish(a_, kTwo, kNow).ok());
  ASSERT_TRUE(finish(a_, kOne).ok());
  EXPECT_EQ(finish(a_, kOne).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(*commit(expire_shared_results), 1U) << "the other's time is not over";
  EXPECT_EQ(read_shared_result(*database_, "default", kTwo).error().code, ErrorCode::kNotFound);
  const auto result = read_shared_result(*database_, "default", kOne);
  ASSERT_TRUE(result.ok());
  ASSERT_TRUE(result->has_value());
  EXPECT_EQ((*result)->id, kOne);
  EXPECT_EQ((*result)->outcome, Outcome::kFunctionError);
  EXPECT_EQ((*result)->payload, "\xff'\\x");
  EXPECT_EQ((*result)->error->message, "why");
  EXPECT_EQ((*result)->device, DeviceId(3));
}

TEST_P(SharedTables, AResultNamesAllDevicesOfItsRunAndProgramsBeforeReadItsFirst) {
  SKIP_WITHOUT_SERVER();
  ASSERT_TRUE(submit(a_, kOne).ok());
  InvocationResult result{.id = kOne, .beside = {DeviceId(2), DeviceId(64)}};
  result.device = DeviceId(1);
  ASSERT_TRUE(commit([&](Database& database) {
                return finish_shared_async(database, a_, "default", result, kNow + seconds(60), {},
                                           kNow);
              }).ok());
  const auto kept = read_shared_result(*database_, "default", kOne);
  ASSERT_TRUE(kept.ok());
  EXPECT_EQ((*kept)->device, DeviceId(1));
  EXPECT_EQ((*kept)->beside, result.beside);
  // What these read has the form that it had before there were several.
  auto ask = database_->prepare("SELECT result FROM shared_invocations WHERE state = 'done'");
  ASSERT_TRUE(ask.ok() && ask->next().ok());
  result.beside.clear();
  EXPECT_EQ(ask->column_text(0), bytes_of_result(result));
}

TEST_P(SharedTables, RevisionsHaveNumbersOfAllNodesAndTheirCodeIsKept) {
  SKIP_WITHOUT_SERVER();
  SharedFunction one = first_;
  one.revision = 1;
  SharedFunction two = second_;
  two.revision = 7;  // where it was changed by itself before
  EXPECT_EQ(put(one, kNothing)->revision, 1U);
  const auto first = put(one, std::nullopt);  // a copy
  EXPECT_EQ(first->revision, 1U);
  EXPECT_NEAR(to_seconds(first->at), to_seconds(clock_.wall_now()), 60);
  EXPECT_EQ(put(two, Expected{.digest = "d1"}, "zip2")->revision, 7U);
  EXPECT_EQ(put(one, Expected{.digest = "d2"})->revision, 8U) << "it went back";
  const auto all = *read_revisions(*database_, "default", "f");
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].deployment.revision, 8U);
  EXPECT_TRUE(all[0].is_current);
  EXPECT_FALSE(all[2].is_current) << "the same, and an earlier one";
  EXPECT_EQ(all[1].copy, two.copy);
  EXPECT_EQ(*read_shared_package(*database_, "sha2"), "zip2");
  EXPECT_EQ(put({"default", "f:1", "v", "sha1", "{}"}, kNothing)->revision, 0U) << "a version";
  const auto remove = [](Database& database) {
    return remove_shared_function(database, "default", "f", "d1");
  };
  ASSERT_TRUE(commit(remove).ok());
  EXPECT_TRUE(read_revisions(*database_, "default", "f")->empty());
  EXPECT_EQ(read_shared_package(*database_, "sha2").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(put(one, kNothing)->revision, 9U) << "numbers are not used again";
}

TEST_P(SharedTables, TenRevisionsAreKept) {
  SKIP_WITHOUT_SERVER();
  SharedFunction function = first_;
  std::string before;
  for (int number = 1; number <= 12; ++number) {
    function.digest = "d" + std::to_string(number);
    function.code_sha256 = "sha" + std::to_string(number);
    ASSERT_TRUE(put(function, Expected{.digest = before}).ok());
    before = function.digest;
  }
  const auto all = *read_revisions(*database_, "default", "f");
  ASSERT_EQ(all.size(), 10U);
  EXPECT_EQ(all.back().deployment.revision, 3U);
  EXPECT_EQ(read_shared_package(*database_, "sha2").error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(read_shared_package(*database_, "sha3").ok());
}

TEST_P(SharedTables, WhatAProgramWithoutRevisionsPutIsOneToo) {
  SKIP_WITHOUT_SERVER();
  ASSERT_TRUE(put(first_, kNothing).ok());
  ASSERT_TRUE(database_->run("DELETE FROM shared_revisions").ok());
  SharedFunction next = second_;
  next.revision = 5;
  EXPECT_EQ(put(next, Expected{.digest = "d1"})->revision, 5U);
  const auto all = *read_revisions(*database_, "default", "f");
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[1].deployment.revision, 4U);
  EXPECT_EQ(all[1].copy, first_.copy);
  EXPECT_EQ(all[1].code_bytes, 3U);
}

TEST_P(SharedTables, WhoWasAwayIsToldTheNumberOfWhatItHas) {
  SKIP_WITHOUT_SERVER();
  ASSERT_TRUE(put(first_, kNothing).ok());
  ASSERT_TRUE(put({"default", "f:1", "v", "sha1", "{}"}, kNothing).ok());
  ASSERT_TRUE(put(second_, Expected{.digest = "d1"}).ok());
  const auto back = put(first_, Expected{.digest = "d2"});
  const auto functions = contents().functions;
  ASSERT_EQ(functions.size(), 2U);
  EXPECT_EQ(functions[0].digest, "d1");
  EXPECT_EQ(functions[0].revision, 3U);
  EXPECT_EQ(functions[0].deployed_at, back->at);
  EXPECT_EQ(functions[1].revision, 0U) << "a version";
  // By a program that knows no numbers.
  ASSERT_TRUE(database_->run("UPDATE shared_functions SET digest = 'd4' WHERE name = 'f'").ok());
  EXPECT_EQ(contents().functions[0].revision, 0U);
}

TEST_P(SharedTables, WhatAProgramWithoutRevisionsRemovedLeavesNone) {
  SKIP_WITHOUT_SERVER();
  SharedFunction gone = first_;
  gone.tenant = "team";
  const auto remove_team = [](Database& database) {
    return remove_shared_tenant(database, "team");
  };
  const char* program_before = "DELETE FROM shared_functions WHERE tenant = 'team'";
  ASSERT_TRUE(put(gone, kNothing).ok());
  ASSERT_TRUE(database_->run(program_before).ok());
  ASSERT_TRUE(put(second_, kNothing).ok());
  EXPECT_EQ(count("shared_revisions"), 1U);
  EXPECT_EQ(read_shared_package(*database_, "sha1").error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(put(gone, kNothing).ok());
  ASSERT_TRUE(database_->run(program_before).ok());
  ASSERT_TRUE(commit(remove_team).ok());
  EXPECT_EQ(count("shared_revisions"), 1U);
  EXPECT_EQ(count("shared_revision_numbers WHERE tenant = 'team'"), 0U);
  EXPECT_EQ(read_shared_package(*database_, "sha1").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(count("shared_revision_numbers"), 1U) << "of another tenant";
}

TEST_P(SharedTables, NumbersOfManyFunctionsThatAreGoneAreOne) {
  SKIP_WITHOUT_SERVER();
  const auto remove = [](const SharedFunction& function) {
    return [&](Database& database) {
      return remove_shared_function(database, function.tenant, function.name, function.digest);
    };
  };
  const std::string most = std::to_string(kNumbersOfRemoved);
  ASSERT_TRUE(database_
                  ->run("WITH RECURSIVE many(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM many "
                        "WHERE n < " +
                        most +
                        ") INSERT INTO shared_revision_numbers (tenant, function, last) SELECT "
                        "'default', 'gone' || n, n FROM many")
                  .ok());
  SharedFunction stays = second_;
  stays.name = "stays";
  ASSERT_EQ(put(stays, kNothing)->revision, 1U);
  EXPECT_EQ(count("shared_revision_numbers"), kNumbersOfRemoved + 1) << "no more than are kept";
  ASSERT_TRUE(put(first_, kNothing).ok());
  ASSERT_TRUE(commit(remove(first_)).ok());
  EXPECT_EQ(count("shared_revision_numbers"), 2U);
  EXPECT_EQ(put(first_, kNothing)->revision, kNumbersOfRemoved + 1) << "none is used again";
  SharedFunction next = stays;
  next.digest = "d3";
  EXPECT_EQ(put(next, Expected{.digest = "d2"})->revision, 2U) << "it is not gone";
}

TEST_P(SharedTables, InstantsMeanTheSameToNodesWhoseClocksDiffer) {
  SKIP_WITHOUT_SERVER();
  const Duration ahead = kNow + std::chrono::minutes(15);
  ASSERT_TRUE(submit(a_, kOne).ok());
  const AsyncRetry retry{.runs = 1, .due_at = kNow + seconds(77), .last_failure = ""};
  ASSERT_TRUE(commit([&](Database& database) {
                return retry_shared_async(database, a_, "default", kOne, retry, kNow);
              }).ok());
  const auto claimed = commit([&](Database& database) {
    return claim_shared(database, {"a", "a2"}, {}, kOfF, 10, ahead);
  });
  ASSERT_TRUE(claimed.ok());
  ASSERT_EQ(claimed->size(), 1U);
  expect_near(claimed->front().submitted_at, ahead - seconds(5));
  expect_near(claimed->front().due_at, ahead + seconds(77));
}

TEST_P(SharedTables, ARepeatWithTheSameKeyIsTheFirstOne) {
  SKIP_WITHOUT_SERVER();
  ASSERT_TRUE(submit(a_, kOne, "key").ok());
  EXPECT_EQ(*submit(b_, kTwo, "key"), kOne);
  EXPECT_EQ(*find_shared_async(*database_, "default", "key"), kOne);
  EXPECT_FALSE(find_shared_async(*database_, "other", "key")->has_value());
}

TEST_P(SharedTables, WhatAnEarlierProcessOfANodeHadIsClaimedByTheNextOne) {
  SKIP_WITHOUT_SERVER();
  ASSERT_TRUE(submit(a_, kOne).ok());
  ASSERT_TRUE(submit(b_, kTwo).ok());
  ASSERT_TRUE(commit([&](Database& database) {
                return begin_shared_async(database, a_, "default", kOne);
              }).ok());
  const Owner later{"a", "a2"};
  const auto claim = [&](Database& database) {
    return claim_shared(database, later, {}, kOfF, 10, kNow);
  };
  const auto claimed = commit(claim);
  ASSERT_TRUE(claimed.ok());
  ASSERT_EQ(claimed->size(), 1U);
  const SharedInvocation& one = claimed->front();
  EXPECT_EQ(one.request.id, kOne);
  EXPECT_EQ(one.request.function.name, "f");
  EXPECT_EQ(one.request.payload, std::string("{\0}", 3));
  EXPECT_EQ(one.attempts, 1U);
  expect_near(one.submitted_at, kNow - seconds(5));
  EXPECT_EQ(one.due_at, Duration(0));
  EXPECT_TRUE(commit(claim)->empty());
  EXPECT_EQ(finish(a_, kOne).error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(finish(later, kOne).ok());
  EXPECT_EQ(*owners_of_pending(*database_, "a"), std::vector<std::string>{"b"});
}

TEST_P(SharedTables, OnlyWhatIsOfTheFunctionsThatAreAskedForIsClaimed) {
  SKIP_WITHOUT_SERVER();
  for (uint64_t each = 0; each < 20; ++each) {
    ASSERT_TRUE(submit(b_, InvocationId{9, each}, "", "waits").ok());
  }
  ASSERT_TRUE(submit(b_, kOne).ok());
  ASSERT_TRUE(submit(a_, kTwo, "", "own").ok());
  const auto functions = [&](const TenantFunction& after, size_t most) {
    return functions_to_claim(*database_, a_, {"b", "c"}, after, most).value();
  };
  const TenantFunction f{"default", "f"};
  const TenantFunction waits{"default", "waits"};
  EXPECT_EQ(functions({}, 10), (std::vector{f, waits})) << "this process has its own";
  EXPECT_EQ(functions({}, 1), std::vector{f});
  EXPECT_EQ(functions(f, 1), std::vector{waits});
  EXPECT_TRUE(functions(waits, 1).empty());
  const auto claim = [&](const std::vector<TenantFunction>& of) {
    return commit(
               [&](Database& database) { return claim_shared(database, a_, {"b"}, of, 10, kNow); })
        .value();
  };
  EXPECT_TRUE(claim({}).empty());
  const auto claimed = claim({f, {"default", "own"}, {"other", "waits"}});
  ASSERT_EQ(claimed.size(), 1U);
  EXPECT_EQ(claimed[0].request.id, kOne);
  EXPECT_EQ(claim({waits}).size(), 10U);
  EXPECT_EQ(functions({}, 10), std::vector{waits});
}

TEST_P(SharedTables, WhatANodeGivesToAnotherIsClaimedByThatOnly) {
  SKIP_WITHOUT_SERVER();
  ASSERT_TRUE(submit(a_, kOne).ok());
  const auto give = [&](const Owner& owner) {
    return commit(
        [&](Database& database) { return give_shared(database, owner, "default", kOne, "b"); });
  };
  EXPECT_EQ(give(b_).error().code, ErrorCode::kNotFound) << "it is not b's to give";
  ASSERT_TRUE(give(a_).ok());
  EXPECT_EQ(give(a_).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(finish(a_, kOne).error().code, ErrorCode::kNotFound);
  const auto claim = [&](const Owner& owner) {
    return commit(
        [&](Database& database) { return claim_shared(database, owner, {}, kOfF, 10, kNow); });
  };
  EXPECT_TRUE(claim(a_)->empty());
  const auto claimed = claim(b_);
  ASSERT_EQ(claimed->size(), 1U);
  EXPECT_EQ(claimed->front().request.id, kOne);
  EXPECT_TRUE(finish(b_, kOne).ok());
  EXPECT_EQ(give(b_).error().code, ErrorCode::kNotFound) << "it has a result";
}

TEST_P(SharedTables, WhatAProcessDoesNotKnowThatItHasIsClaimedByItAgain) {
  SKIP_WITHOUT_SERVER();
  ASSERT_TRUE(submit(a_, kOne).ok());  // it was told that this failed
  ASSERT_TRUE(submit(a_, kTwo).ok());
  const HeldInvocations held{{"default", kTwo}};
  ASSERT_TRUE(commit([&](Database& database) { return give_up_unheld(database, a_, held); }).ok());
  const auto claimed =
      commit([&](Database& database) { return claim_shared(database, a_, {}, kOfF, 10, kNow); });
  ASSERT_TRUE(claimed.ok());
  ASSERT_EQ(claimed->size(), 1U);
  EXPECT_EQ(claimed->front().request.id, kOne);
  EXPECT_TRUE(finish(a_, kOne).ok());
  EXPECT_TRUE(finish(a_, kTwo).ok());
}

// ---- Leases, which only PostgreSQL has

class Leases : public SharedTables {
 protected:
  Result<std::vector<SharedInvocation>> claim_of_b() {
    return commit(
        [&](Database& database) { return claim_shared(database, a_, {"b"}, kOfF, 10, kNow); });
  }
};
INSTANTIATE_TEST_SUITE_P(Kinds, Leases, ::testing::Values("postgresql"),
                         [](const auto& kind) { return kind.param; });

TEST_P(Leases, InvocationsOfANodeThatLivesAreNotClaimed) {
  SKIP_WITHOUT_SERVER();
  ASSERT_TRUE(submit(b_, kOne).ok());
  auto b = postgres("b", url());
  ASSERT_TRUE(b->run("SELECT 1").ok());
  EXPECT_TRUE(claim_of_b()->empty());
  b.reset();
  // Its session ends a moment later.
  for (int tries = 0; tries < 1000; ++tries) {
    const auto claimed = claim_of_b();
    ASSERT_TRUE(claimed.ok());
    if (claimed->size() == 1) return;
  }
  FAIL() << "the lease of a session that ended was not free";
}

TEST_P(Leases, OfTwoNodesThatLookInOneMomentOneHasEachInvocation) {
  SKIP_WITHOUT_SERVER();
  ASSERT_TRUE(submit(b_, kOne).ok());
  ASSERT_TRUE(submit(b_, kTwo).ok());
  const Owner c{"c", "c1"};
  const auto other = postgres("", url());
  const auto claim_of_c = [&] {
    EXPECT_TRUE(other->begin().ok());
    auto claimed = claim_shared(*other, c, {"b"}, kOfF, 10, kNow);
    EXPECT_TRUE(other->run("COMMIT").ok());
    return claimed;
  };
  // Both have chosen the function, and c claims before a has committed.
  ASSERT_TRUE(database_->begin().ok());
  const auto claimed = claim_shared(*database_, a_, {"b"}, kOfF, 1, kNow);
  ASSERT_TRUE(claimed.ok());
  ASSERT_EQ(claimed->size(), 1U);
  auto of_c = claim_of_c();
  ASSERT_TRUE(of_c.ok()) << to_string(of_c.error());
  EXPECT_TRUE(of_c->empty()) << "what a has left comes with its next look";
  ASSERT_TRUE(database_->run("COMMIT").ok());
  of_c = claim_of_c();
  ASSERT_EQ(of_c->size(), 1U);
  const InvocationId first = claimed->front().request.id;
  const InvocationId second = of_c->front().request.id;
  EXPECT_NE(first, second);
  // Nor does a node begin what another one has, such as b once it is back.
  const auto begin = [&](const Owner& owner, InvocationId id) {
    return commit([&](Database& database) {
             return begin_shared_async(database, owner, "default", id);
           })
        .ok();
  };
  for (const Owner& not_its : {b_, c}) EXPECT_FALSE(begin(not_its, first)) << not_its.node;
  for (const Owner& not_its : {b_, a_}) EXPECT_FALSE(begin(not_its, second)) << not_its.node;
  EXPECT_TRUE(begin(a_, first));
  EXPECT_TRUE(begin(c, second));
}

TEST_P(Leases, TwoNodesOfOneNameAreRefused) {
  SKIP_WITHOUT_SERVER();
  auto first = postgres("b", url());
  ASSERT_TRUE(first->run("SELECT 1").ok());
  auto second = postgres("b", url());
  const auto refused = second->run("SELECT 1");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(refused.error().message.find("node 'b'"), std::string::npos);
}

TEST(SharedCatalogInPostgres, IsWithoutAServerUnavailableAndComesBack) {
  PostgresServer server;
  if (!server.there()) GTEST_SKIP() << "PostgreSQL is not installed";
  const SystemClock clock;
  TestLoop loop;
  auto shared = std::move(
      *SharedCatalog::open({server.url("postgres"), {"a", "a1"}, ""}, clock, loop.post()));
  EXPECT_EQ(shared->unreachable(), "");
  const auto put = [&] {
    return loop.await<void>([&](auto done) { shared->put_tenant({"team", "{}"}, done); });
  };
  ASSERT_TRUE(put().ok());
  server.stop();
  const auto refused = put();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  server.start();
  for (int tries = 0; tries < 100'000 && !put().ok(); ++tries) {
  }
  EXPECT_TRUE(put().ok());
}

// Two nodes have another number for the tenant; a request that needs objects stays with its node.
TEST(SharedCatalogInPostgres, HasOneInvocationForOneKeyOfATenantThatNodesNumberDifferently) {
  PostgresServer server;
  if (!server.there()) GTEST_SKIP() << "PostgreSQL is not installed";
  const SystemClock clock;
  const TemporaryFolder folder;
  TestLoop loop;
  struct Node {
    TenantId tenant;
    std::unique_ptr<SharedCatalog> shared;
    std::unique_ptr<Catalog> own;
  };
  const auto node = [&](const std::string& name, TenantId tenant) {
    Node made{tenant, {}, {}};
    made.shared = std::move(
        *SharedCatalog::open({server.url("postgres"), {name, name + "1"}, ""}, clock, loop.post()));
    made.own = std::move(*Catalog::open(folder / (name + ".db"), {}, loop.post()));
    made.own->share_async(*made.shared, [tenant](TenantId which) {
      return which == tenant ? std::string("team") : std::string("another");
    });
    return made;
  };
  const Node a = node("a", TenantId(2));
  const Node b = node("b", TenantId(3));
  const auto put = [&](const Node& at, uint64_t number, bool needs) {
    AsyncInvocation invocation = sample_invocation(number, "{}", at.tenant);
    invocation.request.idempotency_key = needs ? "f/needs" : "f/key";
    if (needs) invocation.request.needs = {ObjectId{{1, 2}, 3}};
    return loop.await<InvocationId>(
        [&](auto done) { at.own->put_async(invocation, std::move(done)); });
  };
  const auto find = [&](const Node& at, const std::string& key) {
    return loop.await<std::optional<InvocationId>>(
        [&](auto done) { at.own->find_async(at.tenant, key, std::move(done)); });
  };
  const auto first = put(a, 1, false);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(*put(b, 2, false), *first);
  EXPECT_EQ(*find(b, "f/key"), *first);
  const auto kept = put(a, 3, true);
  EXPECT_EQ(*find(a, "f/needs"), *kept);
  EXPECT_EQ(*find(b, "f/needs"), std::nullopt);
}

// As a server does that is promoted without the last change, and then has another one.
TEST(SharedCatalogInPostgres, IsReadAnewInANewSession) {
  PostgresServer server;
  if (!server.there()) GTEST_SKIP() << "PostgreSQL is not installed";
  const SystemClock clock;
  TestLoop loop;
  const auto shared = std::move(
      *SharedCatalog::open({server.url("postgres"), {"a", "a1"}, ""}, clock, loop.post()));
  ASSERT_TRUE(loop.await<void>([&](auto done) { shared->put_tenant({"team", "{}"}, done); }).ok());
  const auto read = [&](uint64_t known) {
    return loop.await<std::optional<SharedContents>>([&](auto done) { shared->read(known, done); });
  };
  const auto read_access = [&](uint64_t known) {
    return loop.await<std::optional<SharedAccess>>(
        [&](auto done) { shared->read_access(known, done); });
  };
  const uint64_t version = (*read(UINT64_MAX))->version;
  const uint64_t access_version = (*read_access(UINT64_MAX))->version;
  EXPECT_FALSE(read(version)->has_value());
  server.stop();
  server.start();
  auto again = read(version);
  for (int tries = 0; tries < 100'000 && !again.ok(); ++tries) again = read(version);
  ASSERT_TRUE(again.ok());
  ASSERT_TRUE(again->has_value());
  EXPECT_EQ((*again)->version, version);
  EXPECT_TRUE(read_access(access_version)->has_value());
  EXPECT_FALSE(read(version)->has_value());
  EXPECT_FALSE(read_access(access_version)->has_value());
}

TEST(SharedCatalogInPostgres, IsOpenedWhereNoServerAnswers) {
  if (!PostgresServer::shared().there()) GTEST_SKIP() << "PostgreSQL is not installed";
  const SystemClock clock;
  TestLoop loop;
  const auto shared = SharedCatalog::open({"postgresql:///none?host=/nowhere", {"a", "a1"}, ""},
                                          clock, loop.post());
  ASSERT_TRUE(shared.ok());
  EXPECT_NE((*shared)->unreachable(), "");
  const auto wrong =
      SharedCatalog::open({"postgresql://?bad=1", {"a", "a1"}, ""}, clock, loop.post());
  EXPECT_TRUE(!wrong.ok() || !(*wrong)->unreachable().empty());
}

TEST(Hosts, OfAUrlHavePortsOfTheirOwnOrOneForAll) {
  const std::vector<PostgresHost> apart = {{"a", "", "1"}, {"b", "", "2"}};
  EXPECT_EQ(split_hosts("a,b", "", "1,2"), apart);
  const std::vector<PostgresHost> alike = {{"/a", "", "1"}, {"/b", "", "1"}};
  EXPECT_EQ(split_hosts("/a,/b", "", "1"), alike);
  const std::vector<PostgresHost> by_address = {{"", "10.0.0.1", ""}, {"", "10.0.0.2", ""}};
  EXPECT_EQ(split_hosts("", "10.0.0.1,10.0.0.2", ""), by_address);
  EXPECT_EQ(split_hosts("", "", ""), std::vector<PostgresHost>{{}});
}

TEST(Urls, AreShownWithoutPasswords) {
  EXPECT_EQ(without_password("postgresql://me:secret@host/db?sslmode=require"),
            "postgresql://me@host/db");
  EXPECT_EQ(without_password("postgresql://host:5432/db"), "postgresql://host:5432/db");
  EXPECT_EQ(without_password("postgresql:///db?password=x"), "postgresql:///db");
}

}  // namespace
}  // namespace lambent::catalog
