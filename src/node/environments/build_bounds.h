// BuildBounds: how long one build may take, and how much of the disk. And what a folder takes of
// it. Blocks; used by lambent-environment.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"
#include "core/base/units.h"

namespace lambent::environments {

// How an error names what is built, and the worker's settings that bound it.
struct BoundWords {
  std::string what;  // "python packages"
  std::string size_flag;
  std::string timeout_flag;
};

// What folders take of the disk. A file with several names counts once.
struct DiskUse {
  Bytes size;
  uint64_t files = 0;  // and folders
  // Folders and files that we may not look at. Those which our own user has made are no such.
  uint64_t unreadable = 0;
};

class BuildBounds {
 public:
  // Begins now. What is in `folders` later and was not there now is what the build wrote; what
  // others write elsewhere does not count. One of them may not be there yet.
  BuildBounds(std::vector<std::string> folders, Bytes most, Duration timeout, BoundWords words);

  // DEADLINE_EXCEEDED, STORAGE_FULL, or INVALID_ARGUMENT: it takes more than it may. Meant to be
  // called often: looking at all files takes a small part of the time.
  Result<void> check();
  // The same, with all that is there at this moment.
  Result<void> check_all();

 private:
  Result<void> check_rest() const;

  const SystemClock clock_;
  const std::vector<std::string> folders_;
  const Bytes most_;
  const Duration timeout_;
  const BoundWords words_;
  const DiskUse at_start_;
  const Instant until_;
  Instant look_at_;
};

// Whatever goes while it looks is left out. `with_one_name_only`: of files only those that have no
// other.
DiskUse disk_use(const std::vector<std::string>& folders, bool with_one_name_only = false);
Bytes size_on_disk(const std::string& folder, bool with_one_name_only = false);

}  // namespace lambent::environments
