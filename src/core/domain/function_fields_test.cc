// Every member of a function is described, once, and reaches every representation that it has to.
#include "core/domain/function_fields.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <utility>

#include "core/base/testing/members.h"
#include "core/domain/function_words.h"
#include "core/domain/testing/every_field.h"

namespace lambent {
namespace {

// Where a field is; a CPU variant begins where the optional around it does.
using Place = std::pair<const void*, size_t>;

// Calls `take` with the description and the place of every field.
template <typename Take>
struct Each {
  Take take;

  template <typename Value>
  void operator()(const FunctionField& field, const Value& value) {
    take(field, Place(&value, sizeof value));
  }
  void operator()(const FunctionField& field, const std::optional<CpuVariant>& value) {
    take(field, Place(&value, sizeof value));
    if (value) visit_cpu_variant(*this, *value);
  }
};
template <typename Take>
void for_each_field(const FunctionSpec& spec, Take take) {
  Each<Take> each{take};
  visit_fields(each, spec);
}

static_assert(members<FunctionName>() == 2);

TEST(FunctionFields, DescribeEveryMember) {
  size_t described = 0;
  std::set<Place> places;
  const FunctionSpec spec = with_every_field_set();
  for_each_field(spec, [&](const FunctionField&, const Place& place) {
    ++described;
    places.insert(place);
  });
  // Members that consist of others are described by these, but whether there is a CPU variant is a
  // field of its own.
  const size_t leaves = members<FunctionSpec>() - 5 + members<FunctionName>() +
                        members<GpuNeeds>() + members<CpuVariant>() + members<HttpContract>() +
                        members<FunctionUrl>() + members<AsyncSettings>();
  EXPECT_EQ(described, leaves);
  EXPECT_EQ(places.size(), described) << "one field is described twice";
}

TEST(FunctionFields, HaveANameOfTheirOwnInEveryRepresentation) {
  std::map<std::string_view, std::set<std::string_view>> taken;
  for_each_field(with_every_field_set(), [&](const FunctionField& field, const Place&) {
    EXPECT_FALSE(field.column.empty());
    const std::pair<std::string_view, std::string_view> names[] = {{"column", field.column},
                                                                   {"key", field.key},
                                                                   {"tag", field.tag},
                                                                   {"lambda", field.lambda},
                                                                   {"native", field.native}};
    for (const auto& [representation, name] : names) {
      const bool is_new = name.empty() || taken[representation].insert(name).second;
      EXPECT_TRUE(is_new) << representation << " " << name;
    }
  });
}

TEST(FunctionFields, ASettingHasAKeyAndReachesTheWorkerInOneWay) {
  for_each_field(with_every_field_set(), [&](const FunctionField& field, const Place&) {
    if (field.role != FieldRole::kSetting) return;
    EXPECT_FALSE(field.key.empty()) << field.column;
    if (field.column == "tag") return;  // Lambda's own tags have calls of their own
    EXPECT_NE(field.tag.empty(), field.lambda.empty()) << field.column;
  });
}

TEST(FunctionFields, OnlyASettingIsGivenByATag) {
  for_each_field(with_every_field_set(), [&](const FunctionField& field, const Place&) {
    if (field.role == FieldRole::kSetting) return;
    EXPECT_TRUE(field.tag.empty()) << field.column;
  });
}

// Compares the fields of two functions.
struct ExpectOther {
  template <typename Value>
  void operator()(const FunctionField& field, const Value& one, const Value& other) {
    EXPECT_NE(one, other) << field.column;
  }
};

TEST(FunctionFields, OfTwoFunctionsAreVisitedInPairs) {
  const FunctionSpec one;
  const FunctionSpec other = with_every_field_set();
  ExpectOther expect;
  visit_fields(expect, one, other);
  const CpuVariant none;
  visit_cpu_variant(expect, none, *other.cpu_variant);
}

TEST(FunctionWords, AreReadAsTheyAreNamed) {
  EXPECT_EQ(value_named<Runtime>("python"), Runtime::kPython);
  EXPECT_EQ(value_named<GpuNeeds::LaunchMode>("model"), GpuNeeds::LaunchMode::kModel);
  EXPECT_EQ(value_named<WorkingSet>("touched"), WorkingSet::kTouched);
  EXPECT_EQ(value_named<MemoryMode>("swap"), std::nullopt);
}

TEST(FunctionWords, AreListedForMessages) {
  EXPECT_EQ(list_of_words<FunctionKind>(), "handler, kernel, workflow, pipeline or http");
  EXPECT_EQ(list_of_words<MemoryMode>("'"), "'vmm', 'uvm' or 'off'");
  EXPECT_EQ(list_of_words<GpuRuntime>(), "own or shared");
}

}  // namespace
}  // namespace lambent
