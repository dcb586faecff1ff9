#include "node/tenants/node_key.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "core/base/fd.h"
#include "core/crypto/crypto.h"

namespace lambent::tenants {
namespace {

Error unusable(const std::string& path, const std::string& why) {
  return {ErrorCode::kFailedPrecondition, "the node's key " + path + " " + why};
}

Result<std::string> read_node_key(const OwnedFd& file, const std::string& path) {
  struct stat about {};
  if (::fstat(file.get(), &about) != 0) return error_from_errno("stat " + path, errno);
  if (!S_ISREG(about.st_mode)) return unusable(path, "is not a regular file");
  if ((about.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return unusable(path, "can be used by others than its owner: chmod 600 it");
  }
  std::string key(crypto::kKeySize + 1, '\0');
  const ssize_t got = ::read(file.get(), key.data(), key.size());
  if (got < 0) return error_from_errno("read " + path, errno);
  if (static_cast<size_t>(got) != crypto::kKeySize) {
    return unusable(path, "does not have " + std::to_string(crypto::kKeySize) + " bytes");
  }
  key.resize(crypto::kKeySize);
  return key;
}

// Written beside the path and linked to it, so that the path never has half a key, and of two
// workers that start at once one makes it.
Result<void> make_node_key(const std::string& path) {
  const std::string beside = path + "." + crypto::to_hex(crypto::random_bytes(8));
  const OwnedFd file(::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.valid()) return error_from_errno("make " + beside, errno);
  const std::string key = crypto::random_bytes(crypto::kKeySize);
  int error = 0;
  if (::write(file.get(), key.data(), key.size()) != static_cast<ssize_t>(key.size())) {
    error = errno == 0 ? EIO : errno;
  }
  if (error == 0 && ::fsync(file.get()) != 0) error = errno;
  if (error == 0 && ::link(beside.c_str(), path.c_str()) != 0 && errno != EEXIST) error = errno;
  (void)::unlink(beside.c_str());
  if (error != 0) return error_from_errno("make the node's key " + path, error);
  return {};
}

}  // namespace

Result<std::string> read_or_make_node_key(const std::string& path) {
  OwnedFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid() && errno == ENOENT) {
    RETURN_IF_ERROR(make_node_key(path));
    file = OwnedFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  }
  if (!file.valid()) return error_from_errno("open the node's key " + path, errno);
  return read_node_key(file, path);
}

}  // namespace lambent::tenants
