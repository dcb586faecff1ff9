// A snapshot is read as foreign bytes: what could not have been written is refused.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "decide/dispatch/dispatcher.h"
#include "decide/scheduling/make_policy.h"

namespace lambent::dispatch {
namespace {

Dispatcher fresh() {
  DispatchOptions options;
  options.fleet.devices.push_back(
      {.id = DeviceId{1}, .memory = Bytes::gib(16), .tokens = 3, .contexts = 8});
  return Dispatcher(options, std::move(scheduling::make_policy("mqfq-sticky")).value());
}

// Three functions run, in the slots 0 to 2, and the second one's invocation ends.
void run_two_of_three(Dispatcher& dispatcher) {
  std::vector<Action> actions;
  for (uint32_t i = 1; i <= 3; ++i) {
    const FunctionId id{i};
    const Event events[] = {
        FunctionRegistered{{.id = id, .tenant = TenantId{1}, .device_memory = Bytes::gib(1)}},
        InvocationSubmitted{{0, i}, id}, SandboxReady{SandboxId{i}}};
    for (const Event& event : events) dispatcher.handle(event, Instant(seconds(i)), actions);
  }
  dispatcher.handle(InvocationFinished{{0, 2}, seconds(1), true}, Instant(seconds(4)), actions);
}

std::multiset<uint32_t> at_work(const Dispatcher& dispatcher) {
  std::multiset<uint32_t> slots;
  for (const scheduling::SandboxSlot slot : dispatcher.fleet().all()) {
    const scheduling::Sandbox& sandbox = dispatcher.fleet().sandbox(slot);
    if (sandbox.has_invocation) slots.insert(sandbox.invocation);
  }
  return slots;
}

TEST(DispatcherRestore, RefusesASandboxWhoseInvocationIsNoneOrAnothers) {
  Dispatcher original = fresh();
  run_two_of_three(original);
  ASSERT_EQ(at_work(original), (std::multiset<uint32_t>{0, 2}));
  const std::string bytes = original.snapshot();
  size_t refused = 0;
  for (size_t place = 0; place < bytes.size(); ++place) {
    for (const char value : {'\0', '\1', '\2'}) {
      if (bytes[place] < 0 || bytes[place] > 2) continue;
      std::string changed = bytes;
      changed[place] = value;
      Dispatcher restored = fresh();
      if (!restored.restore(changed)) {
        ++refused;
        continue;
      }
      const auto slots = at_work(restored);
      EXPECT_EQ(slots.count(1), 0u) << "no invocation has it; byte " << place;
      EXPECT_LE(slots.count(0), 1u) << "byte " << place;
      EXPECT_LE(slots.count(2), 1u) << "byte " << place;
    }
  }
  EXPECT_GT(refused, 0u);
}

TEST(DispatcherRestore, VersionsShareTheirFunctionsAccountAfterASnapshotToo) {
  Dispatcher original = fresh();
  std::vector<Action> actions;
  for (uint32_t i = 1; i <= 3; ++i) {
    original.handle(FunctionRegistered{{.id = FunctionId{i},
                                        .tenant = TenantId{1},
                                        .device_memory = Bytes::gib(1),
                                        .account = FunctionId{i == 2 ? 1U : 0U}}},
                    Instant(seconds(i)), actions);
  }
  Dispatcher restored = fresh();
  ASSERT_TRUE(restored.restore(original.snapshot()));
  EXPECT_EQ(restored.snapshot(), original.snapshot());
  for (Dispatcher* each : {&original, &restored}) {
    const Instant now(seconds(4));
    each->handle(InvocationSubmitted{{0, 9}, FunctionId{2}}, now, actions);
    const auto time_of = [&](uint32_t function) {
      return each->status(FunctionId{function}, now).virtual_time;
    };
    EXPECT_GT(time_of(2), Duration(0));
    EXPECT_EQ(time_of(1), time_of(2)) << "the version's function";
    EXPECT_EQ(time_of(3), Duration(0)) << "another one";
  }
}

// Two devices with a token each, and a function that takes both.
Dispatcher with_two_devices() {
  DispatchOptions options;
  for (uint32_t id = 1; id <= 2; ++id) {
    options.fleet.devices.push_back({.id = DeviceId{id}, .memory = Bytes::gib(16), .tokens = 1});
  }
  return Dispatcher(options, std::move(scheduling::make_policy("density")).value());
}

std::vector<std::pair<Instant, Event>> with_a_gang() {
  const auto at = [](int64_t tenths) { return Instant(milliseconds(100 * tenths)); };
  return {{at(0), FunctionRegistered{{.id = FunctionId{1},
                                      .tenant = TenantId{1},
                                      .max_concurrency = 2,
                                      .device_memory = Bytes::gib(1)}}},
          {at(0), FunctionRegistered{{.id = FunctionId{2},
                                      .tenant = TenantId{1},
                                      .device_memory = Bytes::gib(9),
                                      .gpu_count = 2}}},
          {at(0), InvocationSubmitted{{0, 1}, FunctionId{2}}},
          {at(1), SandboxReady{SandboxId{1}}},
          {at(2), InvocationFinished{{0, 1}, milliseconds(100), true}},
          {at(2), InvocationSubmitted{{0, 2}, FunctionId{1}}},
          {at(3), InvocationSubmitted{{0, 3}, FunctionId{2}}},
          {at(3), SandboxReady{SandboxId{2}}},
          {at(9), TimerFired{}},
          {at(10), InvocationSubmitted{{0, 4}, FunctionId{1}}},
          {at(20), InvocationFinished{{0, 2}, seconds(1), true}},
          {at(21), SandboxExited{SandboxId{2}, {}, ""}},
          {at(22), InvocationFinished{{0, 3}, milliseconds(100), true}},
          {at(23), DeviceReading{.device = DeviceId{2}, .healthy = false, .lost = true}},
          {at(24), SandboxExited{SandboxId{1}, {}, ""}}};
}

TEST(DispatcherRestore, GoesOnAfterEachEventWithFunctionsThatTakeSeveralDevices) {
  const auto events = with_a_gang();
  bool was_reserved = false;
  for (size_t saved = 1; saved < events.size(); ++saved) {
    Dispatcher original = with_two_devices();
    Dispatcher restored = with_two_devices();
    std::vector<Action> actions;
    for (size_t i = 0; i < events.size(); ++i) {
      if (i == saved) {
        ASSERT_TRUE(restored.restore(original.snapshot())) << "before event " << i;
        ASSERT_EQ(restored.snapshot(), original.snapshot());
        was_reserved |= original.fleet().device_table().reserved() != 0;
        EXPECT_EQ(restored.fleet().device_table().reserved(),
                  original.fleet().device_table().reserved());
      }
      original.handle(events[i].second, events[i].first, actions);
      if (i < saved) continue;
      restored.handle(events[i].second, events[i].first, actions);
      ASSERT_EQ(restored.log_hash(), original.log_hash())
          << "saved at " << saved << ", event " << i;
    }
  }
  EXPECT_TRUE(was_reserved);
}

TEST(Gangs, ARunAndItsOutcomeNameAllItsDevicesAndHashAsTheyDidWithOne) {
  Dispatcher dispatcher = with_two_devices();
  std::vector<Action> actions;
  for (const auto& [now, event] : with_a_gang()) dispatcher.handle(event, now, actions);
  const auto of = [&](uint64_t number, auto kind) {
    std::vector<std::pair<DeviceId, uint64_t>> places;
    for (const Action& action : actions) {
      const auto* one = std::get_if<decltype(kind)>(&action);
      if (one != nullptr && one->invocation == InvocationId{0, number}) {
        places.emplace_back(one->device, one->beside);
      }
    }
    return places;
  };
  using Places = std::vector<std::pair<DeviceId, uint64_t>>;
  // Bit N - 1 is device N.
  for (const uint64_t number : {uint64_t{1}, uint64_t{3}}) {
    EXPECT_EQ(of(number, StartInvocation{}), (Places{{DeviceId{1}, 2}})) << number;
    EXPECT_EQ(of(number, CompleteInvocation{}), (Places{{DeviceId{1}, 2}})) << number;
  }
  ASSERT_EQ(of(2, CompleteInvocation{}).size(), 1u);
  EXPECT_EQ(of(2, CompleteInvocation{})[0].second, 0u);
}

}  // namespace
}  // namespace lambent::dispatch
