// The memory ledger of one sandbox as it lies in its file: how much device memory its processes
// hold. Shared by LedgerWriter (the shim, any thread) and LedgerReader (the worker); plain numbers
// only.
//
// There is deliberately no shared "used" total: the total is the sum over the rows, one row for
// each process. A process that dies at any instruction leaves nothing but its own row, and a
// process that finds the row's lock free may clear it, so no crash can make the total wrong.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace lambent::ledger {

constexpr uint64_t kLedgerMagic = 0x3152474445544d4cULL;  // "LMTEDGR1"
constexpr uint32_t kLedgerVersion = 1;
constexpr uint32_t kLedgerRows = 256;
// The last row is shared by all processes that found no row of their own.
constexpr uint32_t kLedgerOverflowRow = kLedgerRows - 1;

struct LedgerRow {
  std::atomic<uint64_t> held_bytes;    // got and not yet released
  std::atomic<uint64_t> wanted_bytes;  // asked for, or granted and not yet got from the driver
  std::atomic<uint64_t> pinned_host_bytes;
  std::atomic<uint32_t> process_id;  // as the process sees itself; for people only
  // The last CUresult that said that a context of the process is broken for good; 0: none is.
  std::atomic<uint32_t> context_error;
  uint32_t reserved[8];
};

struct LedgerHeader {
  uint64_t magic;
  uint32_t version;
  uint32_t row_count;
  uint64_t limit_bytes;  // 0: count, but deny nothing
  uint32_t memory_mode;  // reserved for swapping; 0 = allocations are plain device memory
  uint32_t reserved_flags;
  std::atomic<uint64_t> peak_bytes;
  std::atomic<uint64_t> allocation_count;
  std::atomic<uint64_t> denied_count;
  std::atomic<uint32_t> rows_in_use;  // rows at and above it were never used
  uint32_t reserved[49];
};

struct LedgerPage {
  LedgerHeader header;
  LedgerRow rows[kLedgerRows];
};

static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(std::atomic<uint32_t>::is_always_lock_free);
static_assert(sizeof(LedgerRow) == 64);
static_assert(sizeof(LedgerHeader) == 256);
static_assert(offsetof(LedgerHeader, peak_bytes) == 32);

// A process that is alive holds an open-file-description write lock on this byte of the file (a
// read lock for the overflow row). The bytes lie behind the page, so that no write touches them.
constexpr uint64_t ledger_lock_offset(uint32_t row) { return sizeof(LedgerPage) + row; }

}  // namespace lambent::ledger
