#include "node/journal_store/segment_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "core/base/fd.h"

namespace lambent::journal_store {
namespace {

constexpr std::string_view kEnding = ".journal";

// nullopt for names that are not ours.
std::optional<uint64_t> number_of(const std::string& name) {
  if (!name.ends_with(kEnding)) return std::nullopt;
  const std::string digits = name.substr(0, name.size() - kEnding.size());
  if (digits.empty() || digits.size() > 18) return std::nullopt;
  if (digits.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  return std::strtoull(digits.c_str(), nullptr, 10);
}

Result<size_t> read_fully(int fd, const std::string& path, char* buffer, size_t size) {
  size_t got = 0;
  while (got < size) {
    const ssize_t part = ::read(fd, buffer + got, size - got);
    if (part < 0 && errno == EINTR) continue;
    if (part < 0) return error_from_errno("read " + path, errno);
    if (part == 0) break;
    got += static_cast<size_t>(part);
  }
  return got;
}

}  // namespace

std::string segment_name(uint64_t number) {
  char text[32];
  std::snprintf(text, sizeof(text), "%08llu%s", static_cast<unsigned long long>(number),
                std::string(kEnding).c_str());
  return text;
}

Result<std::vector<SegmentFile>> list_segments(const std::string& folder) {
  std::error_code error;
  std::vector<SegmentFile> segments;
  std::filesystem::directory_iterator entries(folder, error);
  if (error) return Error{ErrorCode::kNotFound, "read " + folder + ": " + error.message()};
  for (const auto& entry : entries) {
    const auto number = number_of(entry.path().filename());
    if (!number) continue;
    const uint64_t size = entry.file_size(error);
    if (!error) segments.push_back({*number, entry.path(), size});
  }
  std::sort(segments.begin(), segments.end(),
            [](const SegmentFile& a, const SegmentFile& b) { return a.number < b.number; });
  return segments;
}

Result<journal::SegmentSource> open_journal(const std::string& folder_or_file) {
  std::vector<SegmentFile> segments;
  std::error_code error;
  if (std::filesystem::is_regular_file(folder_or_file, error)) {
    segments.push_back({0, folder_or_file, 0});
  } else {
    ASSIGN_OR_RETURN(segments, list_segments(folder_or_file));
  }
  if (segments.empty()) {
    return Error{ErrorCode::kNotFound,
                 folder_or_file +
                     " holds no segment of a journal (NUMBER.journal); name the folder "
                     "that 'lambent serve --journal' was given"};
  }
  return journal::SegmentSource([segments = std::move(segments), next = size_t{0}]() mutable
                                -> Result<std::unique_ptr<journal::BlockReader>> {
    while (next < segments.size()) {
      const std::string path = segments[next++].path;
      auto file = std::make_shared<OwnedFd>(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
      // The worker that writes may have removed the oldest one meanwhile.
      if (!file->valid() && errno == ENOENT && segments.size() > 1) continue;
      if (!file->valid()) return error_from_errno("open " + path, errno);
      // Shared with the reader's copies of this function; the last one closes the file.
      return std::make_unique<journal::BlockReader>(path, [file, path](char* buffer, size_t size) {
        return read_fully(file->get(), path, buffer, size);
      });
    }
    return std::unique_ptr<journal::BlockReader>();
  });
}

}  // namespace lambent::journal_store
