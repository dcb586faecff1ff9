#include "bin/backup_digests.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "core/base/fd.h"
#include "core/crypto/copied_file.h"

namespace lambent::bin {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDigests = "/SHA256SUMS";
constexpr const char* kKey = "node.key";
constexpr size_t kDigits = 64;
constexpr size_t kMostText = size_t{1} << 30;

// "volumes/TENANT/NAME/contents/SHA256"
bool is_content(const fs::path& path) {
  const std::vector<fs::path> parts(path.begin(), path.end());
  return parts.size() == 5 && parts[0] == "volumes" && parts[3] == "contents" &&
         parts[4].string().size() == kDigits;
}

// Digests of files below one folder; a file with several names is read once.
class Digests {
 public:
  explicit Digests(std::string folder) : folder_(std::move(folder)) {}

  // In hexadecimal digits; `path` is below the folder.
  Result<std::string> of(const std::string& path) {
    const std::string whole = folder_ + "/" + path;
    struct stat status {};
    if (::lstat(whole.c_str(), &status) != 0) return error_from_errno("read " + whole, errno);
    if (is_content(path)) return known_[status.st_ino] = fs::path(path).filename().string();
    if (const auto known = known_.find(status.st_ino); known != known_.end()) return known->second;
    ASSIGN_OR_RETURN(const crypto::Digest digest, crypto::digest_of_file(whole));
    return known_[status.st_ino] = crypto::to_hex(digest);
  }

 private:
  const std::string folder_;
  std::map<ino_t, std::string> known_;
};

// sha256sum begins such a line with a backslash.
std::string escaped(const std::string& path) {
  std::string text;
  for (const char c : path) {
    if (c == '\\') {
      text += "\\\\";
    } else if (c == '\n') {
      text += "\\n";
    } else if (c == '\r') {
      text += "\\r";
    } else {
      text += c;
    }
  }
  return text;
}

std::string unescaped(std::string_view text) {
  std::string path;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      path += text[i];
      continue;
    }
    const char c = text[++i];
    path += c == 'n' ? '\n' : c == 'r' ? '\r' : c;
  }
  return path;
}

// Of the regular files, contents of volumes first, so that their other names are not read.
Result<std::vector<std::string>> files_in(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (auto at = fs::recursive_directory_iterator(folder, error);
       !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    if (at->symlink_status(error).type() != fs::file_type::regular) continue;
    paths.push_back(at->path().string().substr(folder.size() + 1));
  }
  if (error) return error_from_errno("read " + folder, error.value());
  std::ranges::sort(paths);
  std::ranges::stable_partition(paths, is_content);
  return paths;
}

}  // namespace

Result<void> write_digests(const std::string& backup) {
  ASSIGN_OR_RETURN(const auto paths, files_in(backup));
  Digests digests(backup);
  std::string text;
  for (const std::string& path : paths) {
    if (path == kKey) continue;
    ASSIGN_OR_RETURN(const std::string digest, digests.of(path));
    const std::string name = escaped(path);
    text += (name == path ? "" : "\\") + digest + "  " + name + "\n";
  }
  return write_file_atomically(backup + kDigests, text, false);
}

Result<void> check_digests(const std::string& backup) {
  std::error_code ignored;
  if (!fs::exists(backup + kDigests, ignored)) return {};
  ASSIGN_OR_RETURN(const std::string text, read_file(backup + kDigests, kMostText));
  Digests digests(backup);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const bool is_escaped = line.starts_with('\\');
    if (is_escaped) line.erase(0, 1);
    if (line.size() < kDigits + 3) {
      return Error{ErrorCode::kDataLoss, backup + kDigests + " has a line that is no digest"};
    }
    const std::string name = line.substr(kDigits + 2);
    const std::string path = is_escaped ? unescaped(name) : name;
    const auto digest = digests.of(path);
    if (digest.ok() && *digest == line.substr(0, kDigits)) continue;
    return Error{
        ErrorCode::kDataLoss,
        backup + "/" + path +
            (digest.ok() ? " is not what was backed up: its SHA-256 is " + *digest
                         : " was backed up and cannot be read: " + digest.error().message) +
            "; take another backup"};
  }
  return {};
}

}  // namespace lambent::bin
