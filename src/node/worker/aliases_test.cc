#include "node/worker/aliases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lambent::worker {
namespace {

using testing::HasSubstr;

constexpr TenantId kTenant{3};

FunctionSpec function(uint32_t id, const std::string& name, const std::string& code = "code") {
  FunctionSpec spec;
  spec.id = FunctionId(id);
  spec.name = {kTenant, name};
  spec.code_sha256 = code;
  spec.code_size = Bytes(100);
  return spec;
}

Alias alias(const std::string& name, const std::string& version, const std::string& second = "",
            double share = 0) {
  return {.function = {kTenant, "f"},
          .name = name,
          .description = "",
          .version = version,
          .second = second,
          .second_share = share};
}

class AliasesTest : public testing::Test {
 protected:
  AliasesTest() {
    functions_.put(function(1, "f"));
    functions_.put(function(2, "f-2"));
    functions_.put(function(3, "f:1", "other"));
    functions_.put(function(4, "f:10", "other"));
    functions_.put(function(5, "f:2"));
    functions_.put(function(6, "g"));
  }
  std::string resolved(const std::string& name, double point = 0) {
    const auto found = resolve({kTenant, name}, point, functions_, aliases_);
    return found.ok() ? found->name : std::string(name_of(found.error().code));
  }

  FunctionRegistry functions_;
  Aliases aliases_;
};

TEST_F(AliasesTest, AModelIsServedByItsVersionByTheServingOnesOrByTheFunction) {
  const auto served = [this](const std::string& name, const std::string& version,
                             double point = 0) {
    const auto found = resolve_model({kTenant, name}, version, point, functions_, aliases_);
    return found.ok() ? found->name : found.error().message;
  };
  EXPECT_EQ(served("f", ""), "f");
  EXPECT_EQ(served("f", "2"), "f:2");
  EXPECT_EQ(served("f", "$LATEST"), "f");
  EXPECT_EQ(served("f", "3"), "model 'f' has no version 3; it has 1,2,10");
  EXPECT_EQ(served("f", "x"), "model 'f' has no version x; it has 1,2,10");
  EXPECT_EQ(served("f", "01"), "model 'f' has no version 01; it has 1,2,10");
  aliases_.put(alias("serving", "10", "2", 0.25));
  EXPECT_EQ(served("f", "", 0.1), "f:2");
  EXPECT_EQ(served("f", "", 0.9), "f:10");
  EXPECT_EQ(served("f", "1"), "f:1");
  EXPECT_EQ(served("f:$LATEST", ""), "f") << "a qualifier decides";
  EXPECT_EQ(served("f:2", "9"), "f:2") << "which has no such version, and says so";
  EXPECT_EQ(served("g", "1"), "g") << "without versions it takes whatever it is";
  EXPECT_EQ(served("g", "7"), "g");
  EXPECT_EQ(resolve_model({kTenant, "nobody"}, "1", 0, functions_, aliases_).error().code,
            ErrorCode::kNotFound);
}

TEST_F(AliasesTest, AQualifierIsAVersionAnAliasOrTheLatest) {
  aliases_.put(alias("prod", "2"));
  aliases_.put(alias("dev", "$LATEST"));
  EXPECT_EQ(resolved("f"), "f");
  EXPECT_EQ(resolved("f:$LATEST"), "f");
  EXPECT_EQ(resolved("f:10"), "f:10");
  EXPECT_EQ(resolved("f:prod"), "f:2");
  EXPECT_EQ(resolved("f:dev"), "f");
  EXPECT_EQ(resolved("g:prod"), "NOT_FOUND") << "an alias is of one function";
  EXPECT_EQ(resolved("nobody:1"), "NOT_FOUND");
  for (const char* bad : {"f:", "f:3", "f:01", "f:1:1", "f:10:prod"}) {
    EXPECT_EQ(resolved(bad), std::string(bad) == "f:" ? "f" : "NOT_FOUND") << bad;
  }
}

TEST_F(AliasesTest, WhatIsNotThereIsToldWithWhatIs) {
  aliases_.put(alias("prod", "2"));
  const auto found = resolve({kTenant, "f:produ"}, 0, functions_, aliases_);
  EXPECT_EQ(found.error().message,
            "function 'f' has no version or alias 'produ'; it has $LATEST, 1, 2, 10, prod");
}

TEST_F(AliasesTest, ThePointChoosesOfTwoVersions) {
  aliases_.put(alias("prod", "1", "2", 0.25));
  EXPECT_EQ(resolved("f:prod", 0.24), "f:2");
  EXPECT_EQ(resolved("f:prod", 0.25), "f:1");
  aliases_.remove({kTenant, "f"}, "prod");
  EXPECT_EQ(resolved("f:prod", 0.24), "NOT_FOUND");
  EXPECT_EQ(aliases_.count({kTenant, "f"}), 0u);
}

TEST_F(AliasesTest, AFunctionsVersionsAreListedByNumberAndNotAmongFunctions) {
  std::vector<std::string> names;
  for (const FunctionSpec* version : functions_.versions({kTenant, "f"})) {
    names.push_back(version->name.name);
  }
  EXPECT_THAT(names, testing::ElementsAre("f:1", "f:2", "f:10"));
  EXPECT_EQ(functions_.list(kTenant, "", 10).size(), 3u);
  EXPECT_THAT(functions_.get({kTenant, "f:3"}).error().message,
              testing::Not(HasSubstr("did you mean 'f:")));
}

TEST_F(AliasesTest, CodeThatVersionsHaveInCommonIsCountedOnce) {
  const FunctionTotals totals = functions_.totals(kTenant);
  EXPECT_EQ(totals.functions, 3u);
  // f, f-2 and g; f:1 and f:10 have other code, and f:2 has that of f.
  EXPECT_EQ(totals.code, Bytes(400));
}

TEST(Revisions, OnlyTheLastOnesAreKept) {
  Revisions revisions;
  for (uint64_t i = 1; i <= kRevisionsKept + 3; ++i) {
    FunctionSpec spec = function(1, "f", "code-" + std::to_string(i));
    spec.revision = i;
    revisions.keep(spec);
  }
  const auto kept = revisions.list(FunctionId(1));
  ASSERT_EQ(kept.size(), kRevisionsKept);
  EXPECT_EQ(kept.front().revision, 4u);
  EXPECT_TRUE(revisions.codes().contains("code-4"));
  EXPECT_FALSE(revisions.codes().contains("code-3"));
  revisions.remove(FunctionId(1));
  EXPECT_FALSE(revisions.codes().contains("code-4"));
  EXPECT_TRUE(revisions.list(FunctionId(1)).empty());
}

TEST(SameDeployment, IsOneWithTheSameCodeAndSettings) {
  FunctionSpec one = function(1, "f");
  FunctionSpec other = one;
  other.revision = 9;
  other.last_modified = seconds(5);
  EXPECT_TRUE(is_same_deployment(one, other));
  other.environment["A"] = "1";
  EXPECT_FALSE(is_same_deployment(one, other));
  other = one;
  other.code_sha256 = "new";
  EXPECT_FALSE(is_same_deployment(one, other));
}

}  // namespace
}  // namespace lambent::worker
