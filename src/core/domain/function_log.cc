#include "core/domain/function_log.h"

#include <cstdio>
#include <ctime>
#include <utility>

namespace lambent {

std::vector<LogLine> lines_of(const LogChunk& chunk) {
  std::vector<LogLine> lines;
  const std::string_view text = chunk.text;
  const uint64_t first = chunk.first_offset();
  size_t mark = 0;  // the next one
  std::optional<Duration> at;
  for (size_t begin = 0; begin < text.size();) {
    while (mark < chunk.marks.size() && chunk.marks[mark].offset <= first + begin) {
      at = chunk.marks[mark++].at;
    }
    const size_t newline = text.find('\n', begin);
    const size_t end = newline == std::string_view::npos ? text.size() : newline + 1;
    lines.push_back({at, text.substr(begin, end - begin)});
    begin = end;
  }
  return lines;
}

std::string log_time_text(Duration at) {
  const int64_t milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(at).count();
  const std::time_t whole = milliseconds / 1000;
  std::tm parts{};
  char text[48];
  if (milliseconds < 0 || gmtime_r(&whole, &parts) == nullptr) return "?";
  const size_t size = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text + size, sizeof text - size, ".%03dZ", static_cast<int>(milliseconds % 1000));
  return text;
}

std::optional<Duration> log_time_in(const std::string& text) {
  std::tm parts{};
  int fraction = 0;
  const char* rest = strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (rest == nullptr || std::sscanf(rest, ".%3dZ", &fraction) != 1 || fraction < 0) {
    return std::nullopt;
  }
  const std::time_t whole = timegm(&parts);
  constexpr std::time_t kMost = 9'000'000'000;  // in the year 2255: later, nanoseconds do not fit
  if (whole < 0 || whole > kMost) return std::nullopt;
  return seconds(whole) + milliseconds(fraction);
}

void LogText::add(std::string_view node, const LogLine& line, std::string& to) {
  if (line.text.empty()) return;
  const bool goes_on = line_is_open_ && node == last_node_;
  if (line_is_open_ && !goes_on) to += '\n';
  if (!goes_on) {
    if (options_.names_nodes) (to += node) += " | ";
    if (options_.shows_times) (to += line.at ? log_time_text(*line.at) : "-") += ' ';
  }
  to += line.text;
  last_node_ = node;
  line_is_open_ = !line.text.ends_with('\n');
}

void LogText::note(std::string_view text, std::string& to) {
  if (std::exchange(line_is_open_, false)) to += '\n';
  (to += text) += '\n';
}

}  // namespace lambent
