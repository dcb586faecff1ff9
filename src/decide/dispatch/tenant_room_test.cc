#include "decide/dispatch/tenant_room.h"

#include <gtest/gtest.h>

#include "decide/dispatch/testing/parts.h"

namespace lambent::dispatch {
namespace {

constexpr FunctionId kOnGpu{1};
constexpr FunctionId kOnHost{2};
constexpr FunctionId kOthers{3};

class TenantRooms : public testing::Test {
 protected:
  TenantRooms() {
    limit({.gpu_memory = Bytes::gib(8), .host_memory = Bytes::gib(8)});
    for (DevicePool* pool : parts_.pools.all()) pool->count_for_tenants();
    add(kOnGpu, kTenant, Bytes::gib(2));
    add(kOnHost, kTenant, Bytes(0));
    add(kOthers, TenantId{5}, Bytes::gib(2));
  }

  void limit(const scheduling::RunQuotas& quotas) {
    parts_.tenants.change(kTenant, 1, quotas, parts_.log.now());
  }
  void add(FunctionId function, TenantId tenant, Bytes memory) {
    parts_.functions.registered({{.id = function,
                                  .tenant = tenant,
                                  .max_concurrency = 4,
                                  .device_memory = memory,
                                  .host_memory = Bytes::gib(1)}});
  }
  const scheduling::TenantAccount& account() const { return parts_.tenants[0]; }
  std::vector<SandboxId> stopped() const {
    std::vector<SandboxId> ids;
    for (const StopSandbox& stop : parts_.got<StopSandbox>()) ids.push_back(stop.sandbox);
    return ids;
  }

  static constexpr TenantId kTenant{9};
  Parts parts_{one_gpu(scheduling::MemoryRule::kEverySandbox)};
};

TEST_F(TenantRooms, CountSandboxesOfBothPoolsFromTheirPlanToTheirStop) {
  parts_.submit(1, kOnGpu);
  parts_.dispatch(kOnGpu);
  EXPECT_EQ(account().at_work, (scheduling::TenantMemory{Bytes::gib(2), Bytes::gib(1)}));
  parts_.run_one(2, kOnHost);
  EXPECT_EQ(account().at_work.host, Bytes::gib(1));
  EXPECT_EQ(account().idle, (scheduling::TenantMemory{Bytes(0), Bytes::gib(1)}));
  EXPECT_EQ(account().running, 1u);
  parts_.pools.host.stop_idle(kOnHost, StopReason::kIdle);
  EXPECT_EQ(account().idle, scheduling::TenantMemory{});
}

TEST_F(TenantRooms, EvictTheOneUsedLeastRecentlyOfTheirOwnAndNobodyElses) {
  parts_.run_one(1, kOthers);
  parts_.at(1);
  const SandboxId on_host = parts_.run_one(2, kOnHost);
  parts_.at(2);
  const SandboxId on_gpu = parts_.run_one(3, kOnGpu);
  parts_.at(3);
  limit({.host_memory = Bytes::gib(1)});
  parts_.room.settle();
  EXPECT_EQ(stopped(), std::vector{on_host});
  parts_.at(4);
  parts_.room.make_room(0, {.gpu = Bytes(0), .host = Bytes::gib(1)});
  EXPECT_EQ(stopped(), std::vector{on_gpu});
}

TEST_F(TenantRooms, GiveUpNoSandboxWithoutGpuWhereGpuMemoryIsShort) {
  parts_.run_one(1, kOnHost);
  parts_.at(1);
  const SandboxId on_gpu = parts_.run_one(2, kOnGpu);
  parts_.at(2);
  limit({.gpu_memory = Bytes::gib(1)});
  parts_.room.settle();
  EXPECT_EQ(stopped(), std::vector{on_gpu});
}

TEST_F(TenantRooms, LeaveSandboxesAtWorkUntilTheyRest) {
  parts_.submit(1, kOnGpu);
  parts_.dispatch(kOnGpu);
  limit({.gpu_memory = Bytes::gib(1)});
  parts_.room.settle();
  EXPECT_TRUE(stopped().empty());
}

}  // namespace
}  // namespace lambent::dispatch
