#include "emulator/emulated_cuda/code_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <thread>

#include "emulator/emulated_cuda/own_file.h"

namespace lambent::emulated_cuda {

namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMagic = 0x31656863616374d9;
constexpr const char* kSuffix = ".code";
constexpr const char* kTurn = "turn-";
constexpr auto kBetweenTries = std::chrono::milliseconds(20);
constexpr auto kOldWork = std::chrono::hours(1);
constexpr size_t kMostEntryBytes = size_t{1} << 30;

// Behind the code and the key.
struct Trailer {
  uint64_t code_bytes, key_bytes, checksum, magic;
};

// FNV-1a. A key that is found is compared as a whole.
uint64_t hash_of(std::string_view text, uint64_t seed) {
  uint64_t hash = 0xcbf29ce484222325 ^ seed;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

std::string name_of(std::string_view key) {
  char name[40];
  snprintf(name, sizeof name, "%016lx%016lx", static_cast<unsigned long>(hash_of(key, 0)),
           static_cast<unsigned long>(hash_of(key, kMagic)));
  return name;
}

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

// Made as far as they are missing; only this user can write to those.
void make_folders(const fs::path& path) {
  fs::path folder;
  for (const fs::path& each : path) {
    folder /= each;
    mkdir(folder.c_str(), S_IRWXU | S_IRGRP | S_IXGRP | S_IROTH | S_IXOTH);
  }
}

// Others could put a folder of theirs in the place of the cache.
bool others_can_replace_in(const fs::path& folder) {
  struct stat status {};
  return stat(folder.c_str(), &status) != 0 ||
         ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0 && (status.st_mode & S_ISVTX) == 0);
}

}  // namespace

CodeCache::CodeCache(const std::string& folder, uint64_t most_bytes)
    : folder_(folder), most_bytes_(most_bytes) {
  if (folder.empty()) return;
  const fs::path parent = fs::absolute(folder).parent_path();
  make_folders(parent);
  mkdir(folder.c_str(), S_IRWXU);
  struct stat status {};
  if (lstat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) {
    why_not_ = folder + " is no folder and none can be made";
  } else if (!is_own(status) || access(folder.c_str(), W_OK | X_OK) != 0) {
    why_not_ = folder + " must be this user's, and no one else may write to it";
  } else if (others_can_replace_in(parent)) {
    why_not_ = "others may write to " + parent.string() + ", which has no sticky bit";
  } else {
    usable_ = true;
  }
}

std::string CodeCache::path_of(const std::string& key) const {
  return folder_ + "/" + name_of(key) + kSuffix;
}

std::optional<std::vector<char>> CodeCache::find(const std::string& key) const {
  if (!usable_) return std::nullopt;
  const std::string entry =
      read_own_file(path_of(key), kMostEntryBytes, Reach::kAnyone).value_or("");
  Trailer trailer;
  if (entry.size() < sizeof trailer) return std::nullopt;
  std::memcpy(&trailer, entry.data() + entry.size() - sizeof trailer, sizeof trailer);
  const size_t rest = entry.size() - sizeof trailer;
  if (trailer.magic != kMagic || trailer.code_bytes > rest ||
      trailer.key_bytes != rest - trailer.code_bytes) {
    return std::nullopt;
  }
  const std::string_view code(entry.data(), trailer.code_bytes);
  if (std::string_view(entry).substr(trailer.code_bytes, trailer.key_bytes) != key ||
      trailer.checksum != hash_of(code, 0)) {
    return std::nullopt;
  }
  return std::vector<char>(code.begin(), code.end());
}

void CodeCache::keep(const std::string& key, const std::vector<char>& code) const {
  if (!usable_ || code.size() + key.size() > most_bytes_) return;
  std::string fresh = folder_ + "/new-XXXXXX";
  const int fd = mkostemp(fresh.data(), O_CLOEXEC);
  if (fd < 0) return;
  const std::string_view bytes(code.data(), code.size());
  const Trailer trailer{code.size(), key.size(), hash_of(bytes, 0), kMagic};
  const bool written = write_all(fd, bytes) && write_all(fd, key) &&
                       write_all(fd, {reinterpret_cast<const char*>(&trailer), sizeof trailer});
  close(fd);
  if (!written || rename(fresh.c_str(), path_of(key).c_str()) != 0) unlink(fresh.c_str());
  make_room();
}

// What ended processes left goes as well.
void CodeCache::make_room() const {
  struct Entry {
    fs::file_time_type used;
    uint64_t bytes;
    fs::path path;
  };
  std::error_code none;
  std::vector<Entry> entries;
  uint64_t bytes = 0;
  const auto now = fs::file_time_type::clock::now();
  for (fs::directory_iterator each(folder_, none), end; !none && each != end;
       each.increment(none)) {
    std::error_code gone;
    const std::string name = each->path().filename().string();
    const auto used = fs::last_write_time(each->path(), gone);
    if (gone) continue;
    if (name.starts_with("new-") || name.starts_with("work-") || name.starts_with(kTurn)) {
      if (now - used > kOldWork) fs::remove_all(each->path(), gone);
    } else if (name.ends_with(kSuffix)) {
      const uint64_t size = fs::file_size(each->path(), gone);
      if (gone) continue;
      entries.push_back({used, size, each->path()});
      bytes += size;
    }
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& entry : entries) {
    if (bytes <= most_bytes_) break;
    fs::remove(entry.path, none);
    bytes -= entry.bytes;
  }
}

CodeCache::Turn::Turn(const CodeCache& cache, const std::string& key, int most_wait_s) {
  if (!cache.is_usable()) return;
  path_ = cache.folder() + "/" + kTurn + name_of(key);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(most_wait_s);
  for (;;) {
    fd_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR);
    if (fd_ < 0) return;
    while (flock(fd_, LOCK_EX | LOCK_NB) != 0) {
      if (std::chrono::steady_clock::now() >= end) {
        close(fd_);
        fd_ = -1;
        return;
      }
      std::this_thread::sleep_for(kBetweenTries);
    }
    struct stat status {};
    if (fstat(fd_, &status) != 0 || status.st_nlink > 0) break;
    close(fd_);  // the one before has removed it
  }
  futimens(fd_, nullptr);  // it is not left by an ended process
}

// A child that the program forked meanwhile has the descriptor too: closing ours would leave the
// lock to it.
CodeCache::Turn::~Turn() {
  if (fd_ < 0) return;
  unlink(path_.c_str());
  flock(fd_, LOCK_UN);
  close(fd_);
}

}  // namespace lambent::emulated_cuda
