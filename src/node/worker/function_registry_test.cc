#include "node/worker/function_registry.h"

#include <gtest/gtest.h>

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
  EXPECT_EQ(registry.all().size(), 1u);
  registry.remove({TenantId(1), "a"});
  EXPECT_TRUE(registry.all().empty());
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
