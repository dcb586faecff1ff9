// A node that copies the home's catalog: what it asks, what it has afterwards, and what it says
// meanwhile.
#include "edge/frontend/catalog_replica.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/base/json_text.h"
#include "core/base/testing/testing.h"
#include "core/base/time.h"
#include "edge/frontend/catalog_copy.h"
#include "edge/frontend/testing/fake_access.h"
#include "edge/frontend/testing/testing.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;
using Names = std::vector<std::pair<std::string, std::string>>;

// Keeps versions and aliases as the worker does.
class FakeCopies final : public VersionCopies {
 public:
  FakeCopies(FakeService& service, FakeVersions& versions)
      : service_(service), versions_(versions) {}

  std::vector<std::pair<FunctionName, uint64_t>> renumbered;

  void copy_version(FunctionChange change,
                    std::function<void(Result<FunctionSpec>)> done) override {
    service_.functions[change.spec.name] = change.spec;
    done(change.spec);
  }
  void copy_alias(Alias alias, std::function<void(Result<void>)> done) override {
    if (!service_.functions.contains(alias.function)) {
      return done(Error{ErrorCode::kNotFound, "there is no such function"});
    }
    versions_.aliases[{alias.function, alias.name}] = alias;
    done({});
  }
  void forget_alias(const FunctionName& function, const std::string& alias,
                    std::function<void(Result<void>)> done) override {
    versions_.aliases.erase({function, alias});
    done({});
  }
  void renumber(const FunctionName& function, uint64_t revision, Duration deployed_at,
                std::function<void(Result<void>)> done) override {
    renumbered.emplace_back(function, revision);
    service_.functions.at(function).revision = revision;
    service_.functions.at(function).last_modified = deployed_at;
    done({});
  }

 private:
  FakeService& service_;
  FakeVersions& versions_;
};

FunctionSpec spec_of(const std::string& name, const std::string& code) {
  FunctionSpec spec;
  spec.name = {kDefaultTenant, name};
  spec.runtime_name = "python3.11";
  spec.handler = "app.handler";
  spec.code_sha256 = code;
  return spec;
}

class CatalogReplicaTest : public ::testing::Test {
 protected:
  void SetUp() override { start(); }

  // Also again, as after a restart of the worker.
  void start() {
    replica = std::make_unique<CatalogReplica>(
        CatalogReplica::Dependencies{
            .loop = loop,
            .log = log,
            .functions = service,
            .versions = versions,
            .copies = copies,
            .access = access,
            .is_replica = [this] { return has_home; },
            .has_home = [this] { return has_home; },
            .ask_home = [this](std::string target,
                               auto done) { ask_home(std::move(target), std::move(done)); }},
        folder / "copied.json");
  }

  // As a home answers.
  void ask_home(const std::string& target, std::function<void(Result<http::Response>)> done) {
    asked.push_back(std::string(http::path_of(target)));
    if (holds_answers) {
      held.push_back([answer = answer_to(target), done = std::move(done)] { done(answer); });
      return;
    }
    done(answer_to(target));
  }
  Result<http::Response> answer_to(const std::string& target) {
    if (!reached) return Error{ErrorCode::kUnavailable, "node 'a' does not answer"};
    http::Response answer;
    answer.status = 200;
    const std::string path(http::path_of(target));
    const std::string query(http::query_of(target));
    const size_t slash = path.rfind('/');
    std::string name;
    EXPECT_TRUE(http::percent_decode(path.substr(slash + 1), name));
    if (path == "/v1/cluster/catalog") {
      if (http::query_value(query, "known") == version()) {
        answer.status = 304;
        return answer;
      }
      answer.body = wrong ? *wrong : json_text(catalog());
    } else if (path == "/v1/cluster/code") {
      codes.push_back(http::query_value(query, "sha256"));
      answer.body = "zip";
    } else if (const auto alias = aliases.find(name); alias != aliases.end()) {
      answer.body = json_text(copy_of(alias->second));
    } else if (const auto found = home.find(name); found != home.end()) {
      answer.body = json_text(copy_of(sent ? *sent : found->second));
    } else {
      answer.status = 404;
    }
    return answer;
  }
  std::string version() const { return std::to_string(changes); }
  json catalog() const {
    json functions = json::array(), qualified = json::array();
    for (const auto& [name, spec] : home) {
      json row = {{"tenant", "default"}, {"name", name}, {"digest", digest_of_copy(copy_of(spec))}};
      if (name.find(':') != std::string::npos) {
        qualified.push_back(std::move(row));
        continue;
      }
      row["revision"] = spec.revision;
      row["deployed_at_ns"] = spec.last_modified.count();
      functions.push_back(std::move(row));
    }
    for (const auto& [name, alias] : aliases) {
      qualified.push_back(
          {{"tenant", "default"}, {"name", name}, {"digest", digest_of_copy(copy_of(alias))}});
    }
    return {{"functions", functions}, {"qualified", qualified}, {"version", version()}};
  }
  void put_home(const std::string& name, const std::string& code) {
    home[name] = spec_of(name, code);
    home[name].name = {kDefaultTenant, name.substr(0, name.find(':'))};
    ++changes;
  }
  void remove_home(const std::string& name) {
    home.erase(name);
    ++changes;
  }

  // One look of the replica, and what it leads to.
  void look(Duration later = seconds(1)) {
    clock.advance(later);
    loop.run_once(Duration(0));
  }
  void answer_held() {
    const auto answer = std::move(held.front());
    held.pop_front();
    answer();
  }
  std::string code_here(const std::string& name) {
    const auto found = service.functions.find({kDefaultTenant, name});
    return found == service.functions.end() ? "none" : found->second.code_sha256;
  }
  // What catch_up() says: "ok", or the message; empty: nothing yet.
  std::shared_ptr<std::string> catch_up(const std::string& name) {
    auto said = std::make_shared<std::string>();
    replica->catch_up({kDefaultTenant, name}, [said](const Result<void>& outcome) {
      *said = outcome.ok() ? "ok" : to_string(outcome.error());
    });
    return said;
  }

  FakeClock clock;
  loop::EventLoop loop{clock};
  NullLogSink log;
  TemporaryFolder folder;
  FakeService service;
  FakeVersions versions{service};
  FakeCopies copies{service, versions};
  FakeAccess access;
  std::map<std::string, FunctionSpec> home;
  std::map<std::string, Alias> aliases;
  std::optional<FunctionSpec> sent;  // in place of what it has
  std::optional<std::string> wrong;  // in place of its catalog
  uint64_t changes = 1;
  bool has_home = true;
  bool reached = true;
  bool holds_answers = false;
  std::deque<std::function<void()>> held;
  std::vector<std::string> asked;
  std::vector<std::string> codes;
  std::unique_ptr<CatalogReplica> replica;
};

TEST_F(CatalogReplicaTest, WhatTheHomeHasIsCopiedWithItsCodeAndAskedForOnce) {
  put_home("f", "abc=");
  EXPECT_FALSE(replica->has_copies());
  look();
  EXPECT_EQ(code_here("f"), "abc=");
  EXPECT_EQ(codes, std::vector<std::string>{"abc="});
  EXPECT_TRUE(replica->has_copies());
  EXPECT_TRUE(replica->names("default", "f"));
  EXPECT_TRUE(service.changes.front().is_copy) << "it is not judged again";
  asked.clear();
  look();
  look();
  EXPECT_EQ(asked, (std::vector<std::string>(2, "/v1/cluster/catalog")));
}

TEST_F(CatalogReplicaTest, ChangesAndRemovalsComeAndWhatWasHereBeforeStays) {
  service.functions[{kDefaultTenant, "own"}] = spec_of("own", "own=");
  put_home("f", "abc=");
  put_home("g", "abc=");
  look();
  put_home("f", "new=");
  look();
  EXPECT_EQ(code_here("f"), "new=");
  remove_home("g");
  look();
  EXPECT_EQ(code_here("g"), "none");
  EXPECT_FALSE(replica->names("default", "g"));
  EXPECT_EQ(code_here("own"), "own=");
}

TEST_F(CatalogReplicaTest, WhatWasCopiedIsKnownAfterARestartAndGoesWhenTheHomeHasItNoMore) {
  put_home("f", "abc=");
  look();
  start();
  EXPECT_TRUE(replica->has_copies());
  remove_home("f");
  look();
  EXPECT_EQ(code_here("f"), "none");
  start();
  EXPECT_FALSE(replica->has_copies());
}

TEST_F(CatalogReplicaTest, NumbersAreThoseOfTheHome) {
  put_home("f", "abc=");
  home["f"].revision = 7;
  home["f"].last_modified = seconds(5);
  look();
  ++changes;
  look();
  ASSERT_EQ(copies.renumbered.size(), 1U);
  EXPECT_EQ(copies.renumbered.front().second, 7U);
  ++changes;
  look();
  EXPECT_EQ(copies.renumbered.size(), 1U) << "it has that number";
}

TEST_F(CatalogReplicaTest, WhatCannotBeCopiedIsNamedAndTriedLaterEachTimeOrWhenItChanges) {
  put_home("f", "abc=");
  put_home("g", "abc=");
  service.failure = Error{ErrorCode::kFailedPrecondition, "no index has the package"};
  look();
  EXPECT_EQ(replica->not_copied(), (Names{{"default", "f"}, {"default", "g"}}));
  const auto said = catch_up("f");
  loop.run_once(Duration(0));
  EXPECT_NE(said->find("this node has no copy of it yet (no index has the package)"),
            std::string::npos)
      << *said;
  const auto tries = [this] { return service.changes.size(); };
  const size_t before = tries();
  for (int second = 0; second < 8; ++second) look();
  EXPECT_EQ(tries(), before) << "not each second";
  look(seconds(3));
  EXPECT_EQ(tries(), before + 2) << "after ten";
  look(seconds(11));
  EXPECT_EQ(tries(), before + 2);
  // At once if it changes, also if the home changes back what was wrong.
  service.failure.reset();
  put_home("f", "new=");
  look();
  EXPECT_EQ(code_here("f"), "new=");
  EXPECT_EQ(replica->not_copied(), (Names{{"default", "g"}}));
  look(seconds(20));
  EXPECT_EQ(code_here("g"), "abc=");
  EXPECT_TRUE(replica->not_copied().empty());
}

TEST_F(CatalogReplicaTest, WhatCannotBeCopiedAndIsRemovedIsNamedNoMore) {
  put_home("f", "abc=");
  service.failure = Error{ErrorCode::kFailedPrecondition, "no"};
  look();
  EXPECT_EQ(replica->not_copied().size(), 1U);
  remove_home("f");
  look();
  EXPECT_TRUE(replica->not_copied().empty());
}

TEST_F(CatalogReplicaTest, AFailureThatPassesIsTriedAtTheNextLook) {
  put_home("f", "abc=");
  service.failure = Error{ErrorCode::kUnavailable, "the disk is full"};
  look();
  EXPECT_EQ(replica->not_copied().size(), 1U);
  service.failure.reset();
  look();
  EXPECT_EQ(code_here("f"), "abc=");
}

TEST_F(CatalogReplicaTest, AnotherFunctionThanTheOneThatWasAskedForIsNotTaken) {
  put_home("f", "abc=");
  sent = spec_of("g", "abc=");
  look();
  EXPECT_EQ(code_here("f"), "none");
  EXPECT_EQ(code_here("g"), "none");
  EXPECT_EQ(replica->not_copied(), (Names{{"default", "f"}}));
}

TEST_F(CatalogReplicaTest, WhoAsksForAFunctionWaitsForALookThatBeganAfterwards) {
  holds_answers = true;
  look();
  ASSERT_EQ(held.size(), 1U);
  // The home has it since, and what is on its way may not say so.
  put_home("f", "abc=");
  const auto said = catch_up("f");
  answer_held();
  holds_answers = false;
  EXPECT_EQ(*said, "");
  loop.run_once(Duration(0));
  EXPECT_EQ(*said, "ok");
  EXPECT_EQ(code_here("f"), "abc=");
}

TEST_F(CatalogReplicaTest, WithoutTheHomeItIsNotSaidThatThereIsNoFunction) {
  put_home("f", "abc=");
  look();
  reached = false;
  EXPECT_EQ(*catch_up("f"), "ok") << "it is here";
  const auto said = catch_up("g");
  loop.run_once(Duration(0));
  EXPECT_EQ(said->substr(0, 12), "UNAVAILABLE:");
  EXPECT_NE(said->find("it cannot be told whether function 'g' exists"), std::string::npos);
  EXPECT_EQ(code_here("f"), "abc=");
  reached = true;
  const auto there = catch_up("g");
  loop.run_once(Duration(0));
  EXPECT_EQ(*there, "ok") << "there is none";
  // It was told of no home since its start, and has had one.
  has_home = false;
  EXPECT_EQ(catch_up("g")->substr(0, 12), "UNAVAILABLE:");
}

TEST_F(CatalogReplicaTest, VersionsAndAliasesComeAfterTheirFunctionAndGoWithIt) {
  put_home("f", "abc=");
  put_home("f:1", "old=");
  aliases["f:prod"] = Alias{.function = {kDefaultTenant, "f"}, .name = "prod", .version = "1"};
  look();
  EXPECT_EQ(code_here("f:1"), "old=");
  ASSERT_TRUE(versions.find_alias({kDefaultTenant, "f"}, "prod").ok());
  aliases.clear();
  remove_home("f:1");
  look();
  EXPECT_EQ(code_here("f:1"), "none");
  EXPECT_FALSE(versions.find_alias({kDefaultTenant, "f"}, "prod").ok());
  EXPECT_EQ(code_here("f"), "abc=");
}

TEST_F(CatalogReplicaTest, AnAnswerThatIsNoCatalogChangesNothing) {
  put_home("f", "abc=");
  look();
  for (const std::string garbled :
       {"[]", "what", "{}", R"({"functions": 7})", R"({"functions": [7]})",
        R"({"functions": [{"tenant": "default", "name": "f"}]})",
        R"({"functions": [{"tenant": "default", "name": 7, "digest": "d"}]})",
        R"({"functions": [], "qualified": 7})"}) {
    ++changes;
    wrong = garbled;
    look();
    EXPECT_EQ(code_here("f"), "abc=") << garbled;
    const auto said = catch_up("g");
    EXPECT_EQ(said->substr(0, 12), "UNAVAILABLE:") << garbled;
  }
  wrong.reset();
  remove_home("f");
  look();
  EXPECT_EQ(code_here("f"), "none");
}

}  // namespace
}  // namespace lambent::frontend
