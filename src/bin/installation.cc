#include "bin/installation.h"

#include <filesystem>

namespace lambent {

Result<Installation> find_installation() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return Error{ErrorCode::kInternal, "read /proc/self/exe: " + error.message()};
  return Installation{program.parent_path().parent_path()};
}

}  // namespace lambent
