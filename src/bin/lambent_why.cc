// lambent-why: the story of one invocation, from a journal. `lambent why` starts it.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "bin/standard_output.h"
#include "bin/usage.h"
#include "core/domain/slice.h"
#include "decide/journal/why.h"
#include "decide/journal/words.h"
#include "edge/cli/console.h"
#include "node/journal_store/segment_files.h"

namespace {

using namespace lambent;

// A worker hands what it recorded to its journal ten times a second: of an invocation that has just
// been answered the file may know a moment later.
constexpr Duration kMayStillCome = milliseconds(500);

struct Options {
  std::string invocation, journal;
  bool json = false;
};

std::optional<int> parse(int argc, char** argv, Options& options) {
  CLI::App app(
      "Why an invocation waited, ran where it did and ended as it did: its story, from the journal "
      "that 'lambent serve --journal' or 'lambent simulate --journal' wrote.\n\n"
      "Example: lambent why 0e6c9d1e-4f2c-4c33-9a52-6f1b1b3f0f7a --journal "
      "/var/lib/lambent/journal",
      "lambent why");
  app.add_option("INVOCATION", options.invocation, "its id, as 'lambent invoke' prints it")
      ->required();
  app.add_option("--journal", options.journal, "the journal's folder, or one segment")->required();
  app.add_flag("--json", options.json, "the story as JSON");
  if (const auto exit_code = bin::parse(app, argc, argv)) return *exit_code;
  return std::nullopt;
}

double since_ms(const journal::Why& why, Instant now) {
  return to_milliseconds(now - why.arrived());
}

nlohmann::json json_of(const journal::Why& why) {
  nlohmann::json json = {{"invocation", to_string(why.invocation())},
                         {"function", why.function()},
                         {"tenant", why.tenant().value},
                         {"arrived_ns", why.arrived().time_since_epoch().count()},
                         {"evicted", why.evicted()},
                         {"outcome", nullptr}};
  for (const journal::Moment& moment : why.moments()) {
    json["story"].push_back({{"at_ms", since_ms(why, moment.now)}, {"what", moment.sentence}});
  }
  json["waits_ms"] = nlohmann::json::object();
  for (const auto& [reason, waited] : why.waits()) {
    json["waits_ms"][std::string(scheduling::name_of(reason))] = to_milliseconds(waited);
  }
  json["went_first"] = nlohmann::json::array();
  for (const journal::WentFirst& other : why.went_first()) {
    json["went_first"].push_back(
        {{"function", journal::name_in(why.names(), other.function)},
         {"count", other.count},
         {"virtual_time_ms", to_milliseconds(other.its.status.virtual_time)},
         {"own_virtual_time_ms", to_milliseconds(other.own.status.virtual_time)},
         {"waiting", other.its.pending},
         {"own_waiting", other.own.pending},
         {"at_work", other.its.in_flight},
         {"own_at_work", other.own.in_flight}});
    if (other.its.status.due == kNever || other.own.status.due == kNever) continue;
    json["went_first"].back()["due_before_ms"] =
        to_milliseconds(other.own.status.due - other.its.status.due);
  }
  if (const auto& outcome = why.outcome()) {
    json["outcome"] = name_of(outcome->outcome);
    json["start"] = name_of(outcome->start);
    json["device"] = outcome->device.value;
    json["gpus"] = nlohmann::json::array();
    if (outcome->device != scheduling::kHostDevice) {
      json["gpus"].push_back(place_name(outcome->device));
    }
    scheduling::for_each_device_in(outcome->beside, [&](uint32_t bit) {
      json["gpus"].push_back(place_name(DeviceId{bit + 1}));
    });
    json["phases_ms"] = {{"queue", to_milliseconds(outcome->phases.queue)},
                         {"sandbox", to_milliseconds(outcome->phases.sandbox)},
                         {"init", to_milliseconds(outcome->phases.init)},
                         {"memory", to_milliseconds(outcome->phases.memory)},
                         {"run", to_milliseconds(outcome->phases.run)}};
  }
  return json;
}

// The story as far as the journal goes; an error if it does not replay up to its end.
Result<journal::ReplayTotals> read_story(const Options& options, journal::Why& why) {
  ASSIGN_OR_RETURN(const auto segments, journal_store::open_journal(options.journal));
  journal::ReplaySinks sinks;
  sinks.restored = [&](const auto& header, const auto& dispatcher, const auto& names) {
    why.restored(header, dispatcher, names);
  };
  sinks.decided = [&](const journal::ReplayedDecision& decision) { why.decided(decision); };
  sinks.step = [&](const journal::ReplayStep& step) { why.step(step); };
  sinks.enough = [&] { return why.settled(); };
  journal::ReplayTotals totals;
  RETURN_IF_ERROR(journal::replay(segments, sinks, totals));
  if (totals.difference && !why.over()) {
    return Error{ErrorCode::kDataLoss,
                 "event " + std::to_string(totals.difference->event) +
                     " is decided differently by this program, so the journal cannot be explained "
                     "from there on; use the lambent that recorded it ('lambent simulate --replay' "
                     "tells more)"};
  }
  return totals;
}

int run(const Options& options) {
  cli::Console console{std::cout, std::cerr, options.json, isatty(STDERR_FILENO) != 0};
  const auto id = invocation_id_from_string(options.invocation);
  if (!id) {
    return cli::fail(console,
                     {ErrorCode::kInvalidArgument, "'" + options.invocation +
                                                       "' is no invocation's id, which looks like "
                                                       "0e6c9d1e-4f2c-4c33-9a52-6f1b1b3f0f7a"});
  }
  journal::Why why(*id);
  auto totals = read_story(options, why);
  // Of an asynchronous one that failed the next run may still come.
  if (totals.ok() && !why.settled()) {
    std::this_thread::sleep_for(kMayStillCome);
    why = journal::Why(*id);
    totals = read_story(options, why);
  }
  if (!totals.ok()) return cli::fail(console, totals.error());
  if (!why.found()) {
    return cli::fail(console,
                     {ErrorCode::kNotFound,
                      "invocation " + options.invocation + " is not in " + options.journal +
                          " (its oldest part may be gone; --journal-size says how much is kept)"});
  }
  if (!why.over()) {
    for (const std::string& note : totals->notes) console.err << "note: " << note << "\n";
  }
  if (options.json) {
    std::cout << json_of(why).dump(2) << "\n";
  } else {
    std::cout << why.text();
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (const auto exit_code = parse(argc, argv, options)) return *exit_code;
  return bin::after_output(run(options));
}
