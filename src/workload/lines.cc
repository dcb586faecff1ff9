#include "workload/lines.h"

#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "domain/limits.h"

namespace lambent::workload {
namespace {

Error too_long() {
  return Error{ErrorCode::kOutOfRange, "a line is longer than " + to_string(limits::kTraceLine)};
}

std::string_view without_return(std::string_view line) {
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return line;
}

class TextLines final : public LineReader {
 public:
  explicit TextLines(std::string_view text) : rest_(text) {}

  Result<std::optional<std::string_view>> next() override {
    if (rest_.empty()) return std::optional<std::string_view>();
    const size_t end = rest_.find('\n');
    const std::string_view line = rest_.substr(0, end);
    rest_ = end == std::string_view::npos ? std::string_view() : rest_.substr(end + 1);
    if (line.size() > limits::kTraceLine.count) return too_long();
    return std::optional(without_return(line));
  }

 private:
  std::string_view rest_;
};

// gzread passes through files that are not gzip, so one reader serves both.
class FileLines final : public LineReader {
 public:
  explicit FileLines(gzFile file) : file_(file) {}
  FileLines(const FileLines&) = delete;
  FileLines& operator=(const FileLines&) = delete;
  ~FileLines() override { gzclose_r(file_); }

  Result<std::optional<std::string_view>> next() override {
    buffer_.erase(0, taken_);
    taken_ = 0;
    size_t searched = 0;
    for (;;) {
      const size_t end = buffer_.find('\n', searched);
      if (end != std::string::npos) {
        taken_ = end + 1;
        return std::optional(without_return(std::string_view(buffer_).substr(0, end)));
      }
      searched = buffer_.size();
      if (searched > limits::kTraceLine.count) return too_long();
      ASSIGN_OR_RETURN(const bool more, read_more());
      if (more) continue;
      if (buffer_.empty()) return std::optional<std::string_view>();
      taken_ = buffer_.size();
      return std::optional(without_return(buffer_));
    }
  }

 private:
  static constexpr size_t kBlock = 64 * 1024;

  Result<bool> read_more() {
    const size_t before = buffer_.size();
    buffer_.resize(before + kBlock);
    const int got = gzread(file_, buffer_.data() + before, kBlock);
    buffer_.resize(before + (got > 0 ? static_cast<size_t>(got) : 0));
    int code = Z_OK;
    const char* why = gzerror(file_, &code);
    if (got < 0 || code == Z_BUF_ERROR) {
      return Error{ErrorCode::kDataLoss, std::string("the file is damaged: ") + why};
    }
    return got > 0;
  }

  gzFile file_;
  std::string buffer_;
  size_t taken_ = 0;  // bytes of the buffer that the last line used
};

}  // namespace

std::unique_ptr<LineReader> lines_of(std::string_view text) {
  return std::make_unique<TextLines>(text);
}

Result<std::unique_ptr<LineReader>> open_lines(const std::string& path) {
  errno = 0;
  gzFile file = gzopen(path.c_str(), "rbe");
  if (file == nullptr) return error_from_errno("open " + path, errno == 0 ? ENOMEM : errno);
  return std::unique_ptr<LineReader>(std::make_unique<FileLines>(file));
}

}  // namespace lambent::workload
