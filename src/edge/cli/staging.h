// StagingFolder: a temporary folder in which a package is put together; removed with its object.
// A resource; used by deploy. And the few path words that deploy needs.
#pragma once

#include <string>

#include "core/base/result.h"

namespace lambent::cli {

class StagingFolder {
 public:
  static Result<StagingFolder> make();
  StagingFolder(StagingFolder&& other) noexcept : path_(std::move(other.path_)) {
    other.path_.clear();
  }
  StagingFolder& operator=(StagingFolder&&) = delete;
  ~StagingFolder();

  const std::string& path() const { return path_; }
  // Copies a file or folder to that place inside; an empty place is the folder itself.
  Result<void> add(const std::string& source, const std::string& place) const;

 private:
  explicit StagingFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// `path` seen from `folder`, unless it is absolute.
std::string join_path(const std::string& folder, const std::string& path);
// The folder that a file is in; "." for a bare name.
std::string folder_of(const std::string& file);
// The last name of a path, however many slashes end it.
std::string last_part(const std::string& path);

}  // namespace lambent::cli
