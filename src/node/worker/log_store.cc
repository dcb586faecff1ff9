#include "node/worker/log_store.h"

#include <algorithm>
#include <iterator>

#include "core/domain/limits.h"

namespace lambent::worker {
namespace {

bool lies_behind(uint64_t offset, const LogMark& mark) { return offset < mark.offset; }
bool lies_before(const LogMark& mark, uint64_t offset) { return mark.offset < offset; }

// A log has one in any case.
size_t cost_of(const std::vector<LogMark>& marks) {
  return marks.size() <= 1 ? 0 : (marks.size() - 1) * sizeof(LogMark);
}

// Where the text is to begin so that, with the marks that are left, it takes at most `limit`.
uint64_t first_that_fits(const std::vector<LogMark>& marks, uint64_t first, uint64_t end,
                         uint64_t limit) {
  uint64_t begin = first;
  for (size_t dropped = 0;; ++dropped) {
    const size_t left = marks.size() - std::min(dropped + 1, marks.size());
    const uint64_t needed = end - begin + left * sizeof(LogMark);
    if (needed > limit) begin += std::min(needed - limit, end - begin);
    // The mark of the line that is cut stays, for those behind it only.
    if (left == 0 || begin < marks[dropped + 1].offset) return begin;
    begin = marks[dropped + 1].offset;
  }
}

// Of the first line that begins in what is appended, unless it is as old as the one before.
std::optional<LogMark> mark_of(std::string_view before, const std::vector<LogMark>& marks,
                               uint64_t offset, std::string_view text, Duration at) {
  size_t begin = 0;
  if (!before.empty() && !before.ends_with('\n')) {
    const size_t newline = text.find('\n');
    if (newline == std::string_view::npos) return std::nullopt;
    begin = newline + 1;
  }
  if (begin >= text.size()) return std::nullopt;
  const LogMark mark{offset + begin, std::chrono::floor<milliseconds>(at)};
  if (!marks.empty() && marks.back().at == mark.at) return std::nullopt;
  return mark;
}

size_t cost_of(const LogPiece& piece) { return piece.text.size() + cost_of(piece.marks); }

void cut(LogPiece& piece, uint64_t limit) {
  const uint64_t first = first_that_fits(piece.marks, piece.first_offset, piece.end(), limit);
  piece.text.erase(0, first - piece.first_offset);
  piece.first_offset = first;
  // The last of those before tells of the line that is cut.
  auto mark = std::upper_bound(piece.marks.begin(), piece.marks.end(), first, lies_behind);
  if (mark != piece.marks.begin()) --mark;
  piece.marks.erase(piece.marks.begin(), mark);
  if (!piece.marks.empty()) {
    piece.marks.front().offset = std::max(piece.marks.front().offset, piece.first_offset);
  }
}

}  // namespace

uint64_t LogStore::append(FunctionId function, std::string_view text, Duration at) {
  Log& log = logs_[function];
  LogPiece& last = log.pieces.back();
  const uint64_t offset = last.end();
  const auto mark = mark_of(last.text, last.marks, offset, text, at);
  if (mark) last.marks.push_back(*mark);
  last.text.append(text);
  trim(log);
  if (observer_.appended) observer_.appended(function, offset, text, mark);
  return offset;
}

void LogStore::trim(Log& log) const {
  size_t size = 0;
  for (const LogPiece& piece : log.pieces) size += cost_of(piece);
  if (size <= 2 * limit_.count) return;
  size_t surplus = size - limit_.count;
  while (log.pieces.size() > 1 && cost_of(log.pieces.front()) <= surplus) {
    surplus -= cost_of(log.pieces.front());
    log.pieces.erase(log.pieces.begin());
  }
  cut(log.pieces.front(), cost_of(log.pieces.front()) - surplus);
}

void LogStore::remove(FunctionId function) {
  logs_.erase(function);
  if (observer_.removed) observer_.removed(function);
}

void LogStore::restore(FunctionId function, std::vector<LogPiece> pieces, uint64_t next) {
  Log log{std::move(pieces)};
  if (log.pieces.empty() || log.pieces.back().end() != next) log.pieces.push_back({next});
  logs_[function] = std::move(log);
}

LogChunk LogStore::read(FunctionId function, uint64_t offset, size_t most) const {
  const auto found = logs_.find(function);
  if (found == logs_.end()) return {};
  const std::vector<LogPiece>& pieces = found->second.pieces;
  LogChunk chunk;
  chunk.end = pieces.back().end();
  if (offset > chunk.end) offset = 0;  // it is another log's
  auto piece = std::upper_bound(pieces.begin(), pieces.end(), offset,
                                [](uint64_t at, const LogPiece& each) { return at < each.end(); });
  if (piece == pieces.end()) --piece;
  const uint64_t from = std::max(offset, piece->first_offset);
  chunk.is_after_step =
      from > offset && piece != pieces.begin() && std::prev(piece)->end() == offset;
  chunk.text = piece->text.substr(from - piece->first_offset, most);
  chunk.next_offset = from + chunk.text.size();
  auto first = std::upper_bound(piece->marks.begin(), piece->marks.end(), from, lies_behind);
  if (first != piece->marks.begin()) --first;
  const auto last = std::lower_bound(first, piece->marks.end(), chunk.next_offset, lies_before);
  chunk.marks.assign(first, last);
  return chunk;
}

void LogTail::append(std::string_view text) {
  constexpr size_t kMost = limits::kLogTail.count;
  if (text.size() > kMost) text.remove_prefix(text.size() - kMost);
  text_.append(text);
  if (text_.size() > 4 * kMost) text_.erase(0, text_.size() - kMost);
}

std::string LogTail::text() const {
  constexpr size_t kMost = limits::kLogTail.count;
  return text_.size() <= kMost ? text_ : text_.substr(text_.size() - kMost);
}

}  // namespace lambent::worker
