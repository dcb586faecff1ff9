// LinkTurns: this process's turns on the device's link in one direction, which lambent-device gives
// to all processes of the node (core/protocol/memory_message.h). Of the one thread that copies;
// without a lambent-device, or without an answer from it, turns are free.
#pragma once

#include <deque>
#include <optional>
#include <string>

#include "core/base/fd.h"
#include "core/base/time.h"
#include "core/base/units.h"
#include "core/protocol/memory_message.h"

namespace lambent::executor {

// What one turn is asked for at most, and so the largest block that can go.
constexpr Bytes kLinkQuantum = Bytes::mib(32);
// Longer than the turns of all others can take: after that copies go on without.
constexpr Duration kLongestTurnWait = seconds(1);

class LinkTurns {
 public:
  using TurnId = uint64_t;
  static constexpr TurnId kFree = 0;  // the link is not shared out

  // `path` is lambent-device's socket for this process; empty: there is none.
  LinkTurns(std::string path, protocol::LinkDirection direction, const Clock& clock);
  LinkTurns(const LinkTurns&) = delete;
  LinkTurns& operator=(const LinkTurns&) = delete;

  // The turn in which these bytes go; `behind` is how much waits after them. None: it has not come
  // yet; await() it, and tell of what arrives meanwhile.
  std::optional<TurnId> take(Bytes bytes, Bytes behind);
  // Waits at most so long for lambent-device to say something.
  void await(Duration most);
  // What was taken has arrived.
  void arrived(TurnId turn, Bytes bytes);
  // Nothing is on its way and nothing waits: what is left of turns goes back.
  void rest();

 private:
  struct Turn {
    TurnId id = 0;
    Bytes granted, left, on_its_way;
    bool is_over = false;  // nothing more goes in it
  };

  bool connect();
  void disconnect();
  void receive();
  void want(Bytes bytes);
  void hand_back(Bytes bytes);
  void end_turns();

  const std::string path_;
  const protocol::LinkDirection direction_;
  const Clock& clock_;
  OwnedFd socket_;
  std::deque<Turn> turns_;
  TurnId last_turn_ = 0;
  std::optional<Instant> wanted_since_;
  uint64_t unanswered_ = 0;  // wishes that were given up, whose turns may still come
  bool is_silent_ = false;   // until the next rest
};

}  // namespace lambent::executor
