#include "edge/frontend/log_merge.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/utf8.h"
#include "edge/frontend/json_text.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;

constexpr size_t kMostMarks = 16 * 1024;
constexpr size_t kMostHead = 64;  // bytes of a part's JSON for each of its marks, and for the rest

Error bad_part(std::string_view what) {
  return {ErrorCode::kInvalidArgument, "a part of a log has " + std::string(what)};
}

// The head's numbers; false if one is missing or negative.
bool take_number(const json& head, const char* key, uint64_t& number) {
  const auto found = head.find(key);
  if (found == head.end() || !found->is_number_unsigned()) return false;
  number = found->get<uint64_t>();
  return true;
}

bool is_time(uint64_t milliseconds) { return milliseconds <= 9'000'000'000'000; }

Result<std::vector<LogMark>> read_marks(const json& head, uint64_t next) {
  const auto list = head.find("marks");
  if (list == head.end() || !list->is_array()) return bad_part("no marks");
  std::vector<LogMark> marks;
  for (const json& each : *list) {
    const bool is_pair = each.is_array() && each.size() == 2 && each[0].is_number_unsigned() &&
                         each[1].is_number_unsigned();
    if (!is_pair) return bad_part("a mark that is none");
    const auto offset = each[0].get<uint64_t>();
    const auto at = each[1].get<uint64_t>();
    const bool rises = marks.empty() || offset > marks.back().offset;
    if (!rises || offset >= next || !is_time(at)) return bad_part("a mark that does not fit");
    marks.push_back({offset, milliseconds(at)});
  }
  return marks;
}

// A node's lines, and when each may come at the earliest.
struct Source {
  size_t part;
  std::vector<LogLine> lines;
  size_t next = 0;
  bool is_whole = true;  // the node gave all that it has
  bool follows = false;  // it is of the same node as the one before, and comes after it
  uint64_t offset = 0;
  Duration at{};  // of the next line, or of one before if that was later

  bool is_done() const { return next == lines.size(); }
  bool is_over() const { return is_done() && is_whole; }
};

// A line that goes on in what the node did not give stays there, so that it is not cut.
void leave_cut_line(const LogChunk& chunk, std::vector<LogLine>& lines) {
  const bool is_cut = chunk.has_more() && lines.size() > 1 && !chunk.text.ends_with('\n');
  if (is_cut) lines.pop_back();
}

void leave_cut_character(const LogPart& part, bool waits, std::vector<LogLine>& lines) {
  if (lines.empty() || !(waits || part.chunk.has_more())) return;
  std::string_view& text = lines.back().text;
  const size_t cut = cut_character(text);
  // One that fills all that came is no reason to wait.
  if (part.chunk.has_more() && cut == text.size()) return;
  text.remove_suffix(cut);
  if (text.empty()) lines.pop_back();
}

void bound_lines(LogChunk& chunk, size_t most) {
  size_t size = 0;
  for (; most > 0 && size < chunk.text.size(); --most) {
    const size_t newline = chunk.text.find('\n', size);
    size = newline == std::string::npos ? chunk.text.size() : newline + 1;
  }
  chunk.next_offset -= chunk.text.size() - size;
  chunk.text.resize(size);
}

// What a line takes as JSON, at most.
size_t shown_size(std::string_view node, std::string_view text) {
  constexpr size_t kFrame = 96;  // names of fields, and the time
  const bool is_text = is_utf8(text);
  size_t size = kFrame + node.size() + text.size();
  if (!is_text) size += 4 * (text.size() + 2) / 3;
  for (const char each : text) {
    const auto c = static_cast<unsigned char>(each);
    const bool is_escaped = c < ' ' || (c >= 0x80 && !is_text);
    size += is_escaped ? 5 : each == '"' || each == '\\' ? 1 : 0;
  }
  return size;
}

// The begin of a line that is too long for an answer.
std::string_view begin_of(std::string_view text) {
  constexpr size_t kMostPerByte = 8;
  text = text.substr(0, kLogShown / kMostPerByte);
  text.remove_suffix(cut_character(text));
  return text;
}

void look_at_next(Source& source) {
  if (source.is_done()) return;
  source.at = std::max(source.at, source.lines[source.next].at.value_or(Duration::zero()));
}

// Whose line comes next; null: none may.
// Whether the node's parts before this one have lines that come first, here or in the next answer.
bool is_behind(const std::vector<Source>& sources, const Source& source) {
  for (size_t at = source.part; sources[at].follows; --at) {
    if (!sources[at - 1].is_over()) return true;
  }
  return false;
}

Source* first_of(std::vector<Source>& sources, const std::vector<LogPart>& parts, Duration settle) {
  Source* first = nullptr;
  for (Source& source : sources) {
    if (is_behind(sources, source)) continue;
    const LogPart& part = parts[source.part];
    if (source.is_done()) {
      // What it did not give may come next.
      if (!source.is_whole) return nullptr;
      continue;
    }
    // By its own clock, so that one that is behind holds up no other node.
    const bool is_settled = settle == Duration::zero() || source.at > part.now ||
                            source.at <= part.now - part.lag - settle;
    if (is_settled && (first == nullptr || source.at < first->at)) first = &source;
  }
  return first;
}

}  // namespace

std::string encode_log_part(const LogPart& part) {
  const auto in_milliseconds = [](Duration at) {
    return std::to_string(std::chrono::floor<milliseconds>(at).count());
  };
  // Written as it is: there may be many thousands.
  std::string marks;
  for (const LogMark& mark : part.chunk.marks) {
    marks += marks.empty() ? "[" : ",[";
    (marks += std::to_string(mark.offset)) += ',';
    (marks += in_milliseconds(mark.at)) += ']';
  }
  return R"({"known":)" + std::string(part.is_known ? "true" : "false") + R"(,"next":)" +
         std::to_string(part.chunk.next_offset) + R"(,"end":)" + std::to_string(part.chunk.end) +
         (part.chunk.is_after_step ? R"(,"after_step":true)" : "") + R"(,"now":)" +
         in_milliseconds(part.now) + R"(,"marks":[)" + marks + "]}\n" + part.chunk.text;
}

Result<LogPart> read_log_part(std::string_view bytes) {
  const size_t newline = bytes.find('\n');
  if (newline == std::string_view::npos) return bad_part("no end of its head");
  const std::string_view text = bytes.substr(newline + 1);
  if (newline > kMostHead * (std::min(text.size(), kMostMarks) + 16))
    return bad_part("a head that is too long");
  ASSIGN_OR_RETURN(const json head, parse_json(bytes.substr(0, newline)));
  if (!head.is_object()) return bad_part("no head");
  LogPart part;
  const auto known = head.find("known");
  if (known == head.end() || !known->is_boolean()) return bad_part("no word of the function");
  part.is_known = known->get<bool>();
  uint64_t now = 0;
  const bool has_numbers = take_number(head, "next", part.chunk.next_offset) &&
                           take_number(head, "end", part.chunk.end) &&
                           take_number(head, "now", now);
  if (!has_numbers || part.chunk.next_offset < text.size() || !is_time(now)) {
    return bad_part("figures that do not fit its text");
  }
  const bool has_text = !text.empty() || part.chunk.end == part.chunk.next_offset;
  if (!has_text || part.chunk.end < part.chunk.next_offset) {
    return bad_part("an end that does not fit its text");
  }
  part.now = milliseconds(now);
  part.chunk.is_after_step = head.value("after_step", json(false)) == true;
  part.chunk.text = text;
  ASSIGN_OR_RETURN(part.chunk.marks, read_marks(head, part.chunk.next_offset));
  if (!part.is_known) part.chunk = {};
  return part;
}

Result<void> check_log_part(const LogPart& part, size_t most) {
  const LogChunk& chunk = part.chunk;
  const bool begins_before = chunk.first_offset() < part.asked && part.asked <= chunk.end;
  if (part.is_known && begins_before) return bad_part("text that was not asked for");
  if (chunk.text.size() > most) return bad_part("more text than was asked for");
  return {};
}

void bound_marks(LogChunk& chunk) {
  if (chunk.marks.size() <= kMostMarks) return;
  const uint64_t first = chunk.first_offset();
  chunk.next_offset = chunk.marks[kMostMarks].offset;
  chunk.text.resize(chunk.next_offset - first);
  chunk.marks.resize(kMostMarks);
}

MergedLog merge_logs(std::vector<LogPart> parts, NodeCursor from, const LogMergeOptions& options) {
  MergedLog merged;
  merged.parts = std::move(parts);
  merged.next = std::move(from);
  std::vector<Source> sources;
  for (size_t index = 0; index < merged.parts.size(); ++index) {
    LogPart& part = merged.parts[index];
    bound_lines(part.chunk, kLogLines);
    Source& source = sources.emplace_back(Source{index, lines_of(part.chunk)});
    source.is_whole = !part.chunk.has_more();
    source.follows = index > 0 && merged.parts[index - 1].node == part.node;
    source.offset = part.chunk.first_offset();
    const bool is_later = source.offset > part.asked && !part.chunk.is_after_step;
    const bool is_gone = is_later || part.asked > part.chunk.end;
    merged.older_is_gone = merged.older_is_gone || (part.is_known && is_gone);
    leave_cut_line(part.chunk, source.lines);
    leave_cut_character(part, options.waits_for_characters, source.lines);
    look_at_next(source);
  }
  size_t shown = 0;
  while (Source* first = first_of(sources, merged.parts, options.settle)) {
    const LogPart& part = merged.parts[first->part];
    LogLine line = first->lines[first->next];
    shown += shown_size(part.node, line.text);
    const bool is_full = merged.lines.size() == kLogLines || shown > kLogShown;
    if (is_full && !merged.lines.empty()) break;
    if (is_full) line.text = begin_of(line.text);
    merged.lines.push_back({&part.node, line});
    first->offset += line.text.size();
    if (is_full) break;
    ++first->next;
    look_at_next(*first);
  }
  for (const Source& source : sources) {
    const LogPart& part = merged.parts[source.part];
    merged.has_more = merged.has_more || !source.is_done() || !source.is_whole;
    if (part.is_known && !is_behind(sources, source)) merged.next.set(part.node, source.offset);
  }
  return merged;
}

}  // namespace lambent::frontend
