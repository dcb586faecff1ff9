#include "bin/journal_replay.h"

#include <nlohmann/json.hpp>

#include "bin/timeline_file.h"
#include "decide/journal/replay.h"
#include "decide/journal/words.h"
#include "node/journal_store/segment_files.h"

namespace lambent::bin {
namespace {

using journal::Difference;
using journal::ReplayTotals;

std::string hex(uint32_t word) {
  char text[16];
  std::snprintf(text, sizeof(text), "%08x", word);
  return text;
}

std::string instant_in_words(Instant now) {
  char text[48];
  std::snprintf(text, sizeof(text), "%.9f s", to_seconds(now.time_since_epoch()));
  return text;
}

nlohmann::json json_of(const ReplayTotals& totals) {
  nlohmann::json json = {{"identical", !totals.difference.has_value()},
                         {"events", totals.events},
                         {"decisions", totals.decisions},
                         {"segments", totals.segments},
                         {"runs", totals.runs},
                         {"lost_events", totals.lost_events},
                         {"open_end", totals.torn},
                         {"notes", totals.notes}};
  if (const auto& difference = totals.difference) {
    json["first_difference"] = {{"file", difference->file},
                                {"event", difference->event},
                                {"instant_ns", difference->now.time_since_epoch().count()},
                                {"what", difference->event_in_words},
                                {"recorded_digest", hex(difference->recorded_digest)},
                                {"digest", hex(difference->digest)},
                                {"decisions_now", difference->actions_in_words}};
  }
  return json;
}

void print(const ReplayTotals& totals, cli::Console& console) {
  for (const std::string& note : totals.notes) console.err << "note: " << note << "\n";
  if (const auto& difference = totals.difference) {
    console.out << "event " << difference->event << " at " << instant_in_words(difference->now)
                << " is the first that differs, after " << totals.events << " events and "
                << totals.decisions << " decisions that are identical\n  file      "
                << difference->file << "\n  event     " << difference->event_in_words
                << "\n  recorded  digest " << hex(difference->recorded_digest)
                << "\n  now       digest " << hex(difference->digest) << "\n";
    for (const std::string& action : difference->actions_in_words) {
      console.out << "            " << action << "\n";
    }
    return;
  }
  console.out << totals.events << " events, " << totals.decisions << " decisions, all identical";
  if (totals.lost_events > 0) {
    console.out << " (" << totals.lost_events << " events were not recorded)";
  }
  if (totals.torn) console.out << " (up to an end that was not closed)";
  console.out << "\n";
}

void draw(journal::ReplaySinks& sinks, journal::Timeline& timeline) {
  sinks.restored = [&](const journal::SegmentHeader& header, const dispatch::Dispatcher& dispatcher,
                       const journal::Names& names) {
    timeline.begin(dispatcher, header.now,
                   [&](FunctionId function) { return journal::name_in(names, function); });
  };
  sinks.step = [&](const journal::ReplayStep& step) {
    timeline.add(step.recorded.event, step.recorded.now, step.actions, step.dispatcher,
                 [&](FunctionId function) { return journal::name_in(step.names, function); });
  };
}

}  // namespace

int replay_journal(const ReplayJournalOptions& options, cli::Console& console) {
  auto segments = journal_store::open_journal(options.journal);
  if (!segments.ok()) return cli::fail(console, segments.error());
  journal::ReplaySinks sinks;
  ReplayTotals totals;
  std::optional<TimelineFile> timeline;
  if (!options.timeline.empty()) {
    auto opened = TimelineFile::open(options.timeline);
    if (!opened.ok()) return cli::fail(console, opened.error());
    timeline = std::move(opened).value();
    draw(sinks, timeline->timeline());
  }
  const auto replayed = journal::replay(*segments, sinks, totals);
  if (!replayed.ok()) {
    if (totals.events > 0) {
      console.err << "note: the " << totals.events << " events before that were identical\n";
    }
    return cli::fail(console, replayed.error());
  }
  if (totals.events == 0 && !totals.difference) {
    for (const std::string& note : totals.notes) console.err << "note: " << note << "\n";
    return cli::fail(console, {ErrorCode::kNotFound, options.journal + " holds no event"});
  }
  if (timeline) {
    if (const auto written = timeline->finish(); !written.ok()) {
      return cli::fail(console, written.error());
    }
  }
  if (console.json) {
    console.out << json_of(totals).dump(2) << "\n";
  } else {
    print(totals, console);
  }
  return totals.difference ? exit_code_of(ErrorCode::kDataLoss) : 0;
}

}  // namespace lambent::bin
