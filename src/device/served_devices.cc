#include "device/served_devices.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>

namespace lambent::device {
namespace {

Result<OwnedFd> lock(const std::string& file, int how, const char* refusal) {
  OwnedFd fd(open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return fd;
  if (flock(fd.get(), how | LOCK_NB) == 0) return fd;
  if (errno == EWOULDBLOCK) return Error{ErrorCode::kFailedPrecondition, refusal};
  return OwnedFd();
}

}  // namespace

Result<OwnedFd> mark_served(const std::string& file) {
  return lock(
      file, LOCK_SH,
      "this machine's GPUs are being cut into slices anew (lambent slices apply); start the "
      "worker when that is done");
}

Result<OwnedFd> claim_to_cut(const std::string& file) {
  return lock(
      file, LOCK_EX,
      "a worker serves this machine's GPUs: it would lose their slices. Stop it, and start it "
      "again afterwards");
}

}  // namespace lambent::device
