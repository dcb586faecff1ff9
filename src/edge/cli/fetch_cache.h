// FetchCache: what was fetched by URL, on this machine. Resources; used by model_fetch,
// model_folder_fetch and deploy, on their thread.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "core/base/fd.h"
#include "core/base/result.h"
#include "core/base/units.h"

namespace lambent::cli {

// What came from one URL, or of it so far. A reader of its files keeps the entry: as long as it
// is there, no other process has it.
class CacheEntry {
 public:
  const std::string& path() const { return path_; }
  // What is whole; and where the others are made (FileFetch's `work`).
  std::string files() const { return path_ + "/files"; }
  std::string work() const { return path_ + "/work"; }
  // It holds nothing that may go on.
  void drop() const;
  bool is_empty() const;

 private:
  friend class FetchCache;
  CacheEntry() = default;
  std::string path_;
  OwnedFd lock_;
};

class FetchCache {
 public:
  // `folder` is made if it is not there.
  explicit FetchCache(std::string folder) : folder_(std::move(folder)) {}

  // The same again, as long as someone here keeps it: functions of one deployment may name one URL.
  // Entries of which no run has gone on for a week are removed. ABORTED: another process has it.
  Result<std::shared_ptr<const CacheEntry>> open(const std::string& url);

 private:
  const std::string folder_;
  std::map<std::string, std::weak_ptr<const CacheEntry>> open_;
};

Result<Bytes> size_of_file(const std::string& path);
// What the disk of a folder still takes.
Result<Bytes> room_in(const std::string& folder);

}  // namespace lambent::cli
