// ActionLog: the actions that dispatch wants because of the event that it handles, the instant of
// that event, and of all so far a hash and the counters. Owned by Dispatcher; its parts add to it,
// on one thread.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/state_archive.h"
#include "core/base/time.h"
#include "decide/dispatch/action.h"
#include "decide/dispatch/counters.h"
#include "decide/dispatch/event.h"
#include "decide/dispatch/log_hash.h"

namespace lambent::dispatch {

class ActionLog {
 public:
  // Actions are appended to `out` until end(). `now` never goes back.
  void begin(const Event& event, Instant now, std::vector<Action>& out) {
    CHECK(now >= now_, "time never goes back");
    now_ = now;
    out_ = &out;
    hash_.add(event, now);
  }
  void end() { out_ = nullptr; }

  // Of the last event.
  Instant now() const { return now_; }
  // Over all events and actions.
  uint64_t hash() const { return hash_.value(); }
  Counters& counters() { return counters_; }
  const Counters& counters() const { return counters_; }

  template <typename Kind>
  void add(Kind action) {
    hash_.add(action);
    out_->emplace_back(std::in_place_type<Kind>, std::move(action));
  }

  // The first and the last fields of a snapshot.
  void archive_now(StateArchive& archive) { archive.field(now_); }
  void archive_totals(StateArchive& archive) {
    dispatch::archive(archive, counters_);
    hash_.archive(archive);
  }

 private:
  Instant now_{};
  LogHash hash_;
  Counters counters_;
  std::vector<Action>* out_ = nullptr;  // while an event is handled
};

}  // namespace lambent::dispatch
