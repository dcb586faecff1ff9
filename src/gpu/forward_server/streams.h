// Streams: those of one process of a client. What the driver promises of the default stream of a
// context (that it waits for the blocking ones, and they for it) holds among the client's own, so
// that no client waits for another. They are where the client's share has them: after a change each
// moves when it is used next, in its order. A resource of the process's thread.
#pragma once

#include <cstdint>
#include <vector>

#include "gpu/cuda/driver.h"
#include "gpu/forward_server/client_share.h"
#include "gpu/forward_server/handles.h"

namespace lambent::forward_server {

class Streams {
 public:
  struct Entry {
    CUstream stream = nullptr;
    CUevent mark = nullptr;  // null once it is leaving
    ClientShare::Part part;  // where it is; null: on the whole device
    uint64_t version = 0;    // of the share that says so
    int priority = 0;
    uint64_t context = 0;
    uint64_t default_stream = 0;  // of its context; its own number if it is that
    bool blocking = true;
    uint64_t work = 0;               // how often something was queued
    uint64_t joined_by_default = 0;  // the work that the default stream has waited for
    uint64_t saw_default = 0;        // the default stream's work that it has waited for
  };

  Streams(const cuda::Driver& driver, ClientShare& share, Quota& quota)
      : driver_(driver), share_(share), quota_(quota) {}
  ~Streams();
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  // `default_stream` 0: it is its context's. The number is 0 unless it succeeds.
  CUresult create(uint64_t context, uint64_t default_stream, unsigned flags, int priority,
                  uint64_t* number);
  // Its work goes on, and it counts in all() until that is over; only the default stream goes with
  // its context alone.
  CUresult destroy(uint64_t number);
  void destroy_all_of(uint64_t context);

  Entry* find(uint64_t number) { return table_.find(number); }
  // Before anything is queued on it, or waits for it as the default stream: makes it wait for what
  // it must. Null in `stream` unless it succeeds.
  CUresult use(uint64_t number, CUstream* stream);
  // Whether it has a share of the multiprocessors rather than all; as of its last use.
  bool has_share(uint64_t number);
  // Those that were destroyed and whose work is over go, and count no more. Before the thread
  // sleeps too: the client's other processes may need the room.
  void release_idle();
  std::vector<CUstream> all();
  std::vector<CUstream> all_of(uint64_t context);

 private:
  CUresult place(Entry* entry);
  CUresult move(Entry& entry);
  CUresult wait(Entry& waiting, Entry& for_this);
  void release(Entry& entry);

  const cuda::Driver& driver_;
  ClientShare& share_;
  Quota& quota_;
  HandleTable<Entry> table_{nullptr};
  std::vector<Entry> leaving_;  // destroyed, but not known to be idle
};

}  // namespace lambent::forward_server
