// Every event and action describes all of its members, and hashes as it always did: journals keep
// these numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <type_traits>

#include "core/base/testing/members.h"
#include "decide/dispatch/log_hash.h"

namespace lambent::dispatch {
namespace {

// Counts names, whatever the fields are, and keeps where each field is.
struct Counter {
  size_t names = 0;
  std::set<const void*> places = {};

  template <typename... Fields>
  void count(std::string_view text, const Fields&... fields) {
    names += 1 + static_cast<size_t>(std::count(text.begin(), text.end(), ','));
    (places.insert(&fields), ...);
  }
  template <typename Field>
  void operator()(std::string_view name, const Field& field) {
    count(name, field);
  }
  template <unsigned, typename Field>
  void flag(std::string_view name, const Field& field) {
    count(name, field);
  }
  template <typename... Bools>
  void flags(std::string_view text, const Bools&... bools) {
    count(text, bools...);
  }
  template <typename... Bools>
  void bits(std::string_view text, const Bools&... bools) {
    count(text, bools...);
  }
  void within(std::string_view name, const double& field, double, double) { count(name, field); }
  template <typename Field>
  void unhashed(std::string_view name, const Field& field) {
    count(name, field);
  }
  template <typename Field>
  void maybe(std::string_view name, const std::optional<Field>& field) {
    count(name, field);
  }
  template <unsigned, typename Field>
  void unless_zero(std::string_view name, const Field& field) {
    count(name, field);
  }
  template <unsigned, typename Fields>
  void part(bool, Fields fields) {
    fields(*this);
  }
  template <typename Fields>
  void only_if(bool, Fields fields) {
    fields(*this);
  }
};

template <typename Kind>
size_t described() {
  const Kind value{};
  Counter counter;
  Kind::fields(value, counter);
  EXPECT_EQ(counter.places.size(), counter.names) << "one field under two names, or two under one";
  return counter.names;
}

static_assert(members<MemoryWanted>() == 2);

template <typename Variant>
struct Each;
template <typename... Kinds>
struct Each<std::variant<Kinds...>> {
  static void expect_all_members_described() { (expect<Kinds>(), ...); }
  template <typename Kind>
  static void expect() {
    // Members that consist of others are described by these.
    constexpr size_t kPhases = std::is_same_v<Kind, CompleteInvocation> ? members<Phases>() - 1 : 0;
    if constexpr (std::is_same_v<Kind, FunctionRegistered>) {
      // Whether there is a gpu_count, and numbers of starts, is told apart from them.
      EXPECT_EQ(described<Kind>(), members<FunctionProfile>() + 2);
    } else {
      EXPECT_EQ(described<Kind>(), members<Kind>() + kPhases) << Kind::kName;
    }
  }
};

TEST(Fields, DescribeEveryMember) {
  Each<Event>::expect_all_members_described();
  Each<Action>::expect_all_members_described();
}

// The only fields that two logs may differ in and have the same hash.
TEST(LogHash, LeavesOutTheErrorOfAnExitAndTheTypeThatAnOutcomeCarries) {
  const auto of_exit = [](Error error, std::string type) {
    LogHash hash;
    hash.add(SandboxExited{SandboxId{1}, std::move(error), std::move(type)}, Instant{});
    return hash.value();
  };
  EXPECT_EQ(of_exit({ErrorCode::kUnknown, "a"}, "A"), of_exit({ErrorCode::kUnavailable, "b"}, "B"));
  const auto of_outcome = [](Error error, std::string type) {
    LogHash hash;
    hash.add(CompleteInvocation{.invocation = {1, 2}, .error = error, .error_type = type});
    return hash.value();
  };
  EXPECT_EQ(of_outcome({ErrorCode::kUnknown, "a"}, "A"),
            of_outcome({ErrorCode::kUnknown, "b"}, "B"));
  EXPECT_NE(of_outcome({ErrorCode::kUnknown, "a"}, "A"),
            of_outcome({ErrorCode::kUnavailable, "a"}, "A"));
}

TEST(LogHash, OfActionsIsAsItAlwaysWas) {
  LogHash hash;
  const auto added = [&](const auto& action) {
    hash.add(action);
    return hash.value();
  };
  EXPECT_EQ(added(StartSandbox{SandboxId{1}, FunctionId{2}, 3, DeviceId{4}}), 0xf6980d4eb70bfe40);
  // One on several devices is another one; one on the first of them is not.
  LogHash several = hash;
  several.add(StartSandbox{.sandbox = SandboxId{1}, .device = DeviceId{4}, .beside = 2});
  LogHash one = hash;
  one.add(StartSandbox{.sandbox = SandboxId{1}, .device = DeviceId{4}});
  EXPECT_NE(several.value(), one.value());
  EXPECT_EQ(added(StartInvocation{{1, 2}, SandboxId{3}, DeviceId{4}, StartClass::kGpuCold}),
            0x939fbcf68b9f7963);
  EXPECT_EQ(added(StopSandbox{SandboxId{3}, StopReason::kRetired}), 0x3f6202308e2fdf3b);
  EXPECT_EQ(added(CompleteInvocation{{1, 2},
                                     Outcome::kRejected,
                                     Error{ErrorCode::kUnavailable, "x"},
                                     seconds(2),
                                     "E",
                                     StartClass::kCold,
                                     {seconds(1), seconds(2), seconds(3), seconds(4), seconds(5)},
                                     DeviceId{6},
                                     scheduling::WaitReason::kNone}),
            0xe44d612d0e6cdfcd);
  // Journals of before name only the first device of those that have several.
  LogHash first = hash, all = hash;
  first.add(StartInvocation{.invocation = {1, 2}});
  first.add(CompleteInvocation{.invocation = {1, 2}});
  all.add(StartInvocation{.invocation = {1, 2}, .beside = 2});
  all.add(CompleteInvocation{.invocation = {1, 2}, .beside = 2});
  EXPECT_EQ(first.value(), all.value());
  EXPECT_EQ(added(CompleteInvocation{{1, 2}}), 0x8d3c632eef483bab);
  EXPECT_EQ(added(WakeAt{Instant{seconds(9)}}), 0x5410c42ac6606ed2);
  EXPECT_EQ(added(MoveMemoryIn{SandboxId{5}}), 0xe902ddfe41b19f3a);
  EXPECT_EQ(added(MoveMemoryOut{SandboxId{5}, MoveDepth::kContext}), 0x5045a843cd544b74);
  EXPECT_EQ(added(GrantMemory{SandboxId{5}, Bytes(77)}), 0x31c77c17a150268a);
}

}  // namespace
}  // namespace lambent::dispatch
