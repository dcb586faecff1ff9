// A journal replays to the same decisions, from every segment on, whatever the world and the
// policy; and one that was spoilt never passes for whole.
#include "decide/journal/replay.h"

#include <gtest/gtest.h>

#include "decide/journal/testing/testing.h"
#include "sim/simulator/testing/random_world.h"

namespace lambent::journal {
namespace {

using simulator::make_random_world;
using simulator::RandomWorld;
using simulator::Simulation;

// Density as it ships; "density" is without what it adapts.
constexpr std::string_view kAdaptive = "density-adapts";

std::vector<std::string_view> all_policies() {
  std::vector<std::string_view> all(scheduling::policy_names().begin(),
                                    scheduling::policy_names().end());
  all.push_back(kAdaptive);
  return all;
}

RunFacts facts_of(const RandomWorld& world, std::string_view policy) {
  const bool adapts = policy == kAdaptive;
  return {.version = "test",
          .policy = std::string(adapts ? "density" : policy),
          .policy_options = {.density = {.adapts = adapts, .weighs_queue = adapts}},
          .options = world.options.dispatch,
          .run = world.options.seed};
}

// Runs the world and records it; `after` sees the journal after each event.
uint64_t record(const RandomWorld& world, std::string_view policy, MemoryJournal& journal,
                Bytes segment_size, const std::function<void(uint64_t, Recorder&)>& after = {}) {
  const RunFacts facts = facts_of(world, policy);
  auto made = scheduling::make_policy(facts.policy, facts.policy_options);
  Simulation simulation(world.options, std::move(made).value(), nullptr);
  Recorder recorder(facts, journal, {.segment_size = segment_size});
  recorder.name(FunctionId{1}, "first");
  recorder.begin(simulation.dispatcher(), Duration(0));
  simulation.observe(
      [&](const dispatch::Event& event, Instant now, const std::vector<dispatch::Action>&) {
        recorder.record(event, now, simulation.dispatcher());
        if (recorder.events() % 16 == 0) recorder.flush(simulation.dispatcher(), Duration(0));
        if (after) after(recorder.events(), recorder);
      });
  simulation.run(simulator::arrivals_from(world.arrivals));
  return recorder.events();
}

class Journals : public testing::TestWithParam<std::string_view> {};

TEST_P(Journals, ReplayToTheSameDecisionsFromEverySegmentOn) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    MemoryJournal journal;
    RandomWorld world = make_random_world(seed, seed % 2 == 0);
    if (seed % 4 >= 2) add_tenants(world, seed, seed % 4 == 3, true);
    const uint64_t events = record(world, GetParam(), journal, Bytes(1));
    ReplayTotals totals;
    const auto replayed = replay(journal.source(), {}, totals);
    ASSERT_TRUE(replayed.ok()) << to_string(replayed.error());
    ASSERT_FALSE(totals.difference)
        << totals.difference->event << " " << totals.difference->event_in_words;
    EXPECT_EQ(totals.events, events);
    EXPECT_EQ(totals.runs, 1u);
    EXPECT_FALSE(totals.torn);
    EXPECT_TRUE(totals.notes.empty());
    for (size_t first = 1; first < journal.segments.size(); ++first) {
      ReplayTotals later;
      ASSERT_TRUE(replay(journal.source(first), {}, later).ok());
      EXPECT_FALSE(later.difference);
      EXPECT_LT(later.events, events);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, Journals, testing::ValuesIn(all_policies()),
                         [](const auto& info) {
                           std::string name(info.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Journal, TurnsToANewSegmentThatReplaysByItself) {
  RandomWorld world = make_random_world(4, false);
  // Many times the same arrivals: enough for several blocks of events.
  const std::vector<simulator::Arrival> once = world.arrivals;
  const Duration length = once.back().at.time_since_epoch() + seconds(1);
  for (int round = 1; round < 30; ++round) {
    for (simulator::Arrival arrival : once) {
      arrival.at += round * length;
      world.arrivals.push_back(arrival);
    }
  }
  MemoryJournal journal;
  Simulation simulation(world.options, std::move(scheduling::make_policy("mqfq-sticky")).value(),
                        nullptr);
  Recorder recorder(facts_of(world, "mqfq-sticky"), journal, {.segment_size = Bytes(1)});
  recorder.begin(simulation.dispatcher(), Duration(0));
  simulation.observe(
      [&](const dispatch::Event& event, Instant now, const std::vector<dispatch::Action>&) {
        recorder.record(event, now, simulation.dispatcher());
      });
  simulation.run(simulator::arrivals_from(world.arrivals));
  recorder.flush(simulation.dispatcher(), Duration(0));
  ASSERT_GT(journal.segments.size(), 3u);
  for (size_t first = 0; first < journal.segments.size(); ++first) {
    ReplayTotals totals;
    ASSERT_TRUE(replay(journal.source(first), {}, totals).ok());
    EXPECT_FALSE(totals.difference);
    EXPECT_EQ(totals.segments, journal.segments.size() - first);
    const bool is_newest = first + 1 == journal.segments.size();  // perhaps without an event yet
    EXPECT_TRUE(is_newest || totals.events > 0);
    EXPECT_TRUE(totals.torn) << "the recorder has not closed its last segment";
  }
  journal.segments.erase(journal.segments.begin() + 1);
  ReplayTotals totals;
  const auto replayed = replay(journal.source(), {}, totals);
  ASSERT_FALSE(replayed.ok());
  EXPECT_NE(replayed.error().message.find("are missing"), std::string::npos);
}

TEST(Journal, NamesTheFirstDecisionThatDiffers) {
  RandomWorld world = make_random_world(8, false);
  MemoryJournal journal;
  const uint64_t events = record(world, "mqfq-sticky", journal, Bytes::mib(1));
  // The same journal under another pool: what was decided for the old one cannot stay the same.
  const auto change = [](const SegmentHeader& header) {
    SegmentHeader other = header;
    other.facts.options.fleet.most_sandboxes = 1;
    return other;
  };
  MemoryJournal changed;
  changed.begin_segment();
  const auto reader = journal.source()().value();
  ASSERT_TRUE(reader->open().ok());
  while (true) {
    const auto block = reader->next();
    ASSERT_TRUE(block.ok());
    if (!block->has_value()) break;
    const bool is_header = (*block)->type == BlockType::kHeader;
    changed.append((*block)->type, is_header
                                       ? encode(change(decode_header((*block)->payload).value()))
                                       : (*block)->payload);
  }
  ReplayTotals totals;
  ASSERT_TRUE(replay(changed.source(), {}, totals).ok());
  ASSERT_TRUE(totals.difference);
  EXPECT_EQ(totals.difference->event, totals.events + 1);
  EXPECT_LT(totals.difference->event, events);
  EXPECT_NE(totals.difference->digest, totals.difference->recorded_digest);
  EXPECT_FALSE(totals.difference->event_in_words.empty());
}

TEST(Journal, TellsOfEventsThatTheDiskDidNotTakeAndGoesOn) {
  MemoryJournal journal;
  const uint64_t events = record(make_random_world(3, true), "fcfs", journal, Bytes::mib(1),
                                 [&](uint64_t event, Recorder& recorder) {
                                   journal.refuses = event >= 40 && event < 80;
                                   if (event == 45) recorder.name(FunctionId{2}, "second");
                                   if (event == 60) {
                                     EXPECT_FALSE(recorder.recording());
                                   }
                                 });
  ASSERT_GT(events, 100u);
  EXPECT_EQ(journal.segments.size(), 2u);
  ReplayTotals totals;
  const auto replayed = replay(journal.source(), {}, totals);
  ASSERT_TRUE(replayed.ok()) << to_string(replayed.error());
  EXPECT_FALSE(totals.difference);
  EXPECT_GE(totals.lost_events, 40u);
  EXPECT_EQ(totals.events + totals.lost_events, events);
  ASSERT_EQ(totals.notes.size(), 1u);
  EXPECT_NE(totals.notes[0].find("were not recorded"), std::string::npos);
}

TEST(Journal, CutAtAnyByteNeverPassesForWhole) {
  MemoryJournal journal;
  const uint64_t events = record(make_random_world(9, false), "batch", journal, Bytes::mib(1));
  const std::string whole = journal.segments[0];
  uint64_t most = 0;
  for (size_t size = 0; size < whole.size(); size += 1 + size / 256) {
    journal.segments = {whole.substr(0, size)};
    ReplayTotals totals;
    const auto replayed = replay(journal.source(), {}, totals);
    ASSERT_TRUE(replayed.ok()) << to_string(replayed.error());
    EXPECT_FALSE(totals.difference);
    EXPECT_TRUE(totals.torn) << size << " of " << whole.size();
    EXPECT_GE(totals.events, most) << "a longer journal holds no fewer events";
    most = totals.events;
  }
  EXPECT_GT(most, 0u);
  EXPECT_LE(most, events);
}

TEST(Journal, WithAnyByteSpoiltNeverPassesForWhole) {
  MemoryJournal journal;
  record(make_random_world(9, false), "batch", journal, Bytes::mib(1));
  const std::string whole = journal.segments[0];
  for (size_t at = 0; at < whole.size(); at += 1 + at / 256) {
    journal.segments = {whole};
    journal.segments[0][at] = static_cast<char>(whole[at] ^ 0x11);
    ReplayTotals totals;
    const auto replayed = replay(journal.source(), {}, totals);
    // A length that was spoilt may reach beyond the end: then the end is torn.
    EXPECT_TRUE(!replayed.ok() || totals.torn) << at << " of " << whole.size();
    if (!replayed.ok()) {
      EXPECT_NE(replayed.error().message.find("segment 0, byte "), std::string::npos)
          << replayed.error().message;
    }
  }
}

TEST(Journal, OfBeforeLongestWaitsIsDecidedAndToldAsItWas) {
  for (const uint32_t version : {dispatch::kVersionOfLongestWaits - 1, dispatch::kStateVersion}) {
    const auto read = decode_header(encode(SegmentHeader{.state_version = version}));
    ASSERT_TRUE(read.ok());
    const bool is_later = version >= dispatch::kVersionOfLongestWaits;
    EXPECT_EQ(read->facts.options.tells_longest_wait, is_later);
    EXPECT_EQ(read->facts.policy_options.density.weighs_returns, is_later);
    EXPECT_EQ(read->facts.options.fleet.bounds_host_starts, is_later);
  }
}

TEST(Journal, OfBeforeGangsMovedLeavesTheirMemoryWhereItIs) {
  for (const uint32_t version : {dispatch::kVersionOfGangMoves - 1, dispatch::kStateVersion}) {
    const auto read = decode_header(encode(SegmentHeader{.state_version = version}));
    ASSERT_TRUE(read.ok());
    EXPECT_EQ(read->facts.options.fleet.moves_gangs, version >= dispatch::kVersionOfGangMoves);
    EXPECT_TRUE(read->facts.options.tells_longest_wait);
  }
}

TEST(Journal, OfAnotherVersionIsRefusedWithWhatToDo) {
  MemoryJournal journal;
  record(make_random_world(9, false), "fcfs", journal, Bytes::mib(1));
  journal.segments[0][kMagic.size()] = 99;
  ReplayTotals totals;
  const auto replayed = replay(journal.source(), {}, totals);
  ASSERT_FALSE(replayed.ok());
  EXPECT_EQ(replayed.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_NE(replayed.error().message.find("format version 99"), std::string::npos);
  EXPECT_NE(replayed.error().message.find("use the lambent that recorded it"), std::string::npos);
}

TEST(Journal, OfAnotherStateIsRefusedWithWhatToDo) {
  SegmentHeader header{.state_version = dispatch::kStateVersion + 1};
  MemoryJournal journal;
  journal.begin_segment();
  journal.append(BlockType::kHeader, encode(header));
  ReplayTotals totals;
  const auto replayed = replay(journal.source(), {}, totals);
  ASSERT_FALSE(replayed.ok());
  EXPECT_EQ(replayed.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_NE(replayed.error().message.find("segment 0, byte 12"), std::string::npos);
}

TEST(Journal, OfTwoRunsReplaysBoth) {
  MemoryJournal journal;
  const uint64_t first = record(make_random_world(1, true), "fcfs", journal, Bytes::mib(1));
  const uint64_t second = record(make_random_world(2, true), "batch", journal, Bytes::mib(1));
  // The first worker was killed.
  journal.segments[0].resize(journal.segments[0].size() - 40);
  ReplayTotals totals;
  const auto replayed = replay(journal.source(), {}, totals);
  ASSERT_TRUE(replayed.ok()) << to_string(replayed.error());
  EXPECT_EQ(totals.runs, 2u);
  EXPECT_FALSE(totals.torn) << "the last segment is whole";
  ASSERT_EQ(totals.notes.size(), 1u);
  EXPECT_GT(totals.events, second);
  EXPECT_LT(totals.events, first + second);
}

}  // namespace
}  // namespace lambent::journal
