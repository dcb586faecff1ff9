#include "edge/cli/fetch_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>

#include "core/crypto/crypto.h"

namespace lambent::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kEntryDigits = 16;
constexpr auto kKept = std::chrono::hours(24 * 7);

bool is_entry(const fs::path& path) {
  const std::string name = path.filename();
  return name.size() == kEntryDigits && std::ranges::all_of(name, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

void drop_old(const std::string& cache) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(cache, error)) {
    if (!is_entry(entry.path())) continue;
    std::error_code absent;
    const auto at = fs::last_write_time(entry.path() / "lock", absent);
    if (absent || fs::file_time_type::clock::now() - at < kKept) continue;
    fs::remove_all(entry.path(), absent);
  }
}

}  // namespace

Result<std::shared_ptr<const CacheEntry>> FetchCache::open(const std::string& url) {
  std::weak_ptr<const CacheEntry>& known = open_[url];
  if (auto entry = known.lock()) return entry;
  drop_old(folder_);
  CacheEntry entry;
  entry.path_ = folder_ + "/" + crypto::to_hex(crypto::sha256(url)).substr(0, kEntryDigits);
  std::error_code error;
  fs::create_directories(entry.path_, error);
  if (error) return error_from_errno("create " + entry.path_, error.value());
  const std::string lock = entry.path_ + "/lock";
  entry.lock_ = OwnedFd(::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!entry.lock_.valid()) return error_from_errno("open " + lock, errno);
  // One whose lock has no name any more is removed by the process that had it.
  struct stat status {};
  if (flock(entry.lock_.get(), LOCK_EX | LOCK_NB) != 0 || fstat(entry.lock_.get(), &status) != 0 ||
      status.st_nlink == 0) {
    return Error{ErrorCode::kAborted, "another process fetches or deploys it right now"};
  }
  // Others may tell by it how old this is.
  futimens(entry.lock_.get(), nullptr);
  auto shared = std::make_shared<const CacheEntry>(std::move(entry));
  known = shared;
  return shared;
}

void CacheEntry::drop() const {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

bool CacheEntry::is_empty() const {
  std::error_code ignored;
  for (const auto& file : fs::recursive_directory_iterator(path_, ignored)) {
    if (file.is_regular_file(ignored) && file.path().filename() != "lock") return false;
  }
  return true;
}

Result<Bytes> size_of_file(const std::string& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  if (error) return error_from_errno("read " + path, error.value());
  return Bytes(size);
}

Result<Bytes> room_in(const std::string& folder) {
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  if (error) return error_from_errno("read " + folder, error.value());
  return Bytes(space.available);
}

}  // namespace lambent::cli
