// ZipReader: goes through a zip in memory entry by entry, holding each to the rules of
// entry_path.h and to the limits. A resource; one thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/archive/entry_path.h"
#include "core/archive/zip.h"
#include "core/archive/zip_directory.h"

struct archive;
struct archive_entry;

namespace lambent::archive {

struct ZipEntry {
  std::string path;  // normalized, never empty
  EntryType type = EntryType::kFile;
  bool executable = false;
  std::string link_target;
};

class ZipReader {
 public:
  // The zip outlives the reader.
  static Result<std::unique_ptr<ZipReader>> open(std::string_view zip, const ZipLimits& limits);
  ~ZipReader();
  ZipReader(const ZipReader&) = delete;
  ZipReader& operator=(const ZipReader&) = delete;

  // False after the last entry.
  Result<bool> next(ZipEntry& entry);
  // Hands over the content of the entry that next() gave, piece by piece.
  Result<void> read_content(const std::function<Result<void>(std::string_view)>& take);

  UnpackedZip totals() const { return {entries_, size_}; }

 private:
  ZipReader(struct ::archive* handle, const ZipLimits& limits, std::vector<ZipRecord> records);
  Result<void> decode(struct ::archive_entry* from, ZipEntry& entry);
  Error refuse(std::string_view why) const;
  std::string reason() const;

  struct ::archive* handle_;
  ZipLimits limits_;
  std::vector<ZipRecord> records_;  // what the directory says, in the order of reading
  EntryTree tree_;
  std::string name_;  // of the current entry, for messages
  size_t entries_ = 0;
  Bytes size_;
};

}  // namespace lambent::archive
