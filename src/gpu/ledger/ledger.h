// The worker's side of a sandbox's memory ledger: create it, read it, reset its peak.
// Used on one thread at a time; safe against a tenant who scribbles in, truncates or replaces the
// file.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "core/base/fd.h"
#include "core/base/result.h"
#include "core/base/units.h"

namespace lambent::ledger {

// What the ledger said, with every number clamped to what is possible. A value.
struct LedgerReadings {
  Bytes used;
  Bytes peak;         // since the ledger was created or reset_peak()
  Bytes pinned_host;  // page-locked host memory; counted, not limited
  uint64_t allocations = 0;
  uint64_t denied = 0;     // allocations answered with out of memory
  uint32_t processes = 0;  // rows that hold memory
  // A CUresult: a context of a living process is broken, and that process of no use any more. 0:
  // none.
  uint32_t context_error = 0;
  // The file does not say what was written at its creation, or says something impossible.
  bool tampered = false;

  bool operator==(const LedgerReadings&) const = default;
};

// Reads a ledger from untrusted bytes; `limit` is what the ledger was created with. Never fails:
// what cannot be is clamped and marked as tampered.
LedgerReadings decode_ledger(std::span<const std::byte> bytes, Bytes limit);

// It reads with pread, not through a mapping: a tenant that truncates the file must not be able to
// send the worker a SIGBUS.
class LedgerReader {
 public:
  // What the processes of the sandbox hold now; rows of dead processes are reclaimed first, and
  // what was written behind the page is cut off.
  Result<LedgerReadings> read();
  // From here on, peak is counted again. Called before an invocation.
  Result<void> reset_peak();
  Bytes limit() const { return limit_; }
  // For another program, that goes on by go_on_with_ledger().
  OwnedFd release() && { return std::move(fd_); }

 private:
  friend Result<LedgerReader> create_ledger(const std::string&, Bytes, mode_t);
  friend LedgerReader go_on_with_ledger(OwnedFd, Bytes);
  LedgerReader(OwnedFd fd, Bytes limit) : fd_(std::move(fd)), limit_(limit) {}
  void reclaim_dead_rows(std::span<std::byte> bytes);
  bool cut_what_was_added();

  OwnedFd fd_;
  Bytes limit_;
};

// Creates the ledger file (ALREADY_EXISTS if there is one). A limit of 0 counts but denies nothing.
// The processes of the sandbox must be able to open it for reading and writing: if they run as
// another user, chown the file.
Result<LedgerReader> create_ledger(const std::string& path, Bytes limit, mode_t mode = 0600);

// One that another program created with this limit; the file may have any content.
LedgerReader go_on_with_ledger(OwnedFd fd, Bytes limit);

}  // namespace lambent::ledger
