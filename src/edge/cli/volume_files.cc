#include "edge/cli/volume_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "core/domain/limits.h"
#include "core/domain/volume.h"

namespace lambent::cli {
namespace {

namespace fs = std::filesystem;

Error invalid(const std::string& what) { return Error{ErrorCode::kInvalidArgument, what}; }

// Reads from where the file is to its end.
Result<void> read_on(int fd, const std::string& name,
                     const std::function<void(std::string_view)>& take) {
  std::string piece(limits::kVolumePiece.count, '\0');
  for (;;) {
    const ssize_t got = read(fd, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return error_from_errno("read " + name, errno);
    if (got == 0) return {};
    take(std::string_view(piece).substr(0, static_cast<size_t>(got)));
  }
}

bool lies_below(const fs::path& inner, const fs::path& outer) {
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

Result<void> check_link(const fs::path& link, const fs::path& folder) {
  std::error_code error;
  const fs::path target = fs::canonical(link, error);
  if (!error && lies_below(target, folder)) return {};
  return invalid(
      link.string() + " is a link " +
      (error ? "that leads nowhere" : "to " + target.string() + ", outside of the folder") +
      "; remove it, or give --follow-links to put what links lead to");
}

}  // namespace

Result<std::vector<LocalFile>> files_to_put(const std::string& local, const std::string& path,
                                            bool follow_links) {
  std::error_code error;
  const fs::path top = fs::canonical(local, error);
  if (error) return error_from_errno("read " + local, error.value());
  if (fs::is_regular_file(top)) {
    const std::string name = path.empty() ? fs::path(local).filename().string() : path;
    RETURN_IF_ERROR(validate_volume_path(name));
    return std::vector<LocalFile>{{local, name}};
  }
  if (!fs::is_directory(top)) return invalid(local + " is neither a file nor a folder");
  const auto options =
      follow_links ? fs::directory_options::follow_directory_symlink : fs::directory_options::none;
  std::vector<LocalFile> files;
  for (auto at = fs::recursive_directory_iterator(top, options, error);
       !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    if (at.depth() > static_cast<int>(limits::kVolumePathDepth)) {
      return invalid(at->path().string() + " is too deep for a volume");
    }
    if (at->is_symlink() && !follow_links) RETURN_IF_ERROR(check_link(at->path(), top));
    std::error_code ignored;
    if (!at->is_regular_file(ignored)) {
      if (at->is_symlink() && !follow_links) {
        return invalid(at->path().string() + " is a link to a folder; give --follow-links");
      }
      continue;
    }
    const std::string inside = at->path().lexically_relative(top).generic_string();
    files.push_back({at->path().string(), path.empty() ? inside : path + "/" + inside});
    RETURN_IF_ERROR(validate_volume_path(files.back().path));
  }
  if (error) return error_from_errno("read " + local, error.value());
  std::sort(files.begin(), files.end(),
            [](const LocalFile& a, const LocalFile& b) { return a.path < b.path; });
  return files;
}

Result<MeasuredFile> measure_file(const std::string& local,
                                  const std::function<void(Bytes)>& progress) {
  const OwnedFd file(open(local.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return error_from_errno("open " + local, errno);
  crypto::Sha256 digest;
  Bytes size;
  RETURN_IF_ERROR(read_on(file.get(), local, [&](std::string_view bytes) {
    digest.add(bytes);
    size += Bytes(bytes.size());
    progress(size);
  }));
  return MeasuredFile{size, crypto::to_hex(digest.digest())};
}

Result<void> PartFile::begin_again() {
  digest_ = crypto::Sha256();
  size_ = Bytes();
  if (ftruncate(file_.get(), 0) != 0 || lseek(file_.get(), 0, SEEK_SET) != 0) {
    return error_from_errno("write " + part(), errno);
  }
  return {};
}

Result<void> PartFile::open(Bytes size) {
  std::error_code error;
  if (const fs::path folder = fs::path(local_).parent_path(); !folder.empty()) {
    fs::create_directories(folder, error);
    if (error) return error_from_errno("create " + folder.string(), error.value());
  }
  // Where a link was put in its place, nothing is written through it.
  file_ = OwnedFd(::open(part().c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!file_.valid()) return error_from_errno("write " + part(), errno);
  digest_ = crypto::Sha256();
  size_ = Bytes();
  RETURN_IF_ERROR(read_on(file_.get(), part(), [this](std::string_view bytes) {
    digest_.add(bytes);
    size_ += Bytes(bytes.size());
  }));
  return size_ > size ? begin_again() : Result<void>();
}

Result<void> PartFile::append(std::string_view bytes) {
  RETURN_IF_ERROR(write_all(file_.get(), bytes));
  digest_.add(bytes);
  size_ += Bytes(bytes.size());
  return {};
}

Result<void> PartFile::finish(const std::string& sha256) {
  const std::string digest = crypto::to_hex(digest_.digest());
  if (digest != sha256) {
    unlink(part().c_str());
    return Error{ErrorCode::kDataLoss, "what came of " + local_ + " has the sha256 " + digest +
                                           " and not " + sha256 + "; get it again"};
  }
  if (rename(part().c_str(), local_.c_str()) != 0) {
    return error_from_errno("write " + local_, errno);
  }
  return {};
}

}  // namespace lambent::cli
