#include "node/journal_store/segment_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "decide/journal/limits.h"
#include "node/journal_store/segment_files.h"

namespace lambent::journal_store {
namespace {

// After a failure (a full disk, say) another segment is not tried at once.
constexpr Duration kRetryAfter = seconds(10);
constexpr size_t kSpareBatches = 64;
// So many bytes of events wait before the thread is woken for them: each time costs the thread that
// decides, and what is left of the buffer lasts until this one runs.
constexpr size_t kHurry = limits::kJournalBuffer.count / 4;

}  // namespace

Result<std::unique_ptr<SegmentStore>> SegmentStore::open(SegmentStoreOptions options,
                                                         const Clock& clock, LogSink& log) {
  std::error_code error;
  std::filesystem::create_directories(options.folder, error);
  if (error) {
    return Error{ErrorCode::kPermissionDenied, "create " + options.folder + ": " + error.message() +
                                                   "; choose another folder with --journal"};
  }
  const std::string path = options.folder + "/lock";
  OwnedFd lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.valid()) return error_from_errno("open " + path, errno);
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return Error{ErrorCode::kAlreadyExists, "another worker writes its journal to " +
                                                options.folder +
                                                "; give each one a folder of its own"};
  }
  ASSIGN_OR_RETURN(const auto segments, list_segments(options.folder));
  std::unique_ptr<SegmentStore> store(
      new SegmentStore(std::move(options), clock, log, std::move(lock)));
  if (!segments.empty()) store->number_ = segments.back().number;
  store->thread_ = std::thread([self = store.get()] { self->serve(); });
  return store;
}

SegmentStore::SegmentStore(SegmentStoreOptions options, const Clock& clock, LogSink& log,
                           OwnedFd lock)
    : options_(std::move(options)), clock_(clock), log_(log), lock_(std::move(lock)) {}

SegmentStore::~SegmentStore() {
  {
    const MutexLock guard(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool SegmentStore::begin_segment() {
  const MutexLock guard(mutex_);
  if (failure_) {
    if (options_.waits || clock_.now() - failed_at_ < kRetryAfter) return false;
    failure_.reset();
  }
  // Room for a good deal of events behind the snapshot, which is taken whatever its size.
  if (queued_bytes_ > limits::kJournalBuffer.count / 2 && !options_.waits) return false;
  queue_.push_back({.begins = true});
  changed_.notify_all();
  return true;
}

bool SegmentStore::append(journal::BlockType type, std::string payload) {
  MutexLock guard(mutex_);
  Work work{.type = type, .payload = std::move(payload)};
  if (!enqueue(work, guard)) return false;
  changed_.notify_all();
  return true;
}

// To wake a thread takes as long as many events: it is done once for some thousands of them, or
// when flush() asks for it.
bool SegmentStore::append_events(journal::EventBatch& batch) {
  MutexLock guard(mutex_);
  Work work{.events = batch.take()};
  if (!enqueue(work, guard)) return false;
  if (batch.bytes() == 0 && !spare_.empty()) {
    batch = std::move(spare_.back());
    spare_.pop_back();
  }
  if (queued_bytes_ >= kHurry) changed_.notify_all();
  return true;
}

// Takes the work if there is room for it, or is some in time.
bool SegmentStore::enqueue(Work& work, MutexLock& guard) {
  const bool bounded =
      work.type != journal::BlockType::kSnapshot && work.type != journal::BlockType::kEnd;
  const auto fits = [&](size_t queued) {
    return !bounded || queued + work.bytes() <= limits::kJournalBuffer.count;
  };
  if (options_.waits && !fits(queued_bytes_)) {
    changed_.notify_all();
    while (!failure_ && !fits(queued_bytes_)) changed_.wait(guard);
  }
  if (failure_ || !fits(queued_bytes_)) return false;
  queued_bytes_ += work.bytes();
  queue_.push_back(std::move(work));
  return true;
}

void SegmentStore::flush() {
  const MutexLock guard(mutex_);
  if (!queue_.empty()) changed_.notify_all();
}

Result<void> SegmentStore::sync() {
  MutexLock guard(mutex_);
  changed_.notify_all();
  while (!queue_.empty() || busy_) changed_.wait(guard);
  if (failure_) return *failure_;
  return {};
}

void SegmentStore::serve() {
  MutexLock guard(mutex_);
  while (true) {
    while (!stopping_ && queue_.empty()) changed_.wait(guard);
    if (queue_.empty()) return;
    Work work = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    guard.unlock();
    const Result<void> done = perform(work);
    guard.lock();
    busy_ = false;
    queued_bytes_ -= work.bytes();
    if (!done.ok()) fail(done.error());
    if (work.events.bytes() >= limits::kJournalBlock.count && spare_.size() < kSpareBatches) {
      work.events.clear();
      spare_.push_back(std::move(work.events));
    }
    changed_.notify_all();
  }
}

// What is queued belongs to the segment that failed, up to the next one; but
// none begins before append() has told of the failure.
void SegmentStore::fail(const Error& error) {
  log_.error("journal_not_written", {{"error", to_string(error)}});
  failure_ = error;
  failed_at_ = clock_.now();
  queue_.clear();
  queued_bytes_ = 0;
  file_.reset();
}

Result<void> SegmentStore::perform(const Work& work) {
  if (work.begins) return begin_file();
  scratch_.clear();
  if (work.events.empty()) {
    journal::append_block(scratch_, work.type, work.payload);
  } else {
    writer_.add(work.events);
    journal::append_block(scratch_, work.type, writer_.finish());
  }
  RETURN_IF_ERROR(write_all(file_.get(), scratch_));
  // What power could take is what the kernel holds; a segment that was closed is safe from it.
  if (work.type == journal::BlockType::kEnd && fdatasync(file_.get()) != 0) {
    return error_from_errno("sync a segment of " + options_.folder, errno);
  }
  return {};
}

Result<void> SegmentStore::begin_file() {
  make_room();
  const std::string path = options_.folder + "/" + segment_name(++number_);
  file_ = OwnedFd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0640));
  if (!file_.valid()) return error_from_errno("create " + path, errno);
  return write_all(file_.get(), journal::preamble());
}

// Removes the oldest segments until another one fits.
void SegmentStore::make_room() {
  const auto segments = list_segments(options_.folder);
  if (!segments.ok()) return;
  uint64_t total = segment_size_of(options_.most_size).count;
  for (const SegmentFile& segment : *segments) total += segment.size;
  for (const SegmentFile& segment : *segments) {
    if (total <= options_.most_size.count) return;
    std::error_code error;
    std::filesystem::remove(segment.path, error);
    if (!error) total -= segment.size;
  }
}

}  // namespace lambent::journal_store
