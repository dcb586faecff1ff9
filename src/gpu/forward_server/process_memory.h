// ProcessMemory: the device memory that one process allocates, frees and fills, and its small
// copies and those within the device. It counts against the client's limit and is zeroed, because
// the driver zeroes nothing that stayed within one process. A resource of the process's thread.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/base/units.h"
#include "gpu/cuda/driver.h"
#include "gpu/forward_ring/calls.h"
#include "gpu/forward_server/address_ranges.h"
#include "gpu/forward_server/answers.h"
#include "gpu/forward_server/client_memory.h"
#include "gpu/forward_server/client_pool.h"
#include "gpu/forward_server/completions.h"
#include "gpu/forward_server/process_exports.h"
#include "gpu/forward_server/streams.h"

namespace lambent::forward_server {

class ProcessMemory {
 public:
  using Call = forward_ring::Call;

  // Where the memory comes from and what it counts against; all of the client's processes.
  struct Source {
    ClientMemory& memory;
    ClientPool& pool;
    ProcessExports& exports;  // what of it is shared
  };
  // All outlive it. What it allocates is added to `ranges`.
  ProcessMemory(const cuda::Driver& driver, Source source, AddressRanges& ranges, Streams& streams,
                Completions& completions, Answers& answers)
      : driver_(driver),
        memory_(source.memory),
        pool_(source.pool),
        exports_(source.exports),
        ranges_(ranges),
        streams_(streams),
        completions_(completions),
        answers_(answers) {}
  ProcessMemory(const ProcessMemory&) = delete;
  ProcessMemory& operator=(const ProcessMemory&) = delete;

  // Before all else, with the device's context current.
  CUresult begin();
  // False if the call is not one about memory. `data` came behind the call.
  bool handle(const Call& call, std::span<const char> data);
  // None of it can be named any more, so that nothing more of it is used.
  void withdraw_all_of(uint64_t context);
  // Nothing uses it any more.
  void free_all_of(uint64_t context);
  // After all of it was freed.
  void release();

 private:
  void report(const Call& call);
  void allocate(const Call& call);
  CUresult allocate_zeroed(uint64_t bytes, CUstream stream, bool in_order, CUdeviceptr* address);
  void free(const Call& call);
  CUresult free_in_order(const Call& call);
  // In the order of a stream, but behind what others have queued.
  void free_behind(CUstream stream, const std::vector<CUstream>& others, CUdeviceptr address,
                   bool shared);
  void freed_in_order(Bytes counted);
  void free_is_over();
  CUresult copy_inline(const Call& call, std::span<const char> data);
  CUresult copy_rows(const Call& call);
  CUresult fill(const Call& call);

  const cuda::Driver& driver_;
  ClientMemory& memory_;
  ClientPool& pool_;
  ProcessExports& exports_;
  AddressRanges& ranges_;
  Streams& streams_;
  Completions& completions_;
  Answers& answers_;
  CUstream memory_stream_ = nullptr;  // for allocations and their zeros
  CUstream free_stream_ = nullptr;
  std::vector<std::pair<CUdeviceptr, AddressRange>> withdrawn_;
  size_t frees_to_come_ = 0;               // that streams have not reached
  std::vector<Call> waiting_allocations_;  // for those
};

}  // namespace lambent::forward_server
