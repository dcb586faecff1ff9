// LedgerView: the mapped memory ledger of one's own sandbox, to look at. LedgerWriter is made of
// one; the NVML shim, which allocates nothing, uses only it. Any thread; throws and logs nothing.
#pragma once

#include <cstdint>

#include "gpu/ledger/layout.h"

namespace lambent::ledger {

class LedgerView {
 public:
  LedgerView() = default;
  LedgerView(const LedgerView&) = delete;
  LedgerView& operator=(const LedgerView&) = delete;
  ~LedgerView() { detach(); }

  // False if the file cannot be mapped or is no ledger of this version.
  bool attach(const char* path);
  bool attach(int fd);  // which stays the caller's
  void detach();
  // The mapped page; null while detached.
  LedgerPage* page() const { return page_; }

  uint64_t limit_bytes() const;  // 0: no limit
  uint64_t used_bytes() const;   // by all processes of the sandbox
  // The same without the rows of processes that are gone and that no writer has cleared yet. Asks
  // the kernel about each row; `path` is the one that was attached.
  uint64_t living_bytes(const char* path) const;

 private:
  LedgerPage* page_ = nullptr;
};

struct LedgerTotals {
  uint64_t held = 0;
  uint64_t wanted = 0;
};

// Sums over the rows. A grant under way is seen at least once, perhaps twice, and never not at all.
LedgerTotals sum_ledger_rows(const LedgerPage& page);

}  // namespace lambent::ledger
