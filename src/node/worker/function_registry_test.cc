#include "node/worker/function_registry.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>

namespace lambent::worker {
namespace {

FunctionSpec spec_of(uint32_t id, uint32_t tenant, const std::string& name) {
  FunctionSpec spec;
  spec.id = FunctionId(id);
  spec.name = {TenantId(tenant), name};
  spec.code_sha256 = "sha-" + name;
  return spec;
}

TEST(FunctionRegistry, TenantsDoNotSeeEachOthersNames) {
  FunctionRegistry registry;
  registry.put(spec_of(1, 1, "resize"));
  EXPECT_NE(registry.find(FunctionName{TenantId(1), "resize"}), nullptr);
  EXPECT_EQ(registry.find(FunctionName{TenantId(2), "resize"}), nullptr);
  const auto missing = registry.get({TenantId(2), "resise"});
  EXPECT_EQ(missing.error().message, "function 'resise' does not exist");
}

TEST(FunctionRegistry, SuggestsTheClosestName) {
  FunctionRegistry registry;
  registry.put(spec_of(1, 1, "resize"));
  EXPECT_EQ(registry.get({TenantId(1), "resise"}).error().message,
            "function 'resise' does not exist; did you mean 'resize'?");
  // Of a short name, two letters are all.
  registry.put(spec_of(2, 1, "go"));
  EXPECT_EQ(registry.get({TenantId(1), "c1"}).error().message, "function 'c1' does not exist");
  EXPECT_EQ(registry.get({TenantId(1), "g"}).error().message,
            "function 'g' does not exist; did you mean 'go'?");
}

TEST(FunctionRegistry, ListsInPagesInOrderOfName) {
  FunctionRegistry registry;
  uint32_t id = 1;
  for (const char* name : {"d", "b", "a", "c"}) registry.put(spec_of(id++, 1, name));
  registry.put(spec_of(9, 2, "b2"));
  const auto first = registry.list(TenantId(1), "", 2);
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[1].name.name, "b");
  const auto second = registry.list(TenantId(1), "b", 10);
  ASSERT_EQ(second.size(), 2u);
  EXPECT_EQ(second[1].name.name, "d");
}

TEST(FunctionRegistry, ForgetsRemovedFunctions) {
  FunctionRegistry registry;
  registry.put(spec_of(1, 1, "a"));
  EXPECT_EQ(registry.size(), 1u);
  registry.remove({TenantId(1), "a"});
  EXPECT_EQ(registry.size(), 0u);
  EXPECT_EQ(registry.find(FunctionId(1)), nullptr);
}

TEST(FunctionRegistry, TotalsAreOfOneTenant) {
  FunctionRegistry registry;
  for (const auto& [id, tenant, name] :
       {std::tuple(1, 1, "a"), std::tuple(2, 1, "b"), std::tuple(3, 2, "a")}) {
    FunctionSpec spec = spec_of(static_cast<uint32_t>(id), static_cast<uint32_t>(tenant), name);
    spec.code_size = Bytes(static_cast<uint64_t>(10 * id));
    registry.put(spec);
  }
  EXPECT_EQ(registry.totals(TenantId(1)).functions, 2u);
  EXPECT_EQ(registry.totals(TenantId(1)).code, Bytes(30));
  EXPECT_EQ(registry.totals(TenantId(3)).functions, 0u);
}

// What a walk over all of a tenant's records says; slower, and plainly right.
FunctionTotals walked(const FunctionRegistry& registry, TenantId tenant) {
  FunctionTotals totals;
  std::map<std::string, std::set<std::string>> counted;
  registry.for_each([&](const FunctionSpec& spec) {
    if (spec.name.tenant != tenant) return;
    const std::string function = spec.name.name.substr(0, spec.name.name.find(':'));
    const bool is_version = function != spec.name.name;
    const bool is_new = counted[function].insert(spec.code_sha256).second;
    if (!is_version) totals.functions += spec.name.name.starts_with("graph@") ? 0 : 1;
    if (!is_version || is_new) totals.code += spec.code_size;
  });
  return totals;
}

TEST(FunctionRegistry, TotalsThatAreKeptAreThoseOfAWalkOverAll) {
  FunctionRegistry registry;
  uint32_t state = 7;
  const auto below = [&](uint32_t most) {
    state = state * 1'664'525 + 1'013'904'223;
    return (state >> 8) % most;
  };
  for (int step = 0; step < 3000; ++step) {
    const uint32_t tenant = 1 + below(2);
    std::string name = below(8) == 0 ? "graph@ab" : "f" + std::to_string(below(4));
    if (name[0] == 'f' && below(2) == 0) name += ":" + std::to_string(1 + below(5));
    if (below(3) == 0) {
      registry.remove({TenantId(tenant), name});
    } else {
      FunctionSpec spec = spec_of(tenant * 100 + below(90), tenant, name);
      if (const FunctionSpec* there = registry.find(spec.name)) spec.id = there->id;
      const uint32_t code = below(4);
      spec.code_sha256 = "code-" + std::to_string(code);
      spec.code_size = Bytes(uint64_t{1} << (4 * code));
      registry.put(spec);
    }
    for (const TenantId each : {TenantId(1), TenantId(2)}) {
      const FunctionTotals kept = registry.totals(each);
      const FunctionTotals expected = walked(registry, each);
      ASSERT_EQ(kept.functions, expected.functions) << "step " << step;
      ASSERT_EQ(kept.code, expected.code) << "step " << step;
    }
  }
}

TEST(FunctionRegistry, TellsWhichCodeNoFunctionHasAnyMore) {
  FunctionRegistry registry;
  FunctionSpec spec = spec_of(1, 1, "a");
  FunctionSpec same = spec_of(2, 1, "b");
  same.code_sha256 = spec.code_sha256;
  registry.put(spec);
  registry.put(same);
  EXPECT_TRUE(registry.codes().take_released().empty());
  registry.remove(same.name);
  EXPECT_TRUE(registry.codes().take_released().empty()) << "the other has it";
  EXPECT_TRUE(registry.codes().contains("sha-a"));
  ++spec.revision;
  registry.put(spec);
  EXPECT_TRUE(registry.codes().take_released().empty()) << "it is the same";
  spec.code_sha256 = "new";
  registry.put(spec);
  EXPECT_EQ(registry.codes().take_released(), std::vector<std::string>{"sha-a"});
  EXPECT_FALSE(registry.codes().contains("sha-a"));
}

TEST(FunctionRegistry, KnowsThoseWithInstances) {
  FunctionRegistry registry;
  FunctionSpec spec = spec_of(1, 1, "a");
  registry.put(spec);
  EXPECT_TRUE(registry.with_instances().empty());
  spec.min_instances = 2;
  registry.put(spec);
  ASSERT_EQ(registry.with_instances().size(), 1u);
  EXPECT_EQ(registry.with_instances()[0].min_instances, 2u);
  registry.remove(spec.name);
  EXPECT_TRUE(registry.with_instances().empty());
}

TEST(FunctionRegistry, OneChangeAtATimePerName) {
  FunctionRegistry registry;
  EXPECT_TRUE(registry.begin_change({TenantId(1), "a"}));
  EXPECT_FALSE(registry.begin_change({TenantId(1), "a"}));
  EXPECT_TRUE(registry.begin_change({TenantId(2), "a"}));
  registry.end_change({TenantId(1), "a"});
  EXPECT_TRUE(registry.begin_change({TenantId(1), "a"}));
}

TEST(FunctionRegistry, KnowsSinceWhichRevisionSandboxesServe) {
  FunctionRegistry registry;
  FunctionSpec spec = spec_of(1, 1, "resize");
  EXPECT_EQ(registry.sandbox_revision(FunctionId(1)), 0u);
  const auto put = [&](auto change) {
    ++spec.revision;
    change(spec);
    registry.put(spec);
    return registry.sandbox_revision(FunctionId(1));
  };
  EXPECT_EQ(put([](auto&) {}), 2u);
  EXPECT_EQ(put([](auto& s) { s.weight = 2; }), 2u);
  EXPECT_EQ(put([](auto& s) { s.tags["team"] = "vision"; }), 2u);
  EXPECT_EQ(put([](auto& s) { s.code_sha256 = "other"; }), 5u);
  registry.remove(spec.name);
  EXPECT_EQ(registry.sandbox_revision(FunctionId(1)), 0u);
}

}  // namespace
}  // namespace lambent::worker
