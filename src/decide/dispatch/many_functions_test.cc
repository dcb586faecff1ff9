// What an event costs, and what dispatch takes, where a node has many functions and tenants that
// rest. Costs are compared within one run, of one thread's own processor time.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <ctime>
#include <memory>

#include "decide/dispatch/dispatcher.h"
#include "decide/scheduling/make_policy.h"

namespace lambent::dispatch {
namespace {

// As many functions as a node has, of its tenants in turn; each tenth uses a GPU.
class Node {
 public:
  Node(std::string_view policy, uint32_t functions, uint32_t tenants) : tenants_(tenants) {
    DispatchOptions options;
    options.fleet.devices.push_back(
        {.id = DeviceId{1}, .memory = Bytes::gib(64), .tokens = 2, .contexts = 1'000});
    options.fleet.most_sandboxes = 1'000;
    options.keep_alive = seconds(1'000'000);
    options.longest_wait = seconds(1'000'000);
    dispatcher_ =
        std::make_unique<Dispatcher>(options, std::move(scheduling::make_policy(policy)).value());
    for (uint32_t tenant = 1; tenant <= tenants; ++tenant) {
      handle(TenantChanged{.tenant = TenantId{tenant}, .weight = 1, .concurrency = 1});
    }
    for (uint32_t id = 1; id <= functions; ++id) {
      handle(FunctionRegistered{{.id = FunctionId{id},
                                 .tenant = TenantId{1 + id % tenants_},
                                 .device_memory = Bytes::mib(id % 10 == 0 ? 64 : 0),
                                 .timeout = seconds(1'000)}});
    }
  }

  // From its submission to its end; a new sandbox the first time.
  void call(uint32_t function) {
    handle(InvocationSubmitted{{0, ++ids_}, FunctionId{function}});
    for (const Action& action : std::vector(actions_)) {
      if (const auto* start = std::get_if<StartSandbox>(&action)) {
        handle(SandboxReady{start->sandbox});
      }
    }
    now_ += milliseconds(1);
    handle(InvocationFinished{{0, ids_}, milliseconds(1), true});
  }
  void change_tenant(uint32_t tenant, uint64_t concurrency) {
    handle(TenantChanged{.tenant = TenantId{tenant}, .weight = 1, .concurrency = concurrency});
  }
  const Dispatcher& dispatcher() const { return *dispatcher_; }

 private:
  void handle(const Event& event) {
    actions_.clear();
    dispatcher_->handle(event, now_, actions_);
  }

  uint32_t tenants_;
  std::unique_ptr<Dispatcher> dispatcher_;
  std::vector<Action> actions_;
  Instant now_{};
  uint64_t ids_ = 0;
};

double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// The least of a few, so that what else the machine does hardly counts.
template <typename Work>
double cost_of(Work work) {
  double least = 1e9;
  for (int round = 0; round < 9; ++round) {
    const double before = processor_seconds();
    for (int i = 0; i < 200; ++i) work();
    least = std::min(least, processor_seconds() - before);
  }
  return least;
}

class ManyFunctions : public testing::TestWithParam<std::string_view> {};

// With a walk over all functions or tenants it is hundreds of times as much.
constexpr double kMostRatio = 12;

TEST_P(ManyFunctions, ACallCostsTheSameHoweverManyRest) {
  Node few(GetParam(), 20, 10);
  Node many(GetParam(), 60'000, 20'000);
  const auto calls = [](Node& node, uint32_t last) {
    // With a GPU and without, of two tenants, which their quotas begin and cease to hold.
    node.call(last);
    node.call(last - 1);
  };
  calls(few, 20);
  calls(many, 60'000);
  const double of_few = cost_of([&] { calls(few, 20); });
  const double of_many = cost_of([&] { calls(many, 60'000); });
  EXPECT_LT(of_many, kMostRatio * of_few);
}

TEST_P(ManyFunctions, AChangeOfATenantCostsTheSameHoweverManyThereAre) {
  Node few(GetParam(), 20, 10);
  Node many(GetParam(), 60'000, 20'000);
  uint64_t quota = 1;
  const double of_few = cost_of([&] { few.change_tenant(3, ++quota); });
  const double of_many = cost_of([&] { many.change_tenant(3, ++quota); });
  EXPECT_LT(of_many, kMostRatio * of_few);
}

// What a tenant has of its own grows with its own functions, not with those of all.
TEST_P(ManyFunctions, TakeRoomOnceHoweverManyTenantsCallTheirs) {
  constexpr uint32_t kFunctions = 20'000;
  constexpr uint32_t kTenants = 2'000;
  Node node(GetParam(), kFunctions, kTenants);
  const auto taken = [] {
    const auto all = mallinfo2();
    return all.uordblks + all.hblkhd;
  };
  const size_t before = taken();
  for (uint32_t id = kFunctions - kTenants + 1; id <= kFunctions; ++id) {
    if (id % 10 == 0) node.call(id);
  }
  // A number for each function in each of these 200 tenants would be 16 MB, in each heap.
  EXPECT_LT(taken(), before + Bytes::mib(8).count);
}

INSTANTIATE_TEST_SUITE_P(Policies, ManyFunctions, testing::Values("density", "mqfq-sticky"),
                         [](const auto& each) {
                           std::string name(each.param);
                           std::erase(name, '-');
                           return name;
                         });

// The quota of a tenant that was told of before it had a function, while others were served.
TEST(ManyTenants, AQuotaHoldsFlowsThatCameLongAfterIt) {
  DispatchOptions options;
  options.fleet.devices.push_back(
      {.id = DeviceId{1}, .memory = Bytes::gib(64), .tokens = 4, .contexts = 64});
  Dispatcher dispatcher(options, std::move(scheduling::make_policy("mqfq-sticky")).value());
  std::vector<Action> actions;
  const auto handle = [&](const Event& event) {
    actions.clear();
    dispatcher.handle(event, Instant{}, actions);
  };
  const auto deploy = [&](uint32_t id, uint32_t tenant) {
    handle(FunctionRegistered{{.id = FunctionId{id},
                               .tenant = TenantId{tenant},
                               .device_memory = Bytes::gib(2),
                               .timeout = seconds(100)}});
  };
  deploy(1, 1);
  handle(TenantChanged{.tenant = TenantId{2}, .weight = 1, .gpu_memory = Bytes::gib(3)});
  handle(InvocationSubmitted{{0, 1}, FunctionId{1}});
  deploy(2, 2);
  deploy(3, 2);
  handle(InvocationSubmitted{{0, 2}, FunctionId{2}});
  handle(InvocationSubmitted{{0, 3}, FunctionId{3}});
  EXPECT_EQ(dispatcher.fleet().all().size(), 2u) << "the third would be beyond the quota";
  EXPECT_EQ(dispatcher.queued(), 1u);
}

}  // namespace
}  // namespace lambent::dispatch
