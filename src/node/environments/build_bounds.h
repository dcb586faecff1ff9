// BuildBounds: how long one build may take, and how much of the disk. And what a folder takes of
// it. Blocks; used by lambent-environment.
#pragma once

#include <string>

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

class BuildBounds {
 public:
  // Begins now; `folder` is on the disk that is filled.
  BuildBounds(std::string folder, Bytes most, Duration timeout, BoundWords words);

  // DEADLINE_EXCEEDED, STORAGE_FULL, or INVALID_ARGUMENT: it takes more than it may.
  Result<void> check() const;

 private:
  const SystemClock clock_;
  const std::string folder_;
  const Bytes most_;
  const Duration timeout_;
  const BoundWords words_;
  const Bytes free_at_start_;
  const uint64_t files_at_start_;
  const Instant until_;
};

// Each file once, however many names it has; `with_one_name_only`: only those that have no other.
Bytes size_on_disk(const std::string& folder, bool with_one_name_only = false);

}  // namespace lambent::environments
