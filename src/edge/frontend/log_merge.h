// The log of a function that ran on several nodes, as one: what each node gives, merged in order of
// time, and how far a reader has come at each. Pure; any thread. What nodes send is fuzzed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"
#include "core/domain/function_log.h"
#include "edge/frontend/node_cursor.h"

namespace lambent::frontend {

// What one node has from an offset on.
struct LogPart {
  std::string node;      // empty: there is only one
  bool is_known = true;  // the function
  LogChunk chunk;
  Duration now{};  // the node's time when it answered
  // Not sent: the offset from which it was to begin, and how long before its answer the first node
  // was read.
  uint64_t asked = 0;
  Duration lag{};
};

// As nodes send it to each other: a line of JSON, then the text.
std::string encode_log_part(const LogPart& part);
// INVALID_ARGUMENT: what came is none, or its figures do not fit its text.
Result<LogPart> read_log_part(std::string_view bytes);
// INVALID_ARGUMENT: it is no answer to what was asked, at most `most` bytes from part.asked on.
Result<void> check_log_part(const LogPart& part, size_t most);
// No more lines with times of their own than one part may have; the rest is left for the next.
void bound_marks(LogChunk& chunk);

struct MergedLine {
  const std::string* node;  // of a part
  LogLine line;
};

// Moved, never copied: its lines point into its parts.
struct MergedLog {
  MergedLog() = default;
  MergedLog(MergedLog&&) = default;
  MergedLog& operator=(MergedLog&&) = default;

  std::vector<LogPart> parts;  // that the lines are of
  std::vector<MergedLine> lines;
  NodeCursor next;
  bool has_more = false;
  bool older_is_gone = false;  // what was asked for is kept no more
};

// What one answer has at most: lines, and bytes as JSON. The rest comes with the next.
constexpr size_t kLogLines = 16 * 1024;
constexpr size_t kLogShown = 2 * 1024 * 1024;

struct LogMergeOptions {
  // Lines that are younger than this on their node wait: those of other nodes may still come before
  // them. One that its node's clock has not come to was printed before that was set back.
  Duration settle{};
  // The first bytes of a character wait for the others, also at the end of the log.
  bool waits_for_characters = false;
};

// Each node's lines stay in their order; between nodes the earlier time comes first. A node that
// has more than it gave bounds what may come of the others. `from` says what was asked for.
MergedLog merge_logs(std::vector<LogPart> parts, NodeCursor from, const LogMergeOptions& options);

}  // namespace lambent::frontend
