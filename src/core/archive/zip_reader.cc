#include "core/archive/zip_reader.h"

#include <archive.h>
#include <archive_entry.h>

#include <array>

namespace lambent::archive {
namespace {

constexpr size_t kPieceBytes = 64 * 1024;
// How much of a foreign name a message repeats.
constexpr size_t kNameShown = 200;

// A name as a message may show it: printable ASCII.
std::string shown(std::string_view name) {
  std::string text;
  for (const char c : name.substr(0, kNameShown)) text += c >= ' ' && c < 127 ? c : '?';
  return text;
}

const char* name_in(struct ::archive_entry* entry) {
  const char* name = archive_entry_pathname_utf8(entry);
  return name != nullptr ? name : archive_entry_pathname(entry);
}

const char* link_in(struct ::archive_entry* entry) {
  const char* target = archive_entry_symlink_utf8(entry);
  return target != nullptr ? target : archive_entry_symlink(entry);
}

}  // namespace

ZipReader::ZipReader(struct ::archive* handle, const ZipLimits& limits)
    : handle_(handle), limits_(limits) {}

ZipReader::~ZipReader() { archive_read_free(handle_); }

Result<std::unique_ptr<ZipReader>> ZipReader::open(std::string_view zip, const ZipLimits& limits) {
  if (Bytes(zip.size()) > limits.zipped) {
    return Error{ErrorCode::kInvalidArgument, "the zip has " + to_string(Bytes(zip.size())) +
                                                  "; at most " + to_string(limits.zipped) + " fit"};
  }
  // The seekable reader takes names, modes and sizes from the central directory, which every
  // other reader of the package will believe too.
  std::unique_ptr<ZipReader> reader(new ZipReader(archive_read_new(), limits));
  archive_read_support_format_zip_seekable(reader->handle_);
  if (zip.empty() ||
      archive_read_open_memory(reader->handle_, zip.data(), zip.size()) != ARCHIVE_OK) {
    return Error{ErrorCode::kInvalidArgument, "the package is no zip file"};
  }
  return reader;
}

Result<bool> ZipReader::next(ZipEntry& entry) {
  for (;;) {
    struct ::archive_entry* header = nullptr;
    const int code = archive_read_next_header(handle_, &header);
    if (code == ARCHIVE_EOF) return false;
    if (code != ARCHIVE_OK && code != ARCHIVE_WARN) {
      return Error{ErrorCode::kInvalidArgument,
                   entries_ == 0 ? "the package is no zip file" + reason()
                                 : "the zip is damaged after entry '" + name_ + "'" + reason()};
    }
    if (++entries_ > limits_.entries) {
      return Error{ErrorCode::kInvalidArgument,
                   "the zip has more than " + std::to_string(limits_.entries) + " entries"};
    }
    RETURN_IF_ERROR(decode(header, entry));
    if (!entry.path.empty()) return true;
  }
}

Result<void> ZipReader::decode(struct ::archive_entry* from, ZipEntry& entry) {
  const char* name = name_in(from);
  name_ = name == nullptr ? "number " + std::to_string(entries_) : shown(name);
  if (name == nullptr) return refuse("its name is neither UTF-8 nor ASCII");
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
  for (;;) {
    const la_ssize_t count = archive_read_data(handle_, piece.data(), piece.size());
    if (count == 0) return {};
    if (count < 0) return refuse("its content is damaged" + reason());
    size_ += Bytes(static_cast<uint64_t>(count));
    if (size_ > limits_.unzipped) {
      return refuse("with it the package unpacks to more than " + to_string(limits_.unzipped));
    }
    RETURN_IF_ERROR(take(std::string_view(piece.data(), static_cast<size_t>(count))));
  }
}

Error ZipReader::refuse(std::string_view why) const {
  return Error{ErrorCode::kInvalidArgument,
               "entry '" + name_ + "' of the zip is refused: " + std::string(why)};
}

std::string ZipReader::reason() const {
  const char* text = archive_error_string(handle_);
  return text == nullptr ? "" : " (" + shown(text) + ")";
}

}  // namespace lambent::archive
