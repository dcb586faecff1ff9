#include "node/worker/storage_watch.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/base/fd.h"

namespace lambent::worker {
namespace {

constexpr Duration kPeriod = seconds(1);

// What is written stays allocated until the descriptor closes: the file has no name.
Result<void> try_to_write(const std::string& folder, Bytes size) {
  const std::string doing = "write " + to_string(size) + " in " + folder;
  const OwnedFd file(open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
  if (!file.valid()) return error_from_errno(doing, errno);
  const std::string block(Bytes::kib(256).count, 'x');
  for (uint64_t left = size.count; left > 0;) {
    const ssize_t put = write(file.get(), block.data(), std::min<uint64_t>(left, block.size()));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return error_from_errno(doing, errno);
    left -= static_cast<uint64_t>(put);
  }
  if (fdatasync(file.get()) != 0) return error_from_errno(doing, errno);
  return {};
}

}  // namespace

SpaceReading read_space(const std::string& folder, bool write) {
  SpaceReading reading;
  struct statvfs disk {};
  // A disk that cannot be asked is not known to be full.
  const bool asked = statvfs(folder.c_str(), &disk) == 0;
  reading.free = asked ? Bytes(disk.f_bavail * disk.f_frsize) : StorageWatch::kLeastSpace;
  if (!write || reading.free < StorageWatch::kLeastSpace) return reading;
  const auto written = try_to_write(folder, StorageWatch::kLeastSpace);
  if (!written.ok() && written.error().code == ErrorCode::kStorageFull) {
    reading.refused = written.error();
  }
  return reading;
}

StorageWatch::StorageWatch(loop::EventLoop& loop, LogSink& log, std::string folder, Read read)
    : loop_(loop),
      log_(log),
      folder_(std::move(folder)),
      read_(read ? std::move(read)
                 : [folder = folder_](bool write) { return read_space(folder, write); }),
      thread_(loop) {
  look();
}

StorageWatch::~StorageWatch() { loop_.cancel(timer_); }

void StorageWatch::suspect() {
  suspected_ = true;
  if (!looking_) look();
}

void StorageWatch::look() {
  loop_.cancel(timer_);
  looking_ = true;
  // Once it was full, only a write shows that it no longer is.
  const bool write = std::exchange(suspected_, false) || full_.has_value();
  // Shared with the thread, which fills it in while this one goes on.
  auto reading = std::make_shared<SpaceReading>();
  const bool queued = thread_.run([this, write, reading] { *reading = read_(write); },
                                  [this, reading] { found(*reading); });
  CHECK(queued, "one look waits at most");
}

void StorageWatch::found(const SpaceReading& reading) {
  looking_ = false;
  free_ = reading.free;
  const bool was_full = full_.has_value();
  if (reading.refused || reading.free < kLeastSpace) {
    full_ = Error{ErrorCode::kStorageFull,
                  "the disk of the state folder " + folder_ + " is full (" +
                      to_string(reading.free) + " free, at least " + to_string(kLeastSpace) +
                      " are needed): functions and asynchronous invocations may be refused until "
                      "there is space"};
    if (reading.refused) full_->message += "; " + reading.refused->message;
    if (!was_full) log_.error("state_disk_full", {{"error", to_string(*full_)}});
  } else {
    full_.reset();
    if (was_full) {
      log_.info("state_disk_has_space", {{"free_bytes", static_cast<int64_t>(free_.count)}});
    }
  }
  if (suspected_) return look();
  timer_ = loop_.call_after(kPeriod, [this] { look(); });
}

}  // namespace lambent::worker
