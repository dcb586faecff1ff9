// TimelineFile: a timeline that goes to a file, whole or not at all: until it is finished it has
// another name. Used by the simulator's main; one thread.
#pragma once

#include <fstream>
#include <memory>
#include <string>

#include "core/base/result.h"
#include "decide/journal/timeline.h"

namespace lambent::bin {

class TimelineFile {
 public:
  // INVALID_ARGUMENT if the file cannot be written.
  static Result<TimelineFile> open(const std::string& path);

  journal::Timeline& timeline() { return *timeline_; }
  // Completes the document and gives the file its name. DATA_LOSS if not all of it was written.
  Result<void> finish();

 private:
  explicit TimelineFile(std::string path) : path_(std::move(path)) {}

  std::string path_;
  std::unique_ptr<std::ofstream> out_;  // at one place, whatever moves
  std::unique_ptr<journal::Timeline> timeline_;
};

}  // namespace lambent::bin
