// What a function printed, as it is read: text with the times of its lines, and how it is shown to
// people. Values and pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/time.h"

namespace lambent {

// That one answer has at most, of all nodes together.
constexpr size_t kLogChunk = 1024 * 1024;

// What stands from this offset of the log on, up to the next mark, was printed at this time.
struct LogMark {
  uint64_t offset = 0;
  Duration at{};  // since the Unix epoch, in whole milliseconds

  bool operator==(const LogMark&) const = default;
};

// A piece of a function's log.
struct LogChunk {
  std::string text;
  uint64_t next_offset = 0;         // behind its last byte
  std::vector<LogMark> marks = {};  // in order; the first may lie before the text
  uint64_t end = 0;  // of all that is kept; at most next_offset: nothing more is there
  // It begins later than was asked for, but nothing that was kept is missing: offsets make a step.
  bool is_after_step = false;

  uint64_t first_offset() const { return next_offset - text.size(); }
  bool has_more() const { return end > next_offset; }
};

// One line of a chunk, with its end where that has come.
struct LogLine {
  std::optional<Duration> at;  // none: it was kept before times were
  std::string_view text;       // of the chunk
};
std::vector<LogLine> lines_of(const LogChunk& chunk);

// "2026-11-29T17:36:32.123Z", and back; nothing of what is none.
std::string log_time_text(Duration at);
std::optional<Duration> log_time_in(const std::string& text);

// Writes lines of one or several nodes for people.
class LogText {
 public:
  struct Options {
    bool names_nodes = false;
    bool shows_times = false;
  };
  LogText() = default;
  explicit LogText(Options options) : options_(options) {}

  void name_nodes(bool names) { options_.names_nodes = names; }
  // A line that goes on where the same node's last one ended gets no second name and time; one of
  // another node begins a line of its own.
  void add(std::string_view node, const LogLine& line, std::string& to);
  // A line of no node.
  void note(std::string_view text, std::string& to);

 private:
  Options options_;
  std::string last_node_;
  bool line_is_open_ = false;
};

}  // namespace lambent
