// ChunkCopies: the copies of one process between the device and the chunks of its shared memory,
// each when it is the client's turn on the link. A resource of the process's thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "gpu/cuda/driver.h"
#include "gpu/forward_ring/calls.h"
#include "gpu/forward_ring/layout.h"
#include "gpu/forward_server/address_ranges.h"
#include "gpu/forward_server/answers.h"
#include "gpu/forward_server/completions.h"
#include "gpu/forward_server/copy_turns.h"
#include "gpu/forward_server/gates.h"
#include "gpu/forward_server/streams.h"

namespace lambent::forward_server {

class ChunkCopies {
 public:
  using Call = forward_ring::Call;

  // Whose turns it takes, and of whom.
  struct Turns {
    uint64_t client = 0;
    CopyLinks links;
  };
  // All outlive it.
  ChunkCopies(const cuda::Driver& driver, Turns turns, forward_ring::SharedPages& pages,
              const AddressRanges& ranges, Streams& streams, Completions& completions, Gates& gates,
              Answers& answers)
      : driver_(driver),
        turns_(turns),
        pages_(pages),
        ranges_(ranges),
        streams_(streams),
        completions_(completions),
        gates_(gates),
        answers_(answers) {}
  ChunkCopies(const ChunkCopies&) = delete;
  ChunkCopies& operator=(const ChunkCopies&) = delete;

  // False if the call is not a copy through a chunk.
  bool handle(const Call& call);
  // Nothing uses the chunks any more.
  void release();

 private:
  struct Copy {
    bool to_device = false;
    uint32_t chunk = 0;
    CUdeviceptr address = 0;
    uint64_t bytes = 0;
    CUstream stream = nullptr;
  };
  // A copy that waits at a gate for its turn.
  struct Waiting {
    explicit Waiting(CopyTurns& its) : turns(its) {}
    CopyTurns& turns;
    size_t gate = 0;
    uint32_t turn = 0;              // of the gate
    std::atomic<uint64_t> copy{0};  // its turn on the link; 0: it was not asked for yet
  };

  void copy(const Call& call, bool to_device);
  void lock_pages();
  CUresult queue(const Copy& copy);
  void copy_at_once(const Copy& copy);
  void copy_in_turn(const Copy& copy, CopyTurns& turns, bool in_line);
  CopyTurns::Turn ask(Waiting& waiting, uint64_t bytes);
  void end_on_device(CUstream stream, const std::shared_ptr<Waiting>& waiting);
  void fail(const Copy& copy, CUresult result);

  const cuda::Driver& driver_;
  const Turns turns_;
  forward_ring::SharedPages& pages_;
  const AddressRanges& ranges_;
  Streams& streams_;
  Completions& completions_;
  Gates& gates_;
  Answers& answers_;
  bool pages_locked_ = false, tried_to_lock_ = false;
  // The stream of the last copy that nothing but its turn held up, and how much had been queued on
  // it then: what follows it there is held up by nothing else either.
  uint64_t last_stream_ = 0, last_work_ = 0;
};

}  // namespace lambent::forward_server
