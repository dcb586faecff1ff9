#include "gpu/ledger/writer.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

namespace lambent::ledger {
namespace {

constexpr int kReserveAttempts = 64;
// More than any device has; keeps sums far from overflowing.
constexpr uint64_t kMostBytes = uint64_t{1} << 56;
constexpr int kOverflowLockAttempts = 64;
// Out of the way of programs that count their descriptors.
constexpr int kFirstDescriptor = 900;

bool lock_row(int fd, uint32_t row, short type) {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(ledger_lock_offset(row));
  lock.l_len = 1;
  return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

void clear_row(LedgerRow& row) {
  row.held_bytes.store(0);
  row.wanted_bytes.store(0);
  row.pinned_host_bytes.store(0);
  row.process_id.store(0);
  row.context_error.store(0);
}

bool is_clear(const LedgerRow& row) {
  return row.held_bytes.load() == 0 && row.wanted_bytes.load() == 0 &&
         row.pinned_host_bytes.load() == 0 && row.context_error.load() == 0;
}

template <typename Number>
void raise_to(std::atomic<Number>& maximum, Number value) {
  Number seen = maximum.load();
  while (seen < value && !maximum.compare_exchange_weak(seen, value)) {
  }
}

void subtract_down_to_zero(std::atomic<uint64_t>& number, uint64_t amount) {
  uint64_t seen = number.load();
  while (!number.compare_exchange_weak(seen, seen > amount ? seen - amount : 0)) {
  }
}

uint64_t saturating_add(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

}  // namespace

bool LedgerWriter::attach(const char* path) {
  detach();
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  return fd >= 0 && attach(fd);
}

bool LedgerWriter::attach(int fd) {
  detach();
  const int high = fcntl(fd, F_DUPFD_CLOEXEC, kFirstDescriptor);
  if (high >= 0) close(fd);
  lock_fd_ = high >= 0 ? high : fd;
  struct stat status = {};
  fstat(lock_fd_, &status);
  device_ = status.st_dev;
  inode_ = status.st_ino;
  if (view_.attach(lock_fd_) && take_row()) return true;
  forget_after_fork();
  return false;
}

bool LedgerWriter::take_row() {
  uint32_t row = 0;
  while (row < kLedgerOverflowRow && !lock_row(lock_fd_, row, F_WRLCK)) ++row;
  if (row < kLedgerOverflowRow) {
    clear_row(view_.page()->rows[row]);
    view_.page()->rows[row].process_id.store(static_cast<uint32_t>(getpid()));
  } else {
    // Someone who looks whether the shared row is dead holds its lock for a moment.
    int attempts = 0;
    while (!lock_row(lock_fd_, row, F_RDLCK)) {
      if (++attempts == kOverflowLockAttempts) return false;
      sched_yield();
    }
  }
  row_ = row;
  raise_to(view_.page()->header.rows_in_use, row + 1);
  return true;
}

void LedgerWriter::detach() {
  if (is_attached() && row_ != kLedgerOverflowRow) clear_row(view_.page()->rows[row_]);
  forget_after_fork();
}

bool LedgerWriter::has_lock_fd() const {
  struct stat status = {};
  return lock_fd_ >= 0 && fstat(lock_fd_, &status) == 0 && status.st_dev == device_ &&
         status.st_ino == inode_;
}

void LedgerWriter::close_lock_fd() {
  if (has_lock_fd()) close(lock_fd_);
  lock_fd_ = -1;
}

void LedgerWriter::forget_after_fork() {
  close_lock_fd();
  view_.detach();
  reclaiming_.clear();
}

// Publish the wish, then look at all wishes: of two that ask at the same time at least the later
// one sees the other, so both cannot be granted what fits only once. A granted wish stays one until
// the memory is there or is not to be had. If wishes stand in the way, wait for them to be decided
// rather than deny what would fit; but not for those of a process that is gone.
bool LedgerWriter::reserve(uint64_t bytes) {
  if (!is_attached()) return true;
  LedgerRow& own = view_.page()->rows[row_];
  const uint64_t limit = view_.page()->header.limit_bytes;
  const uint64_t most = limit == 0 ? kMostBytes : limit;
  bool reclaimed = false;
  for (int attempt = 0; attempt < kReserveAttempts && bytes <= most; ++attempt) {
    own.wanted_bytes.fetch_add(bytes);
    const LedgerTotals totals = sum_ledger_rows(*view_.page());
    if (limit == 0 || saturating_add(totals.held, totals.wanted) <= limit) return true;
    subtract_down_to_zero(own.wanted_bytes, bytes);
    const bool is_full = saturating_add(totals.held, bytes) > limit;
    if (is_full && reclaimed) break;
    if (!reclaimed && (is_full || attempt == kReserveAttempts / 2)) {
      reclaim_dead_rows();
      reclaimed = true;
    } else {
      sched_yield();
    }
  }
  return false;
}

void LedgerWriter::keep(uint64_t bytes) {
  if (!is_attached()) return;
  LedgerHeader& header = view_.page()->header;
  LedgerRow& own = view_.page()->rows[row_];
  own.held_bytes.fetch_add(bytes);
  subtract_down_to_zero(own.wanted_bytes, bytes);
  header.allocation_count.fetch_add(1);
  // Rows that move while they are summed can add up to more than there ever was.
  const uint64_t held = sum_ledger_rows(*view_.page()).held;
  const uint64_t limit = header.limit_bytes;
  raise_to(header.peak_bytes, limit != 0 && held > limit ? limit : held);
}

void LedgerWriter::cancel(uint64_t bytes) {
  if (is_attached()) subtract_down_to_zero(view_.page()->rows[row_].wanted_bytes, bytes);
}

bool LedgerWriter::try_reserve(uint64_t bytes) {
  if (reserve(bytes)) return true;
  view_.page()->header.denied_count.fetch_add(1);
  return false;
}

uint64_t LedgerWriter::reserve_what_fits(uint64_t bytes) {
  for (int attempt = 0; attempt < kReserveAttempts; ++attempt) {
    const uint64_t limit = limit_bytes();
    const uint64_t used = used_bytes();
    const uint64_t left = limit == 0 ? bytes : limit > used ? limit - used : 0;
    const uint64_t fits = bytes < left ? bytes : left;
    if (fits == 0) return 0;
    if (!reserve(fits)) continue;
    keep(fits);
    return fits;
  }
  return 0;
}

void LedgerWriter::release(uint64_t bytes) {
  if (is_attached()) subtract_down_to_zero(view_.page()->rows[row_].held_bytes, bytes);
}

void LedgerWriter::add_pinned_host(uint64_t bytes) {
  if (is_attached()) view_.page()->rows[row_].pinned_host_bytes.fetch_add(bytes);
}

void LedgerWriter::remove_pinned_host(uint64_t bytes) {
  if (is_attached()) subtract_down_to_zero(view_.page()->rows[row_].pinned_host_bytes, bytes);
}

void LedgerWriter::context_is_broken(uint32_t result) {
  if (is_attached()) view_.page()->rows[row_].context_error.store(result);
}

void LedgerWriter::context_is_whole() {
  if (is_attached()) view_.page()->rows[row_].context_error.store(0);
}

uint64_t LedgerWriter::own_bytes() const {
  return !is_attached() ? 0 : view_.page()->rows[row_].held_bytes.load();
}

uint64_t LedgerWriter::promised_bytes() const {
  if (!is_attached()) return 0;
  const LedgerTotals totals = sum_ledger_rows(*view_.page());
  return saturating_add(totals.held, totals.wanted);
}

// Locks do not keep threads of one process apart (they share the file description), hence the flag:
// else a second thread could clear a row that the first has just given free and a new process took.
// Without the descriptor it is left to others: to the worker, at the latest.
void LedgerWriter::reclaim_dead_rows() {
  if (!is_attached() || reclaiming_.test_and_set()) return;
  if (!has_lock_fd()) return reclaiming_.clear();
  uint32_t rows = view_.page()->header.rows_in_use.load();
  if (rows > kLedgerRows) rows = kLedgerRows;
  for (uint32_t row = 0; row < rows; ++row) {
    if (row == row_ || is_clear(view_.page()->rows[row])) continue;
    if (!lock_row(lock_fd_, row, F_WRLCK)) continue;
    clear_row(view_.page()->rows[row]);
    lock_row(lock_fd_, row, F_UNLCK);
  }
  reclaiming_.clear();
}

}  // namespace lambent::ledger
