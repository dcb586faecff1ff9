#include "ledger/view.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace lambent::ledger {
namespace {

uint64_t saturating_add(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

}  // namespace

bool LedgerView::attach(const char* path) {
  detach();
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return false;
  struct stat status = {};
  void* address = MAP_FAILED;
  if (fstat(fd, &status) == 0 && status.st_size >= static_cast<off_t>(sizeof(LedgerPage))) {
    address = mmap(nullptr, sizeof(LedgerPage), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  close(fd);
  if (address == MAP_FAILED) return false;
  page_ = static_cast<LedgerPage*>(address);
  const LedgerHeader& header = page_->header;
  if (header.magic == kLedgerMagic && header.version == kLedgerVersion &&
      header.row_count == kLedgerRows) {
    return true;
  }
  detach();
  return false;
}

void LedgerView::detach() {
  if (page_ != nullptr) munmap(page_, sizeof(LedgerPage));
  page_ = nullptr;
}

uint64_t LedgerView::limit_bytes() const {
  return page_ == nullptr ? 0 : page_->header.limit_bytes;
}

uint64_t LedgerView::used_bytes() const {
  return page_ == nullptr ? 0 : sum_ledger_rows(*page_).held;
}

// `wanted` of a row is read before its `held`, as a grant raises held first and lowers wanted then.
LedgerTotals sum_ledger_rows(const LedgerPage& page) {
  LedgerTotals totals;
  uint32_t rows = page.header.rows_in_use.load();
  if (rows > kLedgerRows) rows = kLedgerRows;
  for (uint32_t row = 0; row < rows; ++row) {
    totals.wanted = saturating_add(totals.wanted, page.rows[row].wanted_bytes.load());
    totals.held = saturating_add(totals.held, page.rows[row].held_bytes.load());
  }
  return totals;
}

}  // namespace lambent::ledger
