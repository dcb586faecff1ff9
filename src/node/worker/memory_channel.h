// MemoryChannel: how the worker tells the processes of one sandbox to move their device memory, and
// learns how that went. Used by SandboxHost on the loop thread; trusts no byte of what it hears.
#pragma once

#include <sys/types.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/base/fd.h"
#include "core/base/log.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/base/units.h"
#include "core/loop/event_loop.h"
#include "core/protocol/memory_message.h"

namespace lambent::worker {

// One command, as all processes of the sandbox together have answered it.
struct MemoryMove {
  bool out = false;   // else in
  bool deep = false;  // out with the context, where that could be done
  bool done = true;   // false: a process could not; what had moved was then taken back
  // Of no use any more: the driver failed in the middle, or what failed could not be taken back.
  bool broken = false;
  Bytes moved;      // over the link
  Bytes left;       // counted memory that stayed on the device after a move out
  Bytes offloaded;  // on the host, reached from there while the rest is in
  // Of that, what takes no room on the device before on_wanted: none where several processes have
  // memory, for the one may allocate what the other has freed.
  Bytes spared;
  Duration duration{};
};

// Where the memory is when no move is under way.
struct MemoryPlace {
  bool is_out = false;
  bool deep = false;      // out with the context
  Bytes left, offloaded;  // as the last MemoryMove out told (`left`, `spared`)
};

// The connections of a channel, as another program goes on with them.
struct HandedOverMemory {
  OwnedFd listener;
  std::vector<OwnedFd> processes;  // that have said hello
  uint64_t sequence = 0;           // of the latest command
  MemoryPlace place;
};

class MemoryChannel {
 public:
  // Listens at `path`. `on_moved` is called once for every command unless the next one overtakes
  // it; `on_wanted` when so much of what is offloaded is wanted on the device, again only after
  // grant. Neither is called from within a call of this class. Without `on_wanted` all is granted.
  static Result<std::unique_ptr<MemoryChannel>> open(loop::EventLoop& loop, LogSink& log,
                                                     const std::string& path,
                                                     std::function<void(MemoryMove)> on_moved,
                                                     std::function<void(Bytes)> on_wanted = {});
  // Goes on with the connections of another program. The processes are told once more where their
  // memory belongs, which is where it is.
  MemoryChannel(loop::EventLoop& loop, LogSink& log, HandedOverMemory from,
                std::function<void(MemoryMove)> on_moved,
                std::function<void(Bytes)> on_wanted = {});
  ~MemoryChannel();
  MemoryChannel(const MemoryChannel&) = delete;
  MemoryChannel& operator=(const MemoryChannel&) = delete;

  // A process that comes later is told the same. One that dies meanwhile has nothing left to move:
  // what it had is free for others once it has ended, and a move out is not over before that.
  void move_out(protocol::MemoryMoveDepth depth);
  void move_in();
  // The answer to on_wanted: so much, or none.
  void grant(Bytes bytes);
  // Dispatch answers no wish of a sandbox that it has ended: those that are open, and all that
  // come, are refused here. The shims ask again, perhaps the next program.
  void refuse_wishes();

  size_t processes() const { return peers_.size(); }
  const MemoryPlace& place() const { return place_; }
  // Nothing is under way: no move, no wish, no process that has yet to say hello.
  bool rests();
  // For another program, of one that rests. Of no use afterwards but to be destroyed.
  HandedOverMemory hand_over();

 private:
  struct Peer {
    OwnedFd socket;
    loop::Watch watch;
    bool greeted = false;
    bool wants = false;
  };
  // Of a process, or of none where one came that may take what another does not use.
  struct Want {
    uint64_t peer = 0;
    Bytes bytes;
  };

  MemoryChannel(loop::EventLoop& loop, LogSink& log, OwnedFd listener,
                std::function<void(MemoryMove)> on_moved, std::function<void(Bytes)> on_wanted);
  void accept_peers(size_t most);
  void hear_newcomers();
  void read_peer(uint64_t id);
  bool take(uint64_t id, Peer& peer, const protocol::MemoryMessage& message);
  void begin(protocol::MemoryMessageKind kind, protocol::MemoryMoveDepth depth);
  void tell_all(protocol::MemoryMessageKind kind, protocol::MemoryMoveDepth depth);
  void greet(uint64_t id);
  bool take_want(uint64_t id, Peer& peer, Bytes bytes);
  void want(const Want& want);
  void answer(const Want& want, Bytes bytes);
  void announce_want();
  void send(uint64_t id, protocol::MemoryMessageKind kind, Bytes bytes = {});
  void drop(uint64_t id);
  bool await_end(uint64_t id, const OwnedFd& socket);
  void await_end_no_more(pid_t process);
  void has_ended(uint64_t id);
  void finish_if_all_answered();
  void note_place();
  void watch_peer(uint64_t id);

  loop::EventLoop& loop_;
  LogSink& log_;
  OwnedFd listener_;
  loop::Watch listener_watch_;
  std::function<void(MemoryMove)> on_moved_;
  std::function<void(Bytes)> on_wanted_;
  std::map<uint64_t, Peer> peers_;
  uint64_t last_peer_ = 0;

  uint64_t sequence_ = 0;  // of the latest command
  bool belongs_out_ = false;
  protocol::MemoryMoveDepth depth_{};
  // The command under way.
  bool moving_ = false;
  bool takes_back_ = false;  // it undoes one that failed: move_ stays what that one came to
  Instant began_{};
  MemoryMove move_;
  std::set<uint64_t> awaited_;
  // Of those awaited, who has hung up and may be about to end.
  struct Ending {
    pid_t id = 0;
    OwnedFd process;
    loop::Watch watch;
    loop::TimerId grace_period;
  };
  std::map<uint64_t, Ending> ending_;
  loop::TimerId report_timer_;
  bool reports_ = false;  // it is set
  MemoryPlace place_;     // when the last command was over

  Bytes spared_;  // by the last move out
  // The first was announced; of the others at most one of each process that is there.
  std::deque<Want> wants_;
  bool refuses_wishes_ = false;
  Instant refused_until_{};
  loop::TimerId want_timer_;
};

}  // namespace lambent::worker
