#include "core/domain/version.h"
#include "core/domain/function_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/domain/function_record.h"

namespace lambent {
namespace {

using testing::HasSubstr;

Alias alias(std::string version, std::string second = "", double share = 0) {
  return {.function = {},
          .name = "prod",
          .description = "",
          .version = std::move(version),
          .second = std::move(second),
          .second_share = share};
}

TEST(Version, ARecordsNameTellsItsFunctionAndItsNumber) {
  const FunctionName record = version_record({TenantId(3), "hello"}, 12);
  EXPECT_EQ(record.name, "hello:12");
  EXPECT_EQ(function_of(record), (FunctionName{TenantId(3), "hello"}));
  EXPECT_EQ(version_of(record), "12");
  EXPECT_TRUE(is_version_record(record));
  EXPECT_EQ(version_of({TenantId(3), "hello"}), "$LATEST");
  EXPECT_EQ(split_qualifier("hello:prod").qualifier, "prod");
  EXPECT_EQ(split_qualifier("hello").qualifier, "");
}

TEST(Version, OnlyANumberFromOneOnIsAVersion) {
  EXPECT_EQ(version_number("17"), 17u);
  for (const char* text : {"", "0", "01", "-1", "1a", "99999999999999999999999", "$LATEST"}) {
    EXPECT_FALSE(version_number(text)) << text;
  }
}

TEST(Version, AnAliasNeedsANameThatIsNoVersionAndSharesThatAddUp) {
  EXPECT_TRUE(validate(alias("1")).ok());
  EXPECT_TRUE(validate(alias("$LATEST")).ok());
  EXPECT_TRUE(validate(alias("1", "2", 0.05)).ok());
  EXPECT_THAT(validate(alias("prod")).error().message, HasSubstr("is no version"));
  EXPECT_THAT(validate(alias("1", "2", 0)).error().message, HasSubstr("add up"));
  EXPECT_THAT(validate(alias("1", "2", 1)).error().message, HasSubstr("add up"));
  EXPECT_THAT(validate(alias("1", "", 0.5)).error().message, HasSubstr("needs the version"));
  EXPECT_THAT(validate(alias("1", "1", 0.5)).error().message, HasSubstr("no share"));
  EXPECT_THAT(validate(alias("$LATEST", "1", 0.5)).error().message, HasSubstr("$LATEST has none"));
  for (const char* name : {"", "12", "a:b", "a b", "$LATEST"}) {
    Alias named = alias("1");
    named.name = name;
    EXPECT_FALSE(validate(named).ok()) << name;
  }
}

TEST(Version, TheSecondVersionGetsItsShareOfTheInvocations) {
  const Alias both = alias("1", "2", 0.25);
  int second = 0;
  for (int i = 0; i < 100; ++i) second += choose_version(both, i / 100.0) == "2" ? 1 : 0;
  EXPECT_EQ(second, 25);
  EXPECT_EQ(choose_version(alias("1"), 0), "1");
}

TEST(FunctionRecord, GivesBackTheFunctionThatItWasMadeOf) {
  FunctionSpec spec;
  spec.id = FunctionId(7);
  spec.name = {TenantId(2), "hello"};
  spec.kind = FunctionKind::kHttp;
  spec.revision = 41;
  spec.environment = {{"A", "1"}, {"B", "\xc3\xa9"}};
  spec.tags = {{"team", "red"}};
  spec.gpu.memory = Bytes::gib(3);
  spec.gpu.working_set = WorkingSet::kTouched;
  spec.cpu_variant = CpuVariant{.handler = "app.cpu", .gpu_speedup = 7.5};
  spec.timeout = seconds(77);
  spec.weight = 2.5;
  spec.code_sha256 = "abc";
  spec.last_modified = seconds(1'700'000'000);
  const auto read = function_from_record(to_record(spec));
  ASSERT_TRUE(read.ok()) << to_string(read.error());
  EXPECT_EQ(*read, spec);
}

TEST(FunctionRecord, TakesTextsOfBeforeAndRefusesWhatIsDamaged) {
  const auto old = function_from_record(R"({"name": "hello", "not_known": [1]})");
  ASSERT_TRUE(old.ok());
  EXPECT_EQ(old->name.name, "hello");
  EXPECT_EQ(old->timeout, limits::kDefaultTimeout);
  for (const char* text : {"", "[]", "{", R"({"name": 3})", R"({"kind": "song"})",
                           R"({"timeout_ns": "x"})", R"({"revision": -1})"}) {
    const auto read = function_from_record(text);
    EXPECT_EQ(read.ok(), false) << text;
  }
}

}  // namespace
}  // namespace lambent
