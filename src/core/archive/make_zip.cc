#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <vector>

#include "core/archive/entry_path.h"
#include "core/archive/zip.h"
#include "core/base/fd.h"

namespace lambent::archive {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPieceBytes = 64 * 1024;

struct FreeWriter {
  void operator()(struct ::archive* handle) const { archive_write_free(handle); }
};
struct FreeEntry {
  void operator()(struct ::archive_entry* entry) const { archive_entry_free(entry); }
};
using Writer = std::unique_ptr<struct ::archive, FreeWriter>;
using Header = std::unique_ptr<struct ::archive_entry, FreeEntry>;

struct Output {
  std::string zip;
  Bytes limit;
};

la_ssize_t take_output(struct ::archive* handle, void* context, const void* bytes, size_t count) {
  auto* output = static_cast<Output*>(context);
  if (Bytes(output->zip.size() + count) > output->limit) {
    archive_set_error(handle, ENOSPC, "too large");
    return -1;
  }
  output->zip.append(static_cast<const char*>(bytes), count);
  return static_cast<la_ssize_t>(count);
}

Error invalid(const std::string& what) { return Error{ErrorCode::kInvalidArgument, what}; }

// Paths below the folder, in order of their bytes.
Result<std::vector<std::string>> list_folder(const std::string& folder, const ZipLimits& limits) {
  std::error_code code;
  std::vector<std::string> paths;
  fs::recursive_directory_iterator entry(folder, code);
  for (; !code && entry != fs::recursive_directory_iterator(); entry.increment(code)) {
    if (is_left_out(*entry)) {
      entry.disable_recursion_pending();
      continue;
    }
    paths.push_back(entry->path().lexically_relative(folder).string());
    if (paths.size() > limits.entries) {
      return invalid("the folder " + folder + " has more than " + std::to_string(limits.entries) +
                     " files");
    }
  }
  if (code) return error_from_errno("read folder " + folder, code.value());
  if (paths.empty()) return invalid("the folder " + folder + " is empty");
  std::sort(paths.begin(), paths.end());
  return paths;
}

class ZipMaker {
 public:
  ZipMaker(std::string folder, const ZipLimits& limits)
      : folder_(std::move(folder)), limits_(limits), writer_(archive_write_new()) {
    output_.limit = limits.zipped;
    archive_write_set_format_zip(writer_.get());
    // No padding to a tape's blocks.
    archive_write_set_bytes_per_block(writer_.get(), 0);
    archive_write_open(writer_.get(), &output_, nullptr, take_output, nullptr);
  }

  Result<void> add(const std::string& path) {
    const std::string full = folder_ + "/" + path;
    std::error_code code;
    const fs::file_status status = fs::symlink_status(full, code);
    if (code) return error_from_errno("look at " + full, code.value());
    switch (status.type()) {
      case fs::file_type::directory:
        return add_header(path, AE_IFDIR, 0755, 0, "");
      case fs::file_type::symlink:
        return add_link(path, full);
      case fs::file_type::regular:
        return add_file(path, full,
                        (status.permissions() & fs::perms::owner_exec) != fs::perms::none);
      default:
        return invalid(full + " is no file, folder or symbolic link");
    }
  }

  Result<std::string> finish() {
    if (archive_write_close(writer_.get()) != ARCHIVE_OK) return too_large();
    return std::move(output_.zip);
  }

 private:
  Result<void> add_link(const std::string& path, const std::string& full) {
    std::error_code code;
    const std::string target = fs::read_symlink(full, code).string();
    if (code) return error_from_errno("read link " + full, code.value());
    const auto allowed = check_link_target(path, target);
    if (!allowed.ok()) return allowed.error().with_context(full);
    return add_header(path, AE_IFLNK, 0777, 0, target);
  }

  Result<void> add_file(const std::string& path, const std::string& full, bool executable) {
    const OwnedFd file(::open(full.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    if (!file.valid()) return error_from_errno("read " + full, errno);
    const off_t size = ::lseek(file.get(), 0, SEEK_END);
    if (size < 0 || ::lseek(file.get(), 0, SEEK_SET) != 0) {
      return error_from_errno("read " + full, errno);
    }
    unzipped_ += Bytes(static_cast<uint64_t>(size));
    if (Bytes(static_cast<uint64_t>(size)) > largest_size_) {
      largest_ = path;
      largest_size_ = Bytes(static_cast<uint64_t>(size));
    }
    if (unzipped_ > limits_.unzipped) {
      return invalid("the folder " + folder_ + " has more than " + to_string(limits_.unzipped) +
                     advice());
    }
    RETURN_IF_ERROR(add_header(path, AE_IFREG, executable ? 0755 : 0644, size, ""));
    std::array<char, kPieceBytes> piece;
    off_t left = size;
    while (left > 0) {
      const ssize_t count = ::read(file.get(), piece.data(), piece.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return error_from_errno("read " + full, errno);
      if (count == 0 || count > left) return invalid(full + " changed while it was read");
      if (archive_write_data(writer_.get(), piece.data(), static_cast<size_t>(count)) != count) {
        return too_large();
      }
      left -= count;
    }
    return {};
  }

  // Times and owners stay unset, so that the same contents give the same bytes.
  Result<void> add_header(const std::string& path, unsigned type, unsigned mode, off_t size,
                          const std::string& target) {
    const Header header(archive_entry_new());
    archive_entry_set_pathname(header.get(), path.c_str());
    archive_entry_update_pathname_utf8(header.get(), path.c_str());
    archive_entry_set_filetype(header.get(), type);
    archive_entry_set_perm(header.get(), static_cast<mode_t>(mode));
    archive_entry_set_size(header.get(), size);
    if (!target.empty()) archive_entry_set_symlink(header.get(), target.c_str());
    if (archive_write_header(writer_.get(), header.get()) < ARCHIVE_WARN) return too_large();
    return {};
  }

  Error too_large() const {
    return invalid("the zip of " + folder_ + " has more than " + to_string(limits_.zipped) +
                   advice());
  }
  std::string advice() const {
    return "; its largest file so far is " + largest_ + " (" + to_string(largest_size_) +
           "). Weights and data go into volumes, packages into [python] of lambent.toml";
  }

  const std::string folder_;
  const ZipLimits limits_;
  Output output_;
  Writer writer_;
  Bytes unzipped_;
  std::string largest_;
  Bytes largest_size_;
};

}  // namespace

// What is no code: Python's compiled modules, which it writes differently each time; virtual
// environments, whose packages the worker installs ([python]); what version control keeps.
bool is_left_out(const fs::directory_entry& folder) {
  std::error_code code;
  if (!folder.is_directory(code) || folder.is_symlink(code)) return false;
  const std::string name = folder.path().filename().string();
  for (const char* one : {"__pycache__", ".git", ".hg", ".svn"}) {
    if (name == one) return true;
  }
  return fs::exists(folder.path() / "pyvenv.cfg", code);
}

Result<std::string> make_zip(const std::string& folder, const ZipLimits& limits,
                             const std::string& without) {
  ASSIGN_OR_RETURN(std::vector<std::string> paths, list_folder(folder, limits));
  if (paths.size() > 1) std::erase(paths, without);
  ZipMaker maker(folder, limits);
  for (const std::string& path : paths) RETURN_IF_ERROR(maker.add(path));
  return maker.finish();
}

}  // namespace lambent::archive

// libarchive's table of every format names this one too, which needs libxml2 and ICU. Ours takes
// its place when the archive is linked, so that they are not.
extern "C" int archive_write_set_format_xar(struct archive*) { return ARCHIVE_FATAL; }
