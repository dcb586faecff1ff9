#include "node/images/image_tree.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <system_error>
#include <utility>

#include "core/base/fd.h"

namespace lambent::images {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostLibrary = 16 << 20;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// "2.36" at the beginning of a text; empty: there is none.
std::string version_at(std::string_view text) {
  size_t end = 0;
  while (end < text.size() && end < 12 && (is_digit(text[end]) || text[end] == '.')) ++end;
  while (end > 0 && text[end - 1] == '.') --end;
  return std::string(text.substr(0, end));
}

std::pair<int, int> numbers_of(std::string_view version) {
  std::pair<int, int> numbers{0, 0};
  const size_t point = std::min(version.find('.'), version.size());
  std::from_chars(version.data(), version.data() + point, numbers.first);
  if (point < version.size()) {
    std::from_chars(version.data() + point + 1, version.data() + version.size(), numbers.second);
  }
  return numbers;
}

}  // namespace

Result<std::string> read_inside(const std::string& root, const std::string& path, size_t most) {
  const OwnedFd folder(open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) return error_from_errno("open " + root, errno);
  open_how how{};
  how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  const OwnedFd file(
      static_cast<int>(syscall(SYS_openat2, folder.get(), path.c_str(), &how, sizeof(how))));
  struct stat status {};
  if (!file.valid() || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return Error{ErrorCode::kNotFound, "the image has no file " + path};
  }
  std::string text(std::min(static_cast<size_t>(status.st_size), most), '\0');
  size_t have = 0;
  while (have < text.size()) {
    const ssize_t count = read(file.get(), text.data() + have, text.size() - have);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    have += static_cast<size_t>(count);
  }
  text.resize(have);
  return text;
}

CLibrary c_library_of(const std::string& root) {
  constexpr std::string_view kRelease = "release version ";
  for (const char* path : {"/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/x86_64-linux-gnu/libc.so.6",
                           "/lib/aarch64-linux-gnu/libc.so.6", "/lib64/libc.so.6",
                           "/usr/lib64/libc.so.6", "/lib/libc.so.6", "/usr/lib/libc.so.6"}) {
    const auto library = read_inside(root, path, kMostLibrary);
    if (!library.ok()) continue;
    const size_t at = library->find(kRelease);
    if (at == std::string::npos) continue;
    return {"glibc", version_at(std::string_view(*library).substr(at + kRelease.size()))};
  }
  for (const char* path : {"/lib/ld-musl-x86_64.so.1", "/lib/ld-musl-aarch64.so.1"}) {
    if (read_inside(root, path, 1).ok()) return {"musl", ""};
  }
  return {};
}

std::string glibc_needed_by(const std::string& file) {
  constexpr std::string_view kSymbol = "GLIBC_2.";
  std::string needed;
  const auto content = read_file(file, 256 << 20);
  if (!content.ok()) return needed;
  for (size_t at = 0; (at = content->find(kSymbol, at)) != std::string::npos; ++at) {
    std::string version = version_at(std::string_view(*content).substr(at + kSymbol.size() - 2));
    if (!is_version_at_least(needed, version)) needed = std::move(version);
  }
  return needed;
}

bool is_version_at_least(std::string_view have, std::string_view needed) {
  return numbers_of(have) >= numbers_of(needed);
}

void remove_tree(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (!error) return;
  std::error_code ignored;
  fs::permissions(path, fs::perms::owner_all, fs::perm_options::add | fs::perm_options::nofollow,
                  ignored);
  // A folder is entered after its own visit, so by then it lets us in.
  for (fs::recursive_directory_iterator at(path, ignored), end; at != end; at.increment(error)) {
    if (error) break;
    if (at->is_symlink(ignored) || !at->is_directory(ignored)) continue;
    fs::permissions(at->path(), fs::perms::owner_all, fs::perm_options::add, ignored);
  }
  fs::remove_all(path, ignored);
}

}  // namespace lambent::images
