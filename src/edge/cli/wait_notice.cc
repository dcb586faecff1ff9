#include "edge/cli/wait_notice.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "edge/cli/api_json.h"
#include "edge/cli/console.h"
#include "edge/cli/json_cells.h"
#include "edge/cli/wait_words.h"

namespace lambent::cli {
namespace {

using Json = nlohmann::ordered_json;

// A queued call that came longer before or after this one is another one.
constexpr double kMostApart_s = 1;

std::string words_of(const Json& row) {
  const std::string phase = cell(row, "phase");
  if (phase == "starting") return "a sandbox is being started";
  if (phase == "running") return "the function runs";
  if (phase != "queued") return "";
  const std::string_view why = wait_in_words(cell(row, "wait_reason"));
  return "in the queue" + (why.empty() ? "" : ": " + std::string(why));
}

}  // namespace

std::string notice_of(const Json& live, Duration waited) {
  const Json rows = list_in(live, "invocations");
  if (rows.size() == 1) return words_of(rows.front());
  const auto is_this = [&](const Json& row) {
    const bool is_queued = cell(row, "phase") == "queued";
    return is_queued && std::abs(number(row, "waited_seconds") - to_seconds(waited)) < kMostApart_s;
  };
  for (const Json& row : rows) {
    if (is_this(row)) return words_of(row);
  }
  // It left the queue, as these did.
  for (const char* phase : {"starting", "running"}) {
    for (const Json& row : rows) {
      if (cell(row, "phase") == phase) return words_of(row);
    }
  }
  return "";
}

WaitNotice::WaitNotice(std::unique_ptr<Transport> transport, std::ostream& err, Options options)
    : transport_(std::move(transport)), err_(err), options_(std::move(options)) {
  if (transport_ != nullptr) thread_ = std::thread([this] { watch(); });
}

void WaitNotice::stop() {
  {
    const MutexLock lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

bool WaitNotice::stopped_within(Duration time) {
  const SystemClock clock;
  const Instant until = clock.now() + time;
  MutexLock lock(mutex_);
  while (!stopped_) {
    const Duration left = until - clock.now();
    if (left <= Duration(0)) return false;
    changed_.wait_for(lock, left);
  }
  return true;
}

void WaitNotice::watch() {
  const SystemClock clock;
  const Instant began = clock.now();
  const std::string target =
      "/v1/activity/live?limit=500&function=" + http::percent_encode(options_.function);
  std::string said;
  while (!stopped_within(options_.every)) {
    const Duration waited = clock.now() - began;
    const auto live = ask_json(*transport_, "GET", target);
    // What cannot be told, as to a token that may not read, is no reason to be silent.
    std::string words = live.ok() ? notice_of(*live, waited) : "for the answer";
    if (words.empty() || words == said) continue;
    if (stopped_within(Duration(0))) return;
    err_ << "waiting, " << human_seconds(to_seconds(clock.now() - began)) << " by now: " << words
         << "\n";
    err_.flush();
    said = std::move(words);
  }
}

}  // namespace lambent::cli
