#include "gpu/ledger/ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "gpu/ledger/layout.h"

namespace lambent::ledger {
namespace {

uint64_t word_at(std::span<const std::byte> bytes, size_t offset) {
  uint64_t word = 0;
  if (offset + sizeof(word) <= bytes.size()) {
    memcpy(&word, bytes.data() + offset, sizeof(word));
  }
  return word;
}

uint32_t half_word_at(std::span<const std::byte> bytes, size_t offset) {
  return static_cast<uint32_t>(word_at(bytes, offset));
}

size_t row_offset(uint32_t row) { return offsetof(LedgerPage, rows) + row * sizeof(LedgerRow); }

bool lock_row(int fd, uint32_t row, short type) {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(ledger_lock_offset(row));
  lock.l_len = 1;
  return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

uint64_t saturating_add(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

// Short if the tenant cut the file.
std::vector<std::byte> read_page(int fd) {
  std::vector<std::byte> bytes(sizeof(LedgerPage));
  size_t got = 0;
  while (got < bytes.size()) {
    const ssize_t n = pread(fd, bytes.data() + got, bytes.size() - got, static_cast<off_t>(got));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    got += static_cast<size_t>(n);
  }
  bytes.resize(got);
  return bytes;
}

Result<void> write_at(int fd, const void* data, size_t size, size_t offset) {
  for (;;) {
    const ssize_t n = pwrite(fd, data, size, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n != static_cast<ssize_t>(size))
      return error_from_errno("write ledger", n < 0 ? errno : EIO);
    return {};
  }
}

}  // namespace

LedgerReadings decode_ledger(std::span<const std::byte> bytes, Bytes limit) {
  LedgerReadings readings;
  readings.tampered = bytes.size() != sizeof(LedgerPage) ||
                      word_at(bytes, offsetof(LedgerHeader, magic)) != kLedgerMagic ||
                      half_word_at(bytes, offsetof(LedgerHeader, version)) != kLedgerVersion ||
                      half_word_at(bytes, offsetof(LedgerHeader, row_count)) != kLedgerRows ||
                      word_at(bytes, offsetof(LedgerHeader, limit_bytes)) != limit.count;
  uint64_t used = 0;
  uint64_t pinned = 0;
  for (uint32_t row = 0; row < kLedgerRows; ++row) {
    const uint64_t held = word_at(bytes, row_offset(row) + offsetof(LedgerRow, held_bytes));
    used = saturating_add(used, held);
    pinned = saturating_add(
        pinned, word_at(bytes, row_offset(row) + offsetof(LedgerRow, pinned_host_bytes)));
    if (held > 0) ++readings.processes;
    const uint32_t context_error =
        half_word_at(bytes, row_offset(row) + offsetof(LedgerRow, context_error));
    if (context_error != 0) readings.context_error = context_error;
    if (limit.count > 0 && held > limit.count) readings.tampered = true;
  }
  uint64_t peak = word_at(bytes, offsetof(LedgerHeader, peak_bytes));
  if (limit.count > 0) {
    // The rows were not read in one instant: their sum by itself may pass the limit without harm.
    readings.tampered = readings.tampered || peak > limit.count;
    used = std::min(used, limit.count);
    peak = std::min(peak, limit.count);
  }
  readings.used = Bytes(used);
  readings.peak = Bytes(std::max(peak, used));
  readings.pinned_host = Bytes(pinned);
  readings.allocations = word_at(bytes, offsetof(LedgerHeader, allocation_count));
  readings.denied = word_at(bytes, offsetof(LedgerHeader, denied_count));
  return readings;
}

Result<LedgerReader> create_ledger(const std::string& path, Bytes limit, mode_t mode) {
  OwnedFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
  if (!fd.valid()) {
    if (errno == EEXIST) return Error{ErrorCode::kAlreadyExists, "create ledger " + path};
    return error_from_errno("create ledger " + path, errno);
  }
  // The umask must not decide who can open it.
  if (fchmod(fd.get(), mode) != 0) return error_from_errno("chmod ledger " + path, errno);
  std::vector<std::byte> bytes(sizeof(LedgerPage));
  const auto put = [&bytes](size_t offset, auto number) {
    memcpy(bytes.data() + offset, &number, sizeof(number));
  };
  put(offsetof(LedgerHeader, magic), kLedgerMagic);
  put(offsetof(LedgerHeader, version), kLedgerVersion);
  put(offsetof(LedgerHeader, row_count), kLedgerRows);
  put(offsetof(LedgerHeader, limit_bytes), limit.count);
  RETURN_IF_ERROR(write_at(fd.get(), bytes.data(), bytes.size(), 0));
  return LedgerReader(std::move(fd), limit);
}

LedgerReader go_on_with_ledger(OwnedFd fd, Bytes limit) {
  return LedgerReader(std::move(fd), limit);
}

Result<LedgerReadings> LedgerReader::read() {
  const bool grown = cut_what_was_added();
  std::vector<std::byte> bytes = read_page(fd_.get());
  reclaim_dead_rows(bytes);
  LedgerReadings readings = decode_ledger(bytes, limit_);
  readings.tampered = readings.tampered || grown;
  return readings;
}

// A tenant may write to the file beyond its page, at the cost of the worker's disk.
bool LedgerReader::cut_what_was_added() {
  struct stat status = {};
  if (fstat(fd_.get(), &status) != 0) return false;
  if (status.st_size <= static_cast<off_t>(sizeof(LedgerPage))) return false;
  return ftruncate(fd_.get(), sizeof(LedgerPage)) == 0;
}

Result<void> LedgerReader::reset_peak() {
  ASSIGN_OR_RETURN(const LedgerReadings now, read());
  const uint64_t used = now.used.count;
  return write_at(fd_.get(), &used, sizeof(used), offsetof(LedgerHeader, peak_bytes));
}

// Clears, in `bytes` and in the file, the rows whose owner no longer holds the lock. While we hold
// it no process can make the row its own, so that what is cleared is only what the dead one left.
void LedgerReader::reclaim_dead_rows(std::span<std::byte> bytes) {
  for (uint32_t row = 0; row < kLedgerRows; ++row) {
    const size_t offset = row_offset(row);
    if (offset + sizeof(LedgerRow) > bytes.size()) return;
    const bool clean = std::all_of(bytes.data() + offset, bytes.data() + offset + sizeof(LedgerRow),
                                   [](std::byte byte) { return byte == std::byte{0}; });
    if (clean || !lock_row(fd_.get(), row, F_WRLCK)) continue;
    const std::byte zeros[sizeof(LedgerRow)] = {};
    if (write_at(fd_.get(), zeros, sizeof(zeros), offset).ok()) {
      memset(bytes.data() + offset, 0, sizeof(LedgerRow));
    }
    lock_row(fd_.get(), row, F_UNLCK);
  }
}

}  // namespace lambent::ledger
