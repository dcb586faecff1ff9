// CacheEntry: what was fetched from one URL, or came of it so far, on this machine. One process has
// an entry at a time. A resource; used by model_fetch and model_folder_fetch, on their thread.
#pragma once

#include <string>

#include "core/base/fd.h"
#include "core/base/result.h"
#include "core/base/units.h"

namespace lambent::cli {

class CacheEntry {
 public:
  // In the folder `cache`, which is made if it is not there; entries of which no run has gone on
  // for a week are removed. ABORTED: another process has this one.
  static Result<CacheEntry> open(const std::string& cache, const std::string& url);

  const std::string& path() const { return path_; }
  // What is whole; and where the others are made (FileFetch's `work`).
  std::string files() const { return path_ + "/files"; }
  std::string work() const { return path_ + "/work"; }
  // It holds nothing that may go on.
  void drop() const;
  bool is_empty() const;

 private:
  CacheEntry() = default;
  std::string path_;
  OwnedFd lock_;
};

Result<Bytes> size_of_file(const std::string& path);
// What the disk of a folder still takes.
Result<Bytes> room_in(const std::string& folder);

}  // namespace lambent::cli
