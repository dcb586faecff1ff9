#include "node/tenants/audit_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/json_text.h"
#include "core/crypto/crypto.h"

namespace lambent::tenants {
namespace {

constexpr size_t kMostShown = 512;  // bytes of a path
// What the first line of a file has as the digest of the one before.
const std::string kNoChain(64, '0');
constexpr size_t kMostUnwritten = 10'000;      // records that wait for the disk
constexpr size_t kLastLineWithin = 64 * 1024;  // of the file's end

std::string digest_of(std::string_view line) { return crypto::to_hex(crypto::sha256(line)); }

std::string time_text(Duration since_epoch) {
  const auto whole = std::chrono::floor<seconds>(since_epoch);
  const std::time_t time = whole.count();
  std::tm date{};
  ::gmtime_r(&time, &date);
  char text[64];
  std::snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", date.tm_year + 1900,
                date.tm_mon + 1, date.tm_mday, date.tm_hour, date.tm_min, date.tm_sec,
                static_cast<int>((since_epoch - whole) / milliseconds(1)));
  return text;
}

std::string line_of(const AuditRecord& record, uint64_t suppressed, const std::string& chain) {
  nlohmann::ordered_json line;
  line["time"] = time_text(record.at);
  line["origin"] = record.origin;
  line["token"] = record.token;
  line["tenant"] = record.tenant;
  line["method"] = record.method;
  line["path"] = record.path.substr(0, kMostShown);
  line["status"] = record.status;
  if (suppressed > 0) line["refusals_not_written"] = suppressed;
  line["previous"] = chain;
  return json_text(line);
}

// All of it or, after an error, nothing.
Result<void> write_and_sync(const OwnedFd& file, std::string_view text) {
  struct stat about {};
  if (::fstat(file.get(), &about) != 0) return error_from_errno("stat the audit log", errno);
  Result<void> written = write_all(file.get(), text);
  if (written.ok() && ::fdatasync(file.get()) != 0) {
    written = error_from_errno("sync the audit log", errno);
  }
  if (!written.ok() && ::ftruncate(file.get(), about.st_size) != 0) {
    return error_from_errno("cut off half a line of the audit log", errno);
  }
  return written;
}

// The digest of the file's last whole line. A line that was cut off by a crash was never
// acknowledged; what comes next begins a line of its own.
Result<std::string> chain_of(const OwnedFd& file, const std::string& path) {
  struct stat about {};
  if (::fstat(file.get(), &about) != 0) return error_from_errno("stat " + path, errno);
  const auto size = static_cast<size_t>(about.st_size);
  std::string end(std::min(size, kLastLineWithin), '\0');
  const ssize_t got =
      ::pread(file.get(), end.data(), end.size(), static_cast<off_t>(size - end.size()));
  if (got < 0) return error_from_errno("read " + path, errno);
  end.resize(static_cast<size_t>(got));
  const size_t last_end = end.find_last_of('\n');
  if (size > 0 && last_end != end.size() - 1) RETURN_IF_ERROR(write_and_sync(file, "\n"));
  if (last_end == std::string::npos) return kNoChain;
  const size_t begin = last_end == 0 ? std::string::npos : end.find_last_of('\n', last_end - 1);
  const size_t first = begin == std::string::npos ? 0 : begin + 1;
  return digest_of(std::string_view(end).substr(first, last_end - first));
}

}  // namespace

Result<std::unique_ptr<AuditLog>> AuditLog::open(AuditLogOptions options, LogSink& log, Post post) {
  struct stat about {};
  const bool is_full = ::stat(options.path.c_str(), &about) == 0 &&
                       Bytes(static_cast<uint64_t>(about.st_size)) > options.most_size;
  if (is_full && ::rename(options.path.c_str(), (options.path + ".1").c_str()) != 0) {
    return error_from_errno("rename " + options.path, errno);
  }
  OwnedFd file(::open(options.path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!file.valid()) return error_from_errno("open the audit log " + options.path, errno);
  ASSIGN_OR_RETURN(std::string chain, chain_of(file, options.path));
  return std::unique_ptr<AuditLog>(
      new AuditLog(std::move(options), std::move(file), std::move(chain), log, std::move(post)));
}

AuditLog::AuditLog(AuditLogOptions options, OwnedFd file, std::string chain, LogSink& log,
                   Post post)
    : options_(std::move(options)),
      file_(std::move(file)),
      log_(log),
      post_(std::move(post)),
      chain_(std::move(chain)),
      thread_([this] { serve(); }) {}

AuditLog::~AuditLog() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

bool AuditLog::is_counted_only(const AuditRecord& record) {
  if (record.status != 401 && record.status != 403) return false;
  const Duration second = std::chrono::floor<seconds>(record.at);
  if (second != second_) refusals_ = 0;
  second_ = second;
  return ++refusals_ > options_.most_refusals_per_second;
}

void AuditLog::append(AuditRecord record, AuditWritten written) {
  const bool counted_only = is_counted_only(record);
  {
    const MutexLock lock(mutex_);
    if (counted_only) {
      ++suppressed_;
    } else {
      entries_.push_back({std::move(record), std::move(written)});
    }
  }
  if (counted_only) return written({});
  wake_.notify_one();
}

void AuditLog::serve() {
  for (;;) {
    std::deque<Entry> entries;
    {
      MutexLock lock(mutex_);
      while (entries_.empty() && !stopping_) wake_.wait(lock);
      if (entries_.empty()) return;
      entries.swap(entries_);
    }
    const Result<void> written = write(entries);
    if (!written.ok()) log_.error("audit_log_not_written", {{"error", to_string(written.error())}});
    for (Entry& entry : entries) {
      post([done = std::move(entry.written), written] { done(written); });
    }
  }
}

// One sync for all that came meanwhile.
Result<void> AuditLog::write(const std::deque<Entry>& entries) {
  uint64_t suppressed = 0;
  {
    const MutexLock lock(mutex_);
    suppressed = std::exchange(suppressed_, 0);
  }
  std::string text;
  std::string chain = chain_;
  for (const Entry& entry : entries) unwritten_.push_back(entry.record);
  uint64_t left_out = suppressed;
  for (const AuditRecord& record : unwritten_) {
    const std::string line = line_of(record, std::exchange(left_out, 0), chain);
    chain = digest_of(line);
    text += line + "\n";
  }
  if (const auto written = write_and_sync(file_, text); !written.ok()) {
    while (unwritten_.size() > kMostUnwritten) unwritten_.pop_front();
    const MutexLock lock(mutex_);
    suppressed_ += suppressed;
    return written;
  }
  unwritten_.clear();
  chain_ = std::move(chain);
  return {};
}

void AuditLog::post(std::function<void()> task) {
  while (!post_(task)) {
    {
      const MutexLock lock(mutex_);
      if (stopping_) return;
    }
    std::this_thread::sleep_for(milliseconds(1));  // the loop's mailbox is full
  }
}

AuditCheck check_lines(const std::vector<std::string>& lines) {
  AuditCheck check;
  std::string chain = kNoChain;
  for (size_t i = 0; i < lines.size(); ++i) {
    const auto line = nlohmann::json::parse(lines[i], nullptr, false);
    if (line.is_discarded()) {
      check.foreign.push_back(i + 1);
      continue;
    }
    const bool holds = line.is_object() && line.contains("previous") &&
                       line["previous"].is_string() &&
                       line["previous"].get_ref<const std::string&>() == chain;
    if (!holds) {
      check.broken = i + 1;
      return check;
    }
    chain = digest_of(lines[i]);
  }
  return check;
}

}  // namespace lambent::tenants
