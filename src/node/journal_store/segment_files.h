// The segments of a journal as files: their names, their order, and how they are read. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "decide/journal/replay.h"

namespace lambent::journal_store {

struct SegmentFile {
  uint64_t number = 0;
  std::string path;
  uint64_t size = 0;
};

// "00000012.journal"
std::string segment_name(uint64_t number);
// In their order; files of other names are passed over. NOT_FOUND if there is no such folder.
Result<std::vector<SegmentFile>> list_segments(const std::string& folder);

// The segments of a folder, or only of one file, for journal::replay(). NOT_FOUND if there are
// none. A segment that is removed while others are read is passed over.
Result<journal::SegmentSource> open_journal(const std::string& folder_or_file);

}  // namespace lambent::journal_store
