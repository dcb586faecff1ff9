// The story of an invocation names what it waited for, who went first and what was evicted for it.
#include "decide/journal/why.h"

#include <gtest/gtest.h>

#include "decide/journal/testing/testing.h"
#include "decide/journal/words.h"

namespace lambent::journal {
namespace {

using namespace dispatch;

// A worker with one GPU for one function at a time, and its journal.
class Scene {
 public:
  explicit Scene(scheduling::MemoryRule rule = scheduling::MemoryRule::kEverySandbox,
                 const std::string& policy = "mqfq-sticky", unsigned starts_outside_tokens = 0)
      : dispatcher_(options(rule, starts_outside_tokens),
                    std::move(scheduling::make_policy(policy)).value()) {
    recorder_.emplace(
        RunFacts{
            .version = "test", .policy = policy, .options = options(rule, starts_outside_tokens)},
        journal_, RecorderOptions{});
    recorder_->begin(dispatcher_, Duration(0));
    for (const auto& [id, name] : {std::pair(1u, "resnet"), std::pair(2u, "bert")}) {
      recorder_->name(FunctionId{id}, name);
      at(seconds(0), FunctionRegistered{{.id = FunctionId{id},
                                         .tenant = TenantId{7},
                                         .device_memory = Bytes::gib(10),
                                         .timeout = seconds(100)}});
    }
  }

  void at(Duration when, const Event& event) {
    std::vector<Action> actions;
    dispatcher_.handle(event, Instant(when), actions);
    recorder_->record(event, Instant(when), dispatcher_);
  }

  Why story_of(InvocationId id) {
    recorder_.reset();
    Why why(id);
    ReplaySinks sinks;
    sinks.restored = [&](const auto& header, const auto& dispatcher, const auto& names) {
      why.restored(header, dispatcher, names);
    };
    sinks.decided = [&](const ReplayedDecision& decision) { why.decided(decision); };
    sinks.step = [&](const ReplayStep& step) { why.step(step); };
    ReplayTotals totals;
    EXPECT_TRUE(replay(journal_.source(), sinks, totals).ok());
    EXPECT_FALSE(totals.difference);
    return why;
  }

 private:
  static DispatchOptions options(scheduling::MemoryRule rule, unsigned starts_outside_tokens) {
    DispatchOptions options;
    options.fleet.starts_outside_tokens = starts_outside_tokens;
    options.fleet.memory_rule = rule;
    options.fleet.devices = {{.id = DeviceId{1}, .memory = Bytes::gib(16), .tokens = 1}};
    return options;
  }

  Dispatcher dispatcher_;
  MemoryJournal journal_;
  std::optional<Recorder> recorder_;
};

constexpr InvocationId kFirst{0, 1}, kSecond{0, 2};

TEST(Words, ActionsNameAllDevicesOfWhatHasSeveral) {
  const Names names;
  EXPECT_EQ(in_words(StartInvocation{.invocation = kFirst,
                                     .sandbox = SandboxId{3},
                                     .device = DeviceId{1},
                                     .beside = 0b1010},
                     names),
            "run invocation 00000000-0000-0000-0000-000000000001 in sandbox 3 on GPU 0 and GPU 1 "
            "and GPU 3, warm");
  EXPECT_EQ(in_words(StartSandbox{.sandbox = SandboxId{3},
                                  .function = FunctionId{2},
                                  .device = DeviceId{1},
                                  .beside = 2},
                     names),
            "start sandbox 3 of function 2 on GPU 0 and GPU 1");
}

// resnet runs from 1 s to 5 s; bert arrives at 3 s, needs its place, and runs from 9 s to 10 s.
void one_after_the_other(Scene& scene) {
  scene.at(seconds(1), InvocationSubmitted{kFirst, FunctionId{1}});
  scene.at(seconds(2), SandboxReady{SandboxId{1}, milliseconds(400), milliseconds(600)});
  scene.at(seconds(3), InvocationSubmitted{kSecond, FunctionId{2}});
  scene.at(seconds(5), InvocationFinished{kFirst, seconds(3), true});
  scene.at(seconds(6), SandboxExited{SandboxId{1}, {}, ""});
  scene.at(seconds(9), SandboxReady{SandboxId{2}, seconds(1), seconds(2)});
  scene.at(seconds(10), InvocationFinished{kSecond, seconds(1), true});
}

TEST(Why, TellsWhatItWaitedForAndWhatWasEvictedForIt) {
  Scene scene;
  one_after_the_other(scene);
  const Why why = scene.story_of(kSecond);
  ASSERT_TRUE(why.found());
  ASSERT_TRUE(why.over());
  EXPECT_EQ(why.function(), "bert");
  EXPECT_EQ(why.tenant(), TenantId{7});
  EXPECT_EQ(why.waits().at(scheduling::WaitReason::kNoToken), seconds(2));
  ASSERT_EQ(why.evicted().size(), 1u);
  EXPECT_NE(why.evicted()[0].find("sandbox 1 of resnet"), std::string::npos);
  EXPECT_EQ(why.outcome()->phases.run, seconds(1));
  const std::string text = why.text();
  for (const char* words :
       {"of bert, tenant 7", "GPU 0 has 1 of 1 slots taken", "had waited 2 s because every device",
        "was evicted to make room for it", "cold: sandbox 2 is started for it on GPU 0",
        "begins to run in sandbox 2", "succeeded", "virtual time"}) {
    EXPECT_NE(text.find(words), std::string::npos) << words << " is not in:\n" << text;
  }
}

TEST(Why, NamesThePlacesOfTheHostToAFunctionWithoutAGpu) {
  Scene scene;
  scene.at(seconds(1), InvocationSubmitted{kSecond, FunctionId{1}});
  scene.at(seconds(1), FunctionRegistered{
                           {.id = FunctionId{3}, .tenant = TenantId{7}, .timeout = seconds(100)}});
  scene.at(seconds(2), InvocationSubmitted{kFirst, FunctionId{3}});
  const std::string text = scene.story_of(kFirst).text();
  EXPECT_NE(text.find("the host has "), std::string::npos) << text;
  EXPECT_NE(text.find(" of 16 slots taken"), std::string::npos) << text;
  EXPECT_EQ(text.find("GPU 0"), std::string::npos) << text;
}

InvocationSubmitted asynchronously_submitted() {
  InvocationSubmitted submitted{kFirst, FunctionId{1}};
  submitted.asynchronous = true;
  return submitted;
}

// An asynchronous one, which runs from 2 s to 3 s.
void one_that_fails(Scene& scene) {
  scene.at(seconds(1), asynchronously_submitted());
  scene.at(seconds(2), SandboxReady{SandboxId{1}, milliseconds(400), milliseconds(600)});
  scene.at(seconds(3), InvocationFinished{kFirst, seconds(1), false});
}

TEST(Why, TellsAllRunsOfOneThatFailedAndWasTriedAgain) {
  Scene scene;
  one_that_fails(scene);
  scene.at(seconds(63), asynchronously_submitted());
  scene.at(seconds(65), InvocationFinished{kFirst, seconds(2), true});
  const Why why = scene.story_of(kFirst);
  ASSERT_TRUE(why.settled());
  EXPECT_EQ(why.arrived(), Instant(seconds(1)));
  EXPECT_EQ(why.outcome()->outcome, Outcome::kSucceeded);
  const std::string text = why.text();
  const size_t failed = text.find("function_error"), again = text.find("is tried again, run 2");
  ASSERT_NE(failed, std::string::npos) << text;
  ASSERT_NE(again, std::string::npos) << text;
  EXPECT_LT(failed, again);
  EXPECT_NE(text.find("begins to run in sandbox 1", again), std::string::npos) << text;
}

TEST(Why, IsNotSettledByTheFailureOfAnAsynchronousOne) {
  Scene scene;
  one_that_fails(scene);
  const Why why = scene.story_of(kFirst);
  EXPECT_TRUE(why.over());
  EXPECT_FALSE(why.settled());
}

TEST(Why, TellsWhenItsMemoryCameAndWhoMadeRoomForIt) {
  Scene scene(scheduling::MemoryRule::kMoveIdle);
  const auto moved = [](uint64_t sandbox, MoveDirection direction) {
    return MemoryMoved{SandboxId{sandbox}, direction, true, Bytes::gib(10), {}, {}, seconds(1)};
  };
  scene.at(seconds(1), InvocationSubmitted{{0, 8}, FunctionId{1}});
  scene.at(seconds(2), SandboxReady{SandboxId{1}});
  scene.at(seconds(3), InvocationFinished{{0, 8}, seconds(1), true});
  scene.at(seconds(4), InvocationSubmitted{kFirst, FunctionId{2}});
  scene.at(seconds(5), moved(1, MoveDirection::kOut));
  scene.at(seconds(6), SandboxReady{SandboxId{2}});
  scene.at(seconds(7), InvocationFinished{kFirst, seconds(1), true});
  scene.at(seconds(8), InvocationSubmitted{kSecond, FunctionId{1}});
  scene.at(seconds(9), moved(2, MoveDirection::kOut));
  scene.at(seconds(10), moved(1, MoveDirection::kIn));
  scene.at(seconds(11), InvocationFinished{kSecond, seconds(3), true});
  const std::string text = scene.story_of(kSecond).text();
  for (const char* words : {"memory of sandbox 2 of bert (10 GiB) is moved out to make room",
                            "gpu_cold", "its memory begins to move in",
                            "memory of sandbox 1 moved in, 10 GiB in 1 s", "memory 2 s, run 1 s"}) {
    EXPECT_NE(text.find(words), std::string::npos) << words << " is not in:\n" << text;
  }
}

TEST(Why, TellsOfOneThatIsDispatchedAtOnce) {
  Scene scene;
  one_after_the_other(scene);
  const Why why = scene.story_of(kFirst);
  ASSERT_TRUE(why.over());
  EXPECT_TRUE(why.waits().empty());
  EXPECT_TRUE(why.evicted().empty());
  EXPECT_NE(why.text().find("cold: sandbox 1 is started for it"), std::string::npos) << why.text();
}

TEST(Why, NamesWhoHoldsTheTokensAndForHowLongAtMost) {
  Scene scene;
  one_after_the_other(scene);
  const std::string text = scene.story_of(kSecond).text();
  // resnet was dispatched at 1 s, runs since 2 s and may run for 100 s.
  EXPECT_NE(text.find("GPU 0 was held by resnet, for 2 s so far, for 99 s more at most"),
            std::string::npos)
      << text;
}

TEST(Why, NamesNoBoundWhereThereIsNone) {
  Scene scene;
  // As a simulation registers those that never time out.
  scene.at(seconds(0), FunctionRegistered{{.id = FunctionId{1},
                                           .tenant = TenantId{7},
                                           .revision = 1,
                                           .device_memory = Bytes::gib(10),
                                           .timeout = std::chrono::hours(24 * 365)}});
  one_after_the_other(scene);
  const std::string text = scene.story_of(kSecond).text();
  EXPECT_NE(text.find("GPU 0 was held by resnet, for 2 s so far\n"), std::string::npos) << text;
}

TEST(Why, WritesLongTimesInWholeSeconds) {
  EXPECT_EQ(duration_in_words(seconds(123'456)), "123456 s");
  EXPECT_EQ(duration_in_words(seconds(-123'456)), "-123456 s");
  EXPECT_EQ(duration_in_words(milliseconds(99'994)), "99.99 s");
}

TEST(Why, SaysWhoWentFirst) {
  Scene scene;
  scene.at(seconds(1), InvocationSubmitted{kFirst, FunctionId{1}});
  scene.at(seconds(2), SandboxReady{SandboxId{1}});
  for (uint64_t n = 10; n < 13; ++n) {
    scene.at(seconds(2), InvocationSubmitted{{0, n}, FunctionId{1}});
  }
  scene.at(seconds(2), InvocationSubmitted{kSecond, FunctionId{2}});
  scene.at(seconds(3), InvocationFinished{kFirst, seconds(1), true});
  scene.at(seconds(4), InvocationFinished{{0, 10}, seconds(1), true});
  const Why why = scene.story_of(kSecond);
  ASSERT_TRUE(why.found());
  EXPECT_FALSE(why.over());
  ASSERT_EQ(why.went_first().size(), 1u);
  EXPECT_EQ(why.went_first()[0].function, FunctionId{1});
  EXPECT_GE(why.went_first()[0].count, 1u);
  EXPECT_NE(why.text().find("of resnet went first"), std::string::npos) << why.text();
  EXPECT_NE(why.text().find("the journal ends before"), std::string::npos);
}

TEST(Why, TellsByWhatDensityPutOthersFirst) {
  Scene scene(scheduling::MemoryRule::kEverySandbox, "density");
  scene.at(seconds(1), InvocationSubmitted{kFirst, FunctionId{1}});
  scene.at(seconds(2), SandboxReady{SandboxId{1}, seconds(0), seconds(1)});
  // bert has come a moment before the next of resnet, which is warm and done in a second.
  scene.at(milliseconds(2'400), InvocationSubmitted{kSecond, FunctionId{2}});
  scene.at(milliseconds(2'500), InvocationSubmitted{{0, 10}, FunctionId{1}});
  scene.at(seconds(3), InvocationFinished{kFirst, seconds(1), true});
  const Why why = scene.story_of(kSecond);
  ASSERT_EQ(why.went_first().size(), 1u) << why.text();
  const WentFirst& first = why.went_first()[0];
  EXPECT_LT(first.its.status.due, first.own.status.due);
  EXPECT_NE(why.text().find("1 of resnet went first; by wait and cost its turn was due "),
            std::string::npos)
      << why.text();
  EXPECT_EQ(why.text().find("no place for this one"), std::string::npos) << why.text();
}

TEST(Why, TellsThatItsReadySandboxWaitsForAToken) {
  Scene scene(scheduling::MemoryRule::kEverySandbox, "mqfq-sticky", 1);
  scene.at(seconds(0), FunctionRegistered{{.id = FunctionId{3},
                                           .tenant = TenantId{7},
                                           .device_memory = Bytes::gib(4),
                                           .timeout = seconds(100)}});
  scene.at(seconds(0), FunctionRegistered{{.id = FunctionId{4},
                                           .tenant = TenantId{7},
                                           .device_memory = Bytes::gib(4),
                                           .timeout = seconds(100)}});
  scene.at(seconds(1), InvocationSubmitted{kFirst, FunctionId{3}});
  scene.at(seconds(2), SandboxReady{SandboxId{1}});
  scene.at(seconds(3), InvocationSubmitted{kSecond, FunctionId{4}});
  scene.at(seconds(4), SandboxReady{SandboxId{2}});
  scene.at(seconds(9), InvocationFinished{kFirst, seconds(7), true});
  scene.at(seconds(10), InvocationFinished{kSecond, seconds(1), true});
  const Why why = scene.story_of(kSecond);
  ASSERT_TRUE(why.over());
  EXPECT_EQ(why.waits().at(scheduling::WaitReason::kNoToken), seconds(5));
  const std::string text = why.text();
  for (const char* words :
       {"its sandbox is ready, and waits for a slot of its device",
        "had waited 5 s for that slot (no_token)", "begins to run in sandbox 2", "queue 5 s"}) {
    EXPECT_NE(text.find(words), std::string::npos) << words << " is not in:\n" << text;
  }
  EXPECT_EQ(text.find("went back into the queue"), std::string::npos) << text;
}

TEST(Why, TellsWhyItWentToTheHost) {
  Scene scene;
  scene.at(seconds(0), FunctionRegistered{{.id = FunctionId{3},
                                           .tenant = TenantId{7},
                                           .device_memory = Bytes::gib(10),
                                           .timeout = seconds(100),
                                           .has_cpu_variant = true,
                                           .mean_execution = seconds(1),
                                           .mean_cold_start = seconds(2),
                                           .completed = 1,
                                           .mean_host_execution = seconds(4),
                                           .mean_host_cold_start = seconds(1),
                                           .completed_on_host = 1}});
  scene.at(seconds(1), InvocationSubmitted{{0, 1}, FunctionId{1}});
  scene.at(seconds(2), InvocationSubmitted{{0, 2}, FunctionId{3}});
  for (uint64_t i = 3; i <= 8; ++i) {
    scene.at(seconds(3), InvocationSubmitted{{0, i}, FunctionId{3}});
  }
  const Why why = scene.story_of({0, 2});
  EXPECT_NE(why.text().find("goes to the host's processors because "), std::string::npos)
      << why.text();
  EXPECT_NE(why.text().find(", there in 5 s"), std::string::npos) << why.text();
  EXPECT_NE(why.text().find(" is started for it on the host"), std::string::npos) << why.text();
  EXPECT_TRUE(why.went_first().empty()) << why.text();
}

TEST(Why, TellsThatAQuotaOfTheTenantHeldIt) {
  Scene scene;
  scene.at(seconds(0), TenantChanged{.tenant = TenantId{7}, .concurrency = 1});
  scene.at(seconds(1), InvocationSubmitted{{0, 1}, FunctionId{1}});
  scene.at(seconds(2), InvocationSubmitted{{0, 2}, FunctionId{2}});
  scene.at(seconds(3), SandboxReady{SandboxId{1}});
  scene.at(seconds(5), InvocationFinished{{0, 1}, seconds(2), true});
  const Why why = scene.story_of({0, 2});
  EXPECT_NE(why.text().find("had waited 3 s because its tenant had as many invocations at work as "
                            "its quota allows (tenant_concurrency)"),
            std::string::npos)
      << why.text();
}

TEST(Why, TellsThatAnotherTenantCameFirst) {
  Scene scene;
  scene.at(seconds(0), FunctionRegistered{{.id = FunctionId{3},
                                           .tenant = TenantId{8},
                                           .device_memory = Bytes::gib(10),
                                           .timeout = seconds(100)}});
  scene.at(seconds(1), InvocationSubmitted{{0, 1}, FunctionId{1}});
  scene.at(seconds(2), InvocationSubmitted{{0, 2}, FunctionId{1}});
  scene.at(seconds(2), InvocationSubmitted{{0, 3}, FunctionId{2}});
  scene.at(seconds(2), InvocationSubmitted{{0, 4}, FunctionId{3}});
  scene.at(seconds(2), InvocationSubmitted{{0, 5}, FunctionId{3}});
  scene.at(seconds(3), SandboxReady{SandboxId{1}});
  scene.at(seconds(5), InvocationFinished{{0, 1}, seconds(2), true});
  scene.at(seconds(6), InvocationFinished{{0, 2}, seconds(1), true});
  scene.at(seconds(7), InvocationFinished{{0, 3}, seconds(1), true});
  scene.at(seconds(8), InvocationCancelled{{0, 3}});
  const Why why = scene.story_of({0, 3});
  EXPECT_NE(why.text().find("; tenant 8 came before this one's, 7 (virtual times of tenants "),
            std::string::npos)
      << why.text();
}

TEST(Why, DoesNotFindWhatIsNotThere) {
  Scene scene;
  one_after_the_other(scene);
  EXPECT_FALSE(scene.story_of({9, 9}).found());
}

}  // namespace
}  // namespace lambent::journal
