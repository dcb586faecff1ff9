#include "node/worker/log_times.h"

#include <charconv>
#include <optional>

namespace lambent::worker {
namespace {

constexpr int64_t kMostMilliseconds = 9'000'000'000'000;  // in the year 2255

template <typename Number>
bool take(std::string_view& text, Number& number) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

// Of what stands behind the last '@': what was cut off before has no line's end.
std::optional<LogMark> mark_in(std::string_view line) {
  const size_t begin = line.rfind('@');
  if (begin == std::string_view::npos) return std::nullopt;
  line.remove_prefix(begin + 1);
  LogMark mark;
  int64_t at = 0;
  if (!take(line, mark.offset) || !line.starts_with(' ')) return std::nullopt;
  line.remove_prefix(1);
  if (!take(line, at) || !line.empty() || at < 0 || at > kMostMilliseconds) return std::nullopt;
  mark.at = milliseconds(at);
  return mark;
}

}  // namespace

std::string log_time_line(uint64_t offset, Duration at) {
  return "@" + std::to_string(offset) + " " +
         std::to_string(std::chrono::floor<milliseconds>(at).count()) + "\n";
}

std::vector<LogMark> read_log_times(std::string_view bytes, uint64_t size) {
  std::vector<LogMark> marks;
  for (size_t end = bytes.find('\n'); end != std::string_view::npos; end = bytes.find('\n')) {
    const auto mark = mark_in(bytes.substr(0, end));
    bytes.remove_prefix(end + 1);
    if (!mark || mark->offset >= size) continue;
    while (!marks.empty() && marks.back().offset >= mark->offset) marks.pop_back();
    marks.push_back(*mark);
  }
  return marks;
}

}  // namespace lambent::worker
