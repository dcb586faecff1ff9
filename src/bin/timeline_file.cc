#include "bin/timeline_file.h"

#include <filesystem>

namespace lambent::bin {

Result<TimelineFile> TimelineFile::open(const std::string& path) {
  TimelineFile file(path);
  file.out_ = std::make_unique<std::ofstream>(path + ".part", std::ios::trunc);
  if (!*file.out_) return Error{ErrorCode::kInvalidArgument, "cannot write " + path + ".part"};
  file.timeline_ = std::make_unique<journal::Timeline>(*file.out_);
  return file;
}

Result<void> TimelineFile::finish() {
  timeline_->finish();
  out_->close();
  if (!*out_) return Error{ErrorCode::kDataLoss, "could not write all of " + path_ + ".part"};
  std::error_code error;
  std::filesystem::rename(path_ + ".part", path_, error);
  if (error) return Error{ErrorCode::kDataLoss, "rename to " + path_ + ": " + error.message()};
  return {};
}

}  // namespace lambent::bin
