#include "sim/workload/lines.h"

#include <zlib.h>

#include <cerrno>

#include "core/base/file_version.h"
#include "sim/workload/limits.h"

namespace lambent::workload {
namespace {

Error too_long() {
  return Error{ErrorCode::kOutOfRange, "a line is longer than " + to_string(limits::kTraceLine)};
}

Error cannot_rewind() {
  return Error{ErrorCode::kFailedPrecondition, "the file cannot be read a second time"};
}

std::string_view without_return(std::string_view line) {
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return line;
}

class TextLines final : public LineReader {
 public:
  explicit TextLines(std::string_view text) : text_(text), rest_(text) {}

  Result<std::optional<std::string_view>> next() override {
    if (rest_.empty()) return std::optional<std::string_view>();
    const size_t end = rest_.find('\n');
    const std::string_view line = rest_.substr(0, end);
    rest_ = end == std::string_view::npos ? std::string_view() : rest_.substr(end + 1);
    if (line.size() > limits::kTraceLine.count) return too_long();
    return std::optional(without_return(line));
  }

  bool can_rewind() const override { return true; }
  Result<void> rewind() override {
    rest_ = text_;
    return {};
  }

 private:
  std::string_view text_;
  std::string_view rest_;
};

// gzread passes through files that are not gzip, so one reader serves both.
class FileLines final : public LineReader {
 public:
  // `unpacked` owns the file's descriptor.
  FileLines(gzFile unpacked, FileToRead file)
      : file_(unpacked),
        fd_(file.fd.release()),
        version_(file.version),
        is_regular_(file.is_regular) {}
  FileLines(const FileLines&) = delete;
  FileLines& operator=(const FileLines&) = delete;
  ~FileLines() override { gzclose_r(file_); }

  Result<std::optional<std::string_view>> next() override {
    size_t searched = taken_;
    for (;;) {
      const size_t end = buffer_.find('\n', searched);
      if (end != std::string::npos) return take(end, end + 1);
      // Only now, once for many lines, does what is left move to the front.
      buffer_.erase(0, taken_);
      taken_ = 0;
      searched = buffer_.size();
      if (searched > limits::kTraceLine.count) return too_long();
      ASSIGN_OR_RETURN(const bool more, read_more());
      if (more) continue;
      if (buffer_.empty()) return std::optional<std::string_view>();
      return take(buffer_.size(), buffer_.size());
    }
  }

  bool can_rewind() const override { return is_regular_; }
  Result<void> rewind() override {
    if (!is_regular_ || gzrewind(file_) != 0) return cannot_rewind();
    buffer_.clear();
    taken_ = 0;
    has_rewound_ = true;
    return check_unchanged();
  }

 private:
  static constexpr size_t kBlock = 64 * 1024;

  std::optional<std::string_view> take(size_t end, size_t next) {
    const auto line = std::string_view(buffer_).substr(taken_, end - taken_);
    taken_ = next;
    return without_return(line);
  }

  Result<void> check_unchanged() const {
    const auto version = version_of(fd_);
    if (version.ok() && *version == version_) return {};
    return Error{
        ErrorCode::kAborted,
        "another program wrote to the file while it was read; run this again when it is complete"};
  }

  Result<bool> read_more() {
    const size_t before = buffer_.size();
    buffer_.resize(before + kBlock);
    const int got = gzread(file_, buffer_.data() + before, kBlock);
    buffer_.resize(before + (got > 0 ? static_cast<size_t>(got) : 0));
    // First of all: damage may well come of a change.
    if (has_rewound_) RETURN_IF_ERROR(check_unchanged());
    int code = Z_OK;
    const char* why = gzerror(file_, &code);
    if (got < 0 || code == Z_BUF_ERROR) {
      return Error{ErrorCode::kDataLoss, std::string("the file is damaged: ") + why};
    }
    return got > 0;
  }

  gzFile file_;
  int fd_;
  FileVersion version_;  // when it was opened
  bool is_regular_;
  bool has_rewound_ = false;
  std::string buffer_;
  size_t taken_ = 0;  // bytes of the buffer that were given as lines
};

}  // namespace

Error changed_since(const std::string& file) {
  return Error{ErrorCode::kAborted,
               file +
                   " is not what it was when its rows were checked; run this again when no "
                   "program writes to it"};
}

std::unique_ptr<LineReader> lines_of(std::string_view text) {
  return std::make_unique<TextLines>(text);
}

Result<std::unique_ptr<LineReader>> open_lines(const std::string& path) {
  ASSIGN_OR_RETURN(FileToRead file, open_to_read(path));
  gzFile unpacked = gzdopen(file.fd.get(), "rb");
  if (unpacked == nullptr) return error_from_errno("open " + path, ENOMEM);
  return std::unique_ptr<LineReader>(std::make_unique<FileLines>(unpacked, std::move(file)));
}

}  // namespace lambent::workload
