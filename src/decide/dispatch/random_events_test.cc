// Events in any order, about anything, late, twice or never: what holds all the same. A failure
// names its seed, and the same seed makes the same events again.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "core/base/random.h"
#include "decide/dispatch/dispatcher.h"
#include "decide/scheduling/make_policy.h"

namespace lambent::dispatch {
namespace {

// A world that answers at random, and keeps count of what it was told.
class Chaos {
 public:
  Chaos(uint64_t seed, std::string_view policy)
      : random_(seed),
        tenants_(1 + seed % 3),
        dispatcher_(options(seed), std::move(scheduling::make_policy(policy)).value()) {
    for (uint32_t id = 1; id <= kFunctions; ++id) deploy(FunctionId{id});
  }

  void step() {
    now_ += milliseconds(random_.below(800));
    switch (random_.below(16)) {
      case 0:
      case 1:
      case 2:
      case 3:
        submit();
        break;
      case 4:
      case 5:
        give(SandboxReady{some(sandboxes_, SandboxId{77}), milliseconds(1), milliseconds(1)});
        break;
      case 6:
        exit(some(sandboxes_, SandboxId{77}), random_.below(2) == 0);
        break;
      case 7:
      case 8:
        give(InvocationFinished{some(submitted_, InvocationId{9, 9}),
                                milliseconds(random_.below(3000)), random_.below(5) != 0});
        break;
      case 9:
        give(InvocationCancelled{some(submitted_, InvocationId{9, 9})});
        break;
      case 10:
        give(TimerFired{});
        break;
      case 11:
        give(MemoryMoved{some(moving_, SandboxId{77}),
                         random_.below(2) == 0 ? MoveDirection::kIn : MoveDirection::kOut,
                         random_.below(4) != 0, Bytes::gib(1), Bytes::mib(random_.below(9000)),
                         Bytes::mib(random_.below(9000))});
        break;
      case 12:
        give(MemoryWanted{some(sandboxes_, SandboxId{77}), Bytes::mib(random_.below(9000))});
        break;
      case 14:
        keep();
        break;
      case 13:
        undelivered(some(submitted_, InvocationId{9, 9}));
        break;
      default:
        change_the_world();
    }
  }

  // Everything that can end does.
  void end() {
    for (int round = 0; round < 2000 && (!sandboxes_.empty() || waiting() > 0); ++round) {
      now_ += seconds(20);
      give(TimerFired{});
      for (const SandboxId id : std::vector<SandboxId>(sandboxes_)) exit(id, false);
    }
    for (uint32_t id = 1; id <= kFunctions; ++id) give(FunctionRemoved{FunctionId{id}});
    for (const SandboxId id : std::vector<SandboxId>(sandboxes_)) exit(id, false);
  }

  size_t waiting() const { return submitted_.size() - outcomes_.size(); }
  size_t submitted() const { return submitted_.size(); }
  size_t kept() const { return kept_; }
  const Dispatcher& dispatcher() const { return dispatcher_; }

 private:
  static constexpr uint32_t kFunctions = 6;
  static constexpr unsigned kMostInOne = 4;

  size_t in(SandboxId sandbox) const {
    return static_cast<size_t>(std::count_if(
        in_.begin(), in_.end(), [&](const auto& each) { return each.second == sandbox; }));
  }

  static DispatchOptions options(uint64_t seed) {
    DispatchOptions options;
    options.fleet.devices = {{.id = DeviceId{1}, .memory = Bytes::gib(10), .tokens = 2},
                             {.id = DeviceId{2}, .memory = Bytes::gib(10), .tokens = 1}};
    options.fleet.most_sandboxes = 5;
    options.fleet.starts_outside_tokens = seed % 3;
    options.fleet.memory_rule =
        seed % 2 == 0 ? scheduling::MemoryRule::kMoveIdle : scheduling::MemoryRule::kEverySandbox;
    options.fleet.host_memory = Bytes::gib(seed % 5 == 0 ? 6 : 100);
    constexpr scheduling::HybridRule kRules[] = {scheduling::HybridRule::kOff,
                                                 scheduling::HybridRule::kTopShare,
                                                 scheduling::HybridRule::kQueueing};
    options.hybrid.rule = kRules[seed / 2 % 3];
    options.host_concurrency = 2;
    options.host_sandboxes = 3;
    options.queued_per_function = 10;
    options.queued_invocations = 30;
    options.longest_wait = seconds(30);
    options.keep_alive = seconds(20);
    return options;
  }

  // One that another program left; of a function that may be none, with a number that may be wrong.
  void keep() {
    const SandboxId id{dispatcher_.next_sandbox().value + (random_.below(5) == 0 ? 1 : 0)};
    give(SandboxReady{
        .sandbox = id,
        .kept_of = FunctionId{static_cast<uint32_t>(1 + random_.below(kFunctions + 1))},
        .device = DeviceId{static_cast<uint32_t>(random_.below(4))},
        .beside = random_.below(4) == 0 ? random_.below(8) : 0,
        .memory_is_out = random_.below(2) == 0,
        .deep = random_.below(3) == 0,
        .left = Bytes::mib(random_.below(9000)),
        .offloaded = Bytes::mib(random_.below(9000))});
    const scheduling::Fleet& fleet = dispatcher_.fleet();
    if (fleet.find(id) && std::find(sandboxes_.begin(), sandboxes_.end(), id) == sandboxes_.end()) {
      sandboxes_.push_back(id);
      ++kept_;
    }
  }

  void deploy(FunctionId id) {
    give(FunctionRegistered{{.id = id,
                             .tenant = TenantId{1 + id.value % tenants_},
                             .revision = ++revisions_[id],
                             .max_concurrency = static_cast<unsigned>(1 + random_.below(3)),
                             .device_memory = Bytes::gib(random_.below(7)),
                             .timeout = seconds(3),
                             .memory_moves = random_.below(4) != 0,
                             .checkpoints = random_.below(2) == 0,
                             .has_cpu_variant = random_.below(2) == 0,
                             .gpu_speedup = static_cast<double>(random_.below(4)),
                             .host_memory = Bytes::gib(tenants_ > 1 ? random_.below(3) : 0),
                             .sandbox_concurrency = static_cast<unsigned>(
                                 id.value % 2 == 0 ? random_.below(kMostInOne + 1) : 0)}});
  }

  // Quotas that may be lowered to less than is in use, or nothing.
  void change_tenant() {
    TenantChanged changed{
        .tenant = TenantId{static_cast<uint32_t>(1 + random_.below(tenants_ + 1))},
        .weight = 0.5 + random_.uniform()};
    if (random_.below(3) == 0) changed.concurrency = random_.below(5);
    if (random_.below(3) == 0) changed.gpu_memory = Bytes::gib(random_.below(12));
    if (random_.below(3) == 0) changed.host_memory = Bytes::gib(random_.below(6));
    if (random_.below(3) == 0) changed.gpu_time_per_hour = seconds(random_.below(40));
    give(changed);
  }

  void submit() {
    const FunctionId function{static_cast<uint32_t>(random_.below(kFunctions + 1))};
    // Now and then one that was submitted before.
    if (random_.below(20) == 0 && !submitted_.empty() && waiting() > 0) {
      for (const InvocationId id : submitted_) {
        if (outcomes_.contains(id)) continue;
        give(InvocationSubmitted{id, function});
        return;
      }
    }
    submitted_.push_back({0, submitted_.size() + 1});
    give(InvocationSubmitted{submitted_.back(), function, random_.below(5) == 0});
  }

  void exit(SandboxId id, bool platform) {
    std::erase(sandboxes_, id);
    const bool undelivered = random_.below(3) == 0;
    // What no handler saw may start once more.
    if (undelivered) {
      for (const InvocationId each : given_[id]) started_.erase(each);
    }
    give(SandboxExited{id,
                       {ErrorCode::kUnknown, "gone"},
                       platform ? "Sandbox.Failure" : "Runtime.ExitError",
                       undelivered});
  }

  void undelivered(InvocationId id) {
    started_.erase(id);
    give(InvocationUndelivered{id});
  }

  void change_the_world() {
    const FunctionId function{static_cast<uint32_t>(1 + random_.below(kFunctions))};
    switch (random_.below(tenants_ > 1 ? 6 : 5)) {
      case 5:
        change_tenant();
        give(GpuTimeUsed{TenantId{static_cast<uint32_t>(random_.below(4))},
                         milliseconds(random_.below(5000)), seconds(random_.below(4000))});
        break;
      case 4:
        give(DeviceTaken{DeviceId{static_cast<uint32_t>(random_.below(4))},
                         Bytes::gib(random_.below(3) * random_.below(3))});
        break;
      case 0:
        give(FunctionRemoved{function});
        give(SandboxCrowdedOut{some(sandboxes_, SandboxId{1})});
        break;
      case 1:
        deploy(function);
        give(CallForeseen{function, milliseconds(random_.below(2000)), random_.uniform()});
        break;
      default:
        give(DeviceReading{.device = DeviceId{static_cast<uint32_t>(random_.below(4))},
                           .utilisation = random_.uniform(),
                           .healthy = random_.below(4) != 0});
    }
  }

  template <typename Id>
  Id some(const std::vector<Id>& ids, Id otherwise) {
    return ids.empty() ? otherwise
                       : ids[ids.size() - 1 - random_.below(std::min<size_t>(8, ids.size()))];
  }

  void give(const Event& event) {
    std::vector<Action> actions;
    dispatcher_.handle(event, now_, actions);
    for (const Action& action : actions) {
      if (const auto* start = std::get_if<StartSandbox>(&action)) {
        sandboxes_.push_back(start->sandbox);
      }
      if (const auto* start = std::get_if<StartInvocation>(&action)) {
        EXPECT_FALSE(outcomes_.contains(start->invocation)) << "it has its outcome already";
        EXPECT_TRUE(started_.insert(start->invocation).second) << "it ran before";
        given_[start->sandbox].insert(start->invocation);
        in_[start->invocation] = start->sandbox;
        EXPECT_LE(in(start->sandbox), size_t{kMostInOne});
      }
      if (const auto* in = std::get_if<MoveMemoryIn>(&action)) moving_.push_back(in->sandbox);
      if (const auto* out = std::get_if<MoveMemoryOut>(&action)) moving_.push_back(out->sandbox);
      if (const auto* done = std::get_if<CompleteInvocation>(&action)) {
        EXPECT_TRUE(outcomes_.insert(done->invocation).second) << "a second outcome";
        EXPECT_GE(done->phases.queue.count(), 0);
        in_.erase(done->invocation);
      }
    }
    for (const scheduling::Device& device : dispatcher_.fleet().devices()) {
      EXPECT_LE(device.committed, device.options.memory);
      EXPECT_LE(device.resident, device.options.memory);
      EXPECT_LE(device.tokens_held, device.options.tokens);
    }
    EXPECT_LE(dispatcher_.host_fleet().devices()[0].tokens_held, 2u);
    EXPECT_LE(dispatcher_.fleet().all().size(),
              5u + 3u + 2 * dispatcher_.fleet().options().starts_outside_tokens)
        << "planned are as many as hold tokens and start slots";
    EXPECT_LE(dispatcher_.queued(), 30u);
    for (const TenantStatus& tenant : dispatcher_.tenant_status(now_)) {
      if (!dispatcher_.tenants().limit_memory()) break;
      const scheduling::TenantAccount& account =
          dispatcher_.tenants()[*dispatcher_.tenants().find(tenant.id)];
      // Each was admitted with the host memory that its function had then.
      EXPECT_EQ(account.at_work.gpu + account.idle.gpu, tenant.gpu_memory);
      const auto& quota = account.quotas.gpu_memory;
      EXPECT_TRUE(!quota || account.idle.gpu == Bytes(0) || tenant.gpu_memory <= *quota);
    }
  }

  SeededRandom random_;
  const uint32_t tenants_;
  Dispatcher dispatcher_;
  Instant now_{};
  std::map<FunctionId, uint64_t> revisions_;
  std::vector<SandboxId> sandboxes_;  // started, and not yet said to be gone
  std::vector<SandboxId> moving_;     // that were ever told to move their memory
  std::vector<InvocationId> submitted_;
  std::set<InvocationId> started_;
  std::map<SandboxId, std::set<InvocationId>> given_;
  std::map<InvocationId, SandboxId> in_;  // without an outcome, that were given last to this one
  std::set<InvocationId> outcomes_;
  size_t kept_ = 0;  // sandboxes of another program that found a place
};

class RandomEvents : public testing::TestWithParam<std::string_view> {};

TEST_P(RandomEvents, LeaveEveryInvocationWithOneOutcomeAndNothingHeld) {
  uint64_t host_runs = 0;
  uint64_t fetches = 0;
  uint64_t joins = 0;
  uint64_t kept = 0;
  bool keeps = false;
  for (uint64_t seed = 1; seed <= 320; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Chaos chaos(seed, GetParam());
    for (int i = 0; i < 400; ++i) chaos.step();
    chaos.end();
    EXPECT_GT(chaos.submitted(), 50u);
    EXPECT_EQ(chaos.waiting(), 0u);
    EXPECT_EQ(chaos.dispatcher().queued(), 0u);
    EXPECT_EQ(chaos.dispatcher().in_flight(), 0u);
    for (const scheduling::Device& device : chaos.dispatcher().fleet().devices()) {
      EXPECT_EQ(device.tokens_held, 0u);
      EXPECT_EQ(device.start_slots_held, 0u);
      EXPECT_EQ(device.committed, Bytes(0));
      EXPECT_EQ(device.occupied, Bytes(0));
      EXPECT_EQ(device.resident, Bytes(0));
      EXPECT_EQ(device.promised, Bytes(0));
      EXPECT_EQ(device.leaving, Bytes(0));
      EXPECT_EQ(device.contexts_wanted, 0u);
    }
    EXPECT_TRUE(chaos.dispatcher().fleet().all().empty());
    EXPECT_TRUE(chaos.dispatcher().host_fleet().all().empty());
    for (uint32_t slot = 0; slot < chaos.dispatcher().tenants().size(); ++slot) {
      const scheduling::TenantAccount& account = chaos.dispatcher().tenants()[slot];
      EXPECT_EQ(account.running, 0u);
      EXPECT_EQ(account.at_work, scheduling::TenantMemory{});
      EXPECT_EQ(account.idle, scheduling::TenantMemory{});
    }
    for (const scheduling::Flow& flow : chaos.dispatcher().flows()) {
      EXPECT_EQ(flow.pending, 0u);
      EXPECT_EQ(flow.in_flight, 0u);
      EXPECT_EQ(flow.on_host, 0u);
    }
    host_runs += chaos.dispatcher().counters().host_runs;
    fetches += chaos.dispatcher().counters().fetches;
    joins += chaos.dispatcher().joins();
    kept += chaos.kept();
    keeps = chaos.dispatcher().policy().keeps_instances();
    if (HasFailure()) return;
  }
  EXPECT_GT(host_runs, 100u);
  EXPECT_GT(fetches, 100u);
  EXPECT_GT(joins, 100u);
  EXPECT_EQ(kept > 100, keeps) << kept;
}

INSTANTIATE_TEST_SUITE_P(Policies, RandomEvents,
                         testing::Values("density", "mqfq-sticky", "fcfs", "fcfs-naive", "batch",
                                         "cfs-affinity", "exclusive"),
                         [](const auto& info) {
                           std::string name(info.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace lambent::dispatch
