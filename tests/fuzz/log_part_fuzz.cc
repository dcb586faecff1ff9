// Parts of a log as other nodes answer, and the place that a client reads on from: two parts, with
// an empty line between them, and before them a line that is the place. What is merged is text of
// the parts, in their order, and the next place lies behind it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/check.h"
#include "edge/frontend/log_merge.h"
#include "edge/frontend/node_cursor.h"

namespace {

using namespace lambent;
using namespace lambent::frontend;

std::string_view take_until(std::string_view& text, std::string_view end) {
  const size_t at = text.find(end);
  const std::string_view taken = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + end.size());
  return taken;
}

void check_merged(std::vector<LogPart> parts, const NodeCursor& from,
                  const LogMergeOptions& options) {
  const MergedLog merged = merge_logs(std::move(parts), from, options);
  CHECK(merged.lines.size() <= kLogLines, "an answer has so many lines at most");
  for (const LogPart& part : merged.parts) {
    // Its lines are its text from the beginning on, without a gap.
    std::string_view rest = part.chunk.text;
    for (const MergedLine& line : merged.lines) {
      if (line.node != &part.node) continue;
      CHECK(line.line.text.data() == rest.data(), "a part's lines come in order");
      CHECK(line.line.text.size() <= rest.size(), "a line lies within its part");
      rest.remove_prefix(line.line.text.size());
    }
    if (!part.is_known) continue;
    CHECK(merged.next.offset_at(part.node) <= part.chunk.next_offset, "nothing is skipped");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  auto cursor = NodeCursor::parse(take_until(text, "\n"));
  if (!cursor.ok()) return 0;
  const auto again = NodeCursor::parse(cursor->text());
  CHECK(again.ok() && (*again == *cursor || cursor->text() == "0"), "a place is read as written");
  cursor->name_own("a");
  std::vector<LogPart> parts;
  for (const char* node : {"a", "b"}) {
    auto part = read_log_part(take_until(text, "\n\n"));
    if (!part.ok()) continue;
    const auto written = read_log_part(encode_log_part(*part));
    CHECK(written.ok() && written->chunk.text == part->chunk.text &&
              written->chunk.marks == part->chunk.marks &&
              written->chunk.next_offset == part->chunk.next_offset &&
              written->chunk.is_after_step == part->chunk.is_after_step,
          "a part is read as it was written");
    part->node = node;
    part->asked = cursor->offset_at(node);
    if (!check_log_part(*part, 1 << 20).ok()) continue;
    bound_marks(part->chunk);
    parts.push_back(*std::move(part));
  }
  check_merged(parts, *cursor, {});
  check_merged(parts, *cursor, {.settle = milliseconds(300), .waits_for_characters = true});
  return 0;
}
