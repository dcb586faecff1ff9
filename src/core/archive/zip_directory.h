// ZipDirectory: the central directory of a zip in memory, held against the local headers that it
// names. A zip that two readers could understand differently is refused. Values; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace lambent::archive {

// One entry, as both its headers say.
struct ZipRecord {
  std::string name;     // as it stands there
  uint64_t offset = 0;  // of its local header in the file
  uint64_t size = 0;    // of its content, unpacked
};

struct ZipDirectory {
  std::vector<ZipRecord> records;  // all entries, in the order of their place in the file
  uint64_t offset = 0;             // of the directory, which comes behind them
};

// INVALID_ARGUMENT, naming the entry: no zip, or one in several parts; more than `most` entries;
// counts, names, sizes, sums, flags or methods that differ between directory and local header;
// encryption; a method that is neither stored nor deflated; entries that overlap each other or the
// directory; entries that are no file, folder or symbolic link.
Result<ZipDirectory> read_zip_directory(std::string_view zip, size_t most);

}  // namespace lambent::archive
