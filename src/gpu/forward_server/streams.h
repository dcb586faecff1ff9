// Streams: the contexts and streams of one process of a client. To the driver there is one context,
// the executor's; a client's are what it groups things by. What the driver promises of the default
// stream of a context (that it waits for the blocking ones, and they for it) holds among the
// client's own, so that no client waits for another. They are where the client's share has them:
// after a change each moves when it is used next, in its order. A resource of the process's thread.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "gpu/cuda/driver.h"
#include "gpu/forward_ring/calls.h"
#include "gpu/forward_server/answers.h"
#include "gpu/forward_server/client_share.h"
#include "gpu/forward_server/completions.h"
#include "gpu/forward_server/handles.h"

namespace lambent::forward_server {

class Streams {
 public:
  using Call = forward_ring::Call;

  // All outlive it.
  Streams(const cuda::Driver& driver, ClientShare& share, Quota& quota, Completions& completions,
          Answers& answers)
      : driver_(driver),
        share_(share),
        quota_(quota),
        completions_(completions),
        answers_(answers) {}
  ~Streams();
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  // False if the call is not one about contexts and streams, or if it ends a context: that is for
  // those who have something in the context, too.
  bool handle(const Call& call);

  bool has_context(uint64_t context) const { return contexts_.count(context) != 0; }
  std::vector<uint64_t> contexts() const;
  // Nothing new comes into it; its streams stay.
  void end_context(uint64_t context) { contexts_.erase(context); }
  // It goes with all its streams, whose work is over or goes on as after destroy().
  void destroy_context(uint64_t context);

  // Not the default stream of a context, which ends with the context. The work of the stream goes
  // on, and until that is over the stream is one of all().
  CUresult destroy(uint64_t number);
  // Before anything is queued on it, or waits for it as the default stream: makes it wait for what
  // it must. Null in `stream` unless it succeeds.
  CUresult use(uint64_t number, CUstream* stream);
  // The same for work that reads or writes memory by its address.
  CUresult use_for_memory(uint64_t number, CUstream* stream);
  // Those, but this one, that were used for memory and have not done all of it: memory that is
  // freed meanwhile would be touched after it has gone. A kernel may touch what it likes: its
  // stream is not among them for that.
  std::vector<CUstream> using_memory(CUstream but);
  // How often something was queued on it; 0 if there is none.
  uint64_t work_of(uint64_t number);
  // Whether it has a share of the multiprocessors rather than all; as of its last use.
  bool has_share(uint64_t number);
  // Those that were destroyed and whose work is over go, and count no more. Before the thread
  // sleeps too: the client's other processes may need the places.
  void release_idle();
  std::vector<CUstream> all();
  std::vector<CUstream> all_of(uint64_t context);

 private:
  struct Entry {
    CUstream stream = nullptr;
    CUevent mark = nullptr;  // null once it is leaving
    ClientShare::Part part;  // where it is; null: on the whole device
    uint64_t version = 0;    // of the share that says so
    int priority = 0;
    uint64_t context = 0;
    uint64_t default_stream = 0;  // of its context; its own number if it is that
    bool blocking = true;
    bool uses_memory = false;        // since it was seen to be idle
    uint64_t work = 0;               // how often something was queued
    uint64_t joined_by_default = 0;  // the work that the default stream has waited for
    uint64_t saw_default = 0;        // the default stream's work that it has waited for
  };

  CUresult create_context(uint64_t* context, uint64_t* stream);
  void synchronize_context(const Call& call);
  CUresult create_stream(const Call& call, uint64_t* number);
  // `default_stream` 0: it is its context's. The number is 0 unless it succeeds.
  CUresult create(uint64_t context, uint64_t default_stream, unsigned flags, int priority,
                  uint64_t* number);
  CUresult stream_to_ask(uint64_t number, CUstream* stream);
  void synchronize(const Call& call);
  void query(const Call& call);
  CUresult place(Entry* entry);
  CUresult move(Entry& entry);
  CUresult wait(Entry& waiting, Entry& for_this);
  void release(Entry& entry);

  const cuda::Driver& driver_;
  ClientShare& share_;
  Quota& quota_;
  Completions& completions_;
  Answers& answers_;
  std::unordered_map<uint64_t, uint64_t> contexts_;  // its default stream
  uint64_t last_context_ = 0;
  HandleTable<Entry> table_{nullptr};
  std::vector<Entry> leaving_;  // destroyed, but not known to be idle
};

}  // namespace lambent::forward_server
