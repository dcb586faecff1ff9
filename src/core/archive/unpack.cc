#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>
#include <vector>

#include "core/archive/zip.h"
#include "core/archive/zip_reader.h"
#include "core/base/fd.h"

namespace lambent::archive {
namespace {

// A folder that goes away with all in it unless it was kept.
class TemporaryFolder {
 public:
  static Result<TemporaryFolder> beside(const std::string& destination) {
    std::string path = destination + ".partial-XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) return error_from_errno("make folder " + path, errno);
    return TemporaryFolder(std::move(path));
  }
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }
  void keep() { path_.clear(); }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

Result<void> make_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0755) == 0 || errno == EEXIST) return {};
  return error_from_errno("make folder " + path, errno);
}

// The folders above an entry may not be entries themselves.
Result<void> make_folders_above(const std::string& root, const std::string& path) {
  for (size_t slash = path.find('/'); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    RETURN_IF_ERROR(make_folder(root + "/" + path.substr(0, slash)));
  }
  return {};
}

Result<void> write_file(ZipReader& reader, const std::string& path, bool executable) {
  const OwnedFd file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.valid()) return error_from_errno("write " + path, errno);
  RETURN_IF_ERROR(reader.read_content([&](std::string_view piece) -> Result<void> {
    while (!piece.empty()) {
      const ssize_t count = ::write(file.get(), piece.data(), piece.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return error_from_errno("write " + path, errno);
      piece.remove_prefix(static_cast<size_t>(count));
    }
    return {};
  }));
  if (::fchmod(file.get(), executable ? 0755 : 0644) != 0)
    return error_from_errno("write " + path, errno);
  return {};
}

Result<void> write_entries(ZipReader& reader, const std::string& root) {
  std::vector<ZipEntry> links;
  ZipEntry entry;
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, reader.next(entry));
    if (!more) break;
    RETURN_IF_ERROR(make_folders_above(root, entry.path));
    const std::string path = root + "/" + entry.path;
    if (entry.type == EntryType::kFolder) RETURN_IF_ERROR(make_folder(path));
    if (entry.type == EntryType::kFile) RETURN_IF_ERROR(write_file(reader, path, entry.executable));
    if (entry.type == EntryType::kLink) links.push_back(entry);
  }
  // Last, so that nothing can be written through one.
  for (const ZipEntry& link : links) {
    const std::string path = root + "/" + link.path;
    if (::symlink(link.link_target.c_str(), path.c_str()) != 0) {
      return error_from_errno("make link " + path, errno);
    }
  }
  return {};
}

Result<void> sync_folder(const std::string& path, bool with_file_system) {
  const OwnedFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) return error_from_errno("open folder " + path, errno);
  // One call for the file system is cheaper than one for each of thousands of files.
  const int done = with_file_system ? ::syncfs(folder.get()) : ::fsync(folder.get());
  if (done != 0) return error_from_errno("sync " + path, errno);
  return {};
}

std::string parent_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

Result<void> move_into_place(TemporaryFolder& folder, const std::string& destination) {
  if (::chmod(folder.path().c_str(), 0755) != 0)
    return error_from_errno("open up " + destination, errno);
  RETURN_IF_ERROR(sync_folder(folder.path(), true));
  if (::rename(folder.path().c_str(), destination.c_str()) != 0) {
    // Another thread unpacked the same package in the meantime.
    if (errno == EEXIST || errno == ENOTEMPTY) return {};
    return error_from_errno("move the package to " + destination, errno);
  }
  folder.keep();
  return sync_folder(parent_of(destination), false);
}

}  // namespace

Result<UnpackedZip> check_zip(std::string_view zip, const ZipLimits& limits) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ZipReader> reader, ZipReader::open(zip, limits));
  ZipEntry entry;
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, reader->next(entry));
    if (!more) break;
    if (entry.type != EntryType::kFile) continue;
    RETURN_IF_ERROR(reader->read_content([](std::string_view) { return Result<void>(); }));
  }
  if (reader->totals().entries == 0) {
    return Error{ErrorCode::kInvalidArgument, "the zip is empty"};
  }
  return reader->totals();
}

Result<UnpackedZip> unpack_zip(std::string_view zip, const std::string& destination,
                               const ZipLimits& limits) {
  std::error_code ignored;
  if (std::filesystem::is_directory(destination, ignored)) return check_zip(zip, limits);
  ASSIGN_OR_RETURN(const std::unique_ptr<ZipReader> reader, ZipReader::open(zip, limits));
  ASSIGN_OR_RETURN(TemporaryFolder folder, TemporaryFolder::beside(destination));
  RETURN_IF_ERROR(write_entries(*reader, folder.path()));
  if (reader->totals().entries == 0) {
    return Error{ErrorCode::kInvalidArgument, "the zip is empty"};
  }
  RETURN_IF_ERROR(move_into_place(folder, destination));
  return reader->totals();
}

void remove_partial(const std::string& folder) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    if (entry.path().filename().string().find(".partial-") == std::string::npos) continue;
    std::filesystem::remove_all(entry.path(), ignored);
  }
}

}  // namespace lambent::archive
