// The shim's side of a sandbox's memory ledger: reserve before an allocation, keep or cancel after
// it, release after a free.
// Every method may be called from any thread; nothing throws, aborts, logs or allocates.
#pragma once

#include <atomic>
#include <cstdint>

#include "gpu/ledger/view.h"

namespace lambent::ledger {

class LedgerWriter {
 public:
  LedgerWriter() = default;
  LedgerWriter(const LedgerWriter&) = delete;
  LedgerWriter& operator=(const LedgerWriter&) = delete;
  ~LedgerWriter() { detach(); }

  // Maps the ledger and takes a row of it for this process. False if that cannot be; the writer
  // then stays detached: reservations succeed and count nothing.
  bool attach(const char* path);
  // The same with a file that is open already, for reading and writing. The descriptor becomes the
  // writer's, in any case; it must not share its file description, for that holds the lock.
  bool attach(int fd);
  // Gives the row back, with what it held.
  void detach();
  // After fork, in the child: does not touch the parent's row and becomes detached.
  // Async-signal-safe.
  void forget_after_fork();
  bool is_attached() const { return view_.page() != nullptr; }

  // True if `bytes` more stay within the limit: they then count against it for this process until
  // it keeps or cancels them. Never do all processes together hold more than the limit.
  bool try_reserve(uint64_t bytes);
  // What was reserved was got, and is held until released: from here it is in the peak. Or it was
  // not got.
  void keep(uint64_t bytes);
  void cancel(uint64_t bytes);
  // For memory that is taken already: holds as much of it as the limit leaves, and says how much
  // that is.
  uint64_t reserve_what_fits(uint64_t bytes);
  void release(uint64_t bytes);
  // Counts page-locked host memory; not limited.
  void add_pinned_host(uint64_t bytes);
  void remove_pinned_host(uint64_t bytes);
  // This process got a CUresult that only a broken context gives; until it has ended its contexts.
  void context_is_broken(uint32_t result);
  void context_is_whole();

  uint64_t limit_bytes() const { return view_.limit_bytes(); }
  uint64_t used_bytes() const { return view_.used_bytes(); }
  uint64_t own_bytes() const;  // what this process holds
  // What all processes hold, have reserved or ask for.
  uint64_t promised_bytes() const;
  // Clears the rows of processes that are gone.
  void reclaim_dead_rows();

 private:
  bool take_row();
  bool reserve(uint64_t bytes);

  // A program may close descriptors that it knows nothing of, and then open its own.
  bool has_lock_fd() const;
  void close_lock_fd();

  LedgerView view_;
  // Its file description is also the mapping's, and a lock lives as long as its description: so the
  // row stays this process's, whatever becomes of the descriptor.
  int lock_fd_ = -1;
  uint64_t device_ = 0;  // of the file
  uint64_t inode_ = 0;
  uint32_t row_ = 0;
  std::atomic_flag reclaiming_;
};

}  // namespace lambent::ledger
