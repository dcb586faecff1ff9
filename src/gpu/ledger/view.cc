#include "gpu/ledger/view.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace lambent::ledger {
namespace {

uint64_t saturating_add(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

// Whether some process holds the lock of this row. If that cannot be told, it does.
bool is_alive(int fd, uint32_t row) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(ledger_lock_offset(row));
  lock.l_len = 1;
  return fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

}  // namespace

bool LedgerView::attach(const char* path) {
  detach();
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return false;
  const bool attached = attach(fd);
  close(fd);
  return attached;
}

bool LedgerView::attach(int fd) {
  detach();
  struct stat status = {};
  void* address = MAP_FAILED;
  if (fstat(fd, &status) == 0 && status.st_size >= static_cast<off_t>(sizeof(LedgerPage))) {
    address = mmap(nullptr, sizeof(LedgerPage), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
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

uint64_t LedgerView::living_bytes(const char* path) const {
  const int fd = page_ == nullptr ? -1 : open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return used_bytes();
  uint64_t sum = 0;
  for (uint32_t row = 0; row < kLedgerRows; ++row) {
    const uint64_t held = page_->rows[row].held_bytes.load();
    if (held != 0 && is_alive(fd, row)) sum = saturating_add(sum, held);
  }
  close(fd);
  return sum;
}

// `wanted` of a row is read before its `held`, as keeping raises held first and lowers wanted then.
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
