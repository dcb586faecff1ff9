#include "bin/token_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "core/base/fd.h"
#include "edge/cli/credentials.h"

namespace lambent::bin {
namespace {

constexpr const char* kVariable = "LAMBENT_TOKEN";
constexpr size_t kMostRead = 4096;

// Up to kMostRead bytes; pipes, as a shell's <(...) makes them, come in parts.
Result<std::string> read_start(const OwnedFd& file, const std::string& path) {
  std::string text(kMostRead, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(file.get(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return error_from_errno("read the token file " + path, errno);
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  text.resize(size);
  return text;
}

Result<std::string> token_of_file(const std::string& path) {
  const OwnedFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return error_from_errno("open the token file " + path, errno);
  struct stat about {};
  if (::fstat(file.get(), &about) != 0) return error_from_errno("stat " + path, errno);
  if (S_ISREG(about.st_mode) && (about.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return Error{ErrorCode::kFailedPrecondition,
                 "the token file " + path + " is open to other users: chmod 600 " + path};
  }
  ASSIGN_OR_RETURN(const std::string text, read_start(file, path));
  return cli::token_in(text, "the token file " + path);
}

}  // namespace

Result<std::string> find_token(const std::string& path) {
  if (!path.empty()) return token_of_file(path);
  const char* variable = std::getenv(kVariable);
  if (variable == nullptr || *variable == '\0') return std::string();
  return cli::token_in(variable, kVariable);
}

}  // namespace lambent::bin
