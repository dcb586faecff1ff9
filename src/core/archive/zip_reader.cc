#include "core/archive/zip_reader.h"

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <array>

#include "core/archive/shown_name.h"

namespace lambent::archive {
namespace {

constexpr size_t kPieceBytes = 64 * 1024;

const char* link_in(struct ::archive_entry* entry) {
  const char* target = archive_entry_symlink_utf8(entry);
  return target != nullptr ? target : archive_entry_symlink(entry);
}

}  // namespace

ZipReader::ZipReader(struct ::archive* handle, const ZipLimits& limits,
                     std::vector<ZipRecord> records)
    : handle_(handle), limits_(limits), records_(std::move(records)) {}

ZipReader::~ZipReader() { archive_read_free(handle_); }

Result<std::unique_ptr<ZipReader>> ZipReader::open(std::string_view zip, const ZipLimits& limits) {
  if (Bytes(zip.size()) > limits.zipped) {
    return Error{ErrorCode::kInvalidArgument, "the zip has " + to_string(Bytes(zip.size())) +
                                                  "; at most " + to_string(limits.zipped) + " fit"};
  }
  ASSIGN_OR_RETURN(ZipDirectory directory, read_zip_directory(zip, limits.entries));
  if (directory.records.empty()) {
    return Error{ErrorCode::kInvalidArgument, "the zip has no files"};
  }
  // The seekable reader takes names and modes from the central directory, too, and goes through it
  // in the order of the entries' places.
  std::unique_ptr<ZipReader> reader(
      new ZipReader(archive_read_new(), limits, std::move(directory.records)));
  archive_read_support_format_zip_seekable(reader->handle_);
  if (archive_read_open_memory(reader->handle_, zip.data(), zip.size()) != ARCHIVE_OK) {
    return Error{ErrorCode::kInvalidArgument, "the package is not a zip file"};
  }
  return reader;
}

Result<bool> ZipReader::next(ZipEntry& entry) {
  for (;;) {
    struct ::archive_entry* header = nullptr;
    const int code = archive_read_next_header(handle_, &header);
    if (code == ARCHIVE_EOF) {
      if (entries_ == records_.size()) return false;
      return Error{ErrorCode::kInvalidArgument,
                   "the zip's directory lists " + std::to_string(records_.size()) +
                       " entries, and it has " + std::to_string(entries_)};
    }
    if (code != ARCHIVE_OK && code != ARCHIVE_WARN) {
      return Error{ErrorCode::kInvalidArgument,
                   entries_ == 0 ? "the package is not a zip file" + reason()
                                 : "the zip is damaged after entry '" + name_ + "'" + reason()};
    }
    if (++entries_ > records_.size()) {
      return Error{ErrorCode::kInvalidArgument,
                   "the zip has more entries than its directory lists"};
    }
    RETURN_IF_ERROR(decode(header, entry));
    if (!entry.path.empty()) return true;
  }
}

Result<void> ZipReader::decode(struct ::archive_entry* from, ZipEntry& entry) {
  // The bytes of the directory: what libarchive makes of them depends on the locale.
  std::string name = records_[entries_ - 1].name;
  // Some tools of Windows write its own separators.
  if (name.find('/') == std::string::npos) std::ranges::replace(name, '\\', '/');
  name_ = shown_name(name);
  if (archive_entry_is_encrypted(from) != 0) return refuse("it is encrypted");
  entry = ZipEntry();
  const auto path = normalize_entry_path(name);
  if (!path.ok()) return refuse(path.error().message);
  entry.path = *path;
  switch (archive_entry_filetype(from)) {
    case AE_IFREG:
      entry.type = EntryType::kFile;
      break;
    case AE_IFDIR:
      entry.type = EntryType::kFolder;
      break;
    case AE_IFLNK:
      entry.type = EntryType::kLink;
      break;
    default:
      return refuse("it is no file, folder or symbolic link");
  }
  entry.executable = (archive_entry_perm(from) & 0111) != 0;
  if (entry.path.empty()) {
    if (entry.type != EntryType::kFolder) return refuse("it has no name");
    return {};  // "./"
  }
  if (const auto added = tree_.add(entry.path, entry.type); !added.ok()) {
    return refuse(added.error().message);
  }
  // Folders that are only implied cost inodes too.
  if (tree_.size() > limits_.entries) return refuse("there are too many files and folders");
  if (entry.type != EntryType::kLink) return {};
  const char* target = link_in(from);
  entry.link_target = target == nullptr ? "" : target;
  if (const auto link = check_link_target(entry.path, entry.link_target); !link.ok()) {
    return refuse(link.error().message);
  }
  return {};
}

Result<void> ZipReader::read_content(const std::function<Result<void>(std::string_view)>& take) {
  std::array<char, kPieceBytes> piece;
  for (uint64_t content = 0;;) {
    const la_ssize_t count = archive_read_data(handle_, piece.data(), piece.size());
    if (count == 0) {
      if (content == records_[entries_ - 1].size) return {};
      return refuse("it has " + std::to_string(content) + " bytes, and the directory says " +
                    std::to_string(records_[entries_ - 1].size));
    }
    if (count < 0) return refuse("its content is damaged" + reason());
    content += static_cast<uint64_t>(count);
    size_ += Bytes(static_cast<uint64_t>(count));
    if (size_ > limits_.unzipped) {
      return refuse("with it the package unpacks to more than " + to_string(limits_.unzipped));
    }
    RETURN_IF_ERROR(take(std::string_view(piece.data(), static_cast<size_t>(count))));
  }
}

Error ZipReader::refuse(std::string_view why) const { return refused_entry(name_, why); }

std::string ZipReader::reason() const {
  const char* text = archive_error_string(handle_);
  return text == nullptr ? "" : " (" + shown_name(text) + ")";
}

}  // namespace lambent::archive
