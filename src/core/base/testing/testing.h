// What tests of several rooms share: a folder that goes away. Included by tests only; one thread.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "core/base/check.h"

namespace lambent {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    path_ = (std::filesystem::temp_directory_path() / "lambent-XXXXXX").string();
    CHECK(::mkdtemp(path_.data()) != nullptr, "tests can make folders");
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace lambent
