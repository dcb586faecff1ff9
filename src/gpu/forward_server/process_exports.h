// ProcessExports: the device memory that one process shares with others: what it exported, and what
// it opened of theirs. A resource of the process's thread.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "gpu/forward_ring/calls.h"
#include "gpu/forward_server/address_ranges.h"
#include "gpu/forward_server/answers.h"
#include "gpu/forward_server/exported_memory.h"
#include "gpu/forward_server/memory_handles.h"
#include "gpu/forward_server/streams.h"

namespace lambent::forward_server {

class ProcessExports {
 public:
  using Call = forward_ring::Call;

  // All outlive it. `owner`: whose what the process allocates is.
  ProcessExports(MemoryHandles& handles, ExportedMemory::Owner owner, AddressRanges& ranges,
                 const Streams& streams, Answers& answers)
      : handles_(handles),
        owner_(std::move(owner)),
        ranges_(ranges),
        streams_(streams),
        answers_(answers) {}
  ProcessExports(const ProcessExports&) = delete;
  ProcessExports& operator=(const ProcessExports&) = delete;

  // False if the call is not one about shared memory.
  bool handle(const Call& call);
  bool has(CUdeviceptr address) const { return shares_.contains(address); }
  // The process is done with the memory that begins there: true if it is shared, and then goes
  // with its last holder. Else no other process has it.
  bool release(CUdeviceptr address);

 private:
  void hand_out(const Call& call);
  void open(const Call& call);

  MemoryHandles& handles_;
  const ExportedMemory::Owner owner_;
  AddressRanges& ranges_;
  const Streams& streams_;
  Answers& answers_;
  // Several at an address: memory whose free still waits for a stream may be opened again.
  std::multimap<CUdeviceptr, MemoryHandles::Share> shares_;
};

}  // namespace lambent::forward_server
