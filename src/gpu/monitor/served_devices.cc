#include "gpu/monitor/served_devices.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>

namespace lambent::monitor {
namespace {

Result<OwnedFd> lock(const std::string& file, int how, const std::string& refusal) {
  struct stat facts {};
  const bool is_socket = stat(file.c_str(), &facts) == 0 && S_ISSOCK(facts.st_mode);
  OwnedFd fd(is_socket ? open((file + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)
                       : open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return fd;
  if (flock(fd.get(), how | LOCK_NB) == 0) return fd;
  if (errno == EWOULDBLOCK)
    return Error{ErrorCode::kFailedPrecondition, file + " is locked: " + refusal};
  return OwnedFd();
}

}  // namespace

Result<OwnedFd> mark_served(const std::string& file) {
  return lock(
      file, LOCK_SH,
      "this machine's GPUs are being cut into slices again (lambent slices apply), or another "
      "program holds that lock (lslocks); start the worker when it is gone");
}

Result<OwnedFd> claim_to_cut(const std::string& file) {
  return lock(
      file, LOCK_EX,
      "a worker serves this machine's GPUs, which would lose their slices (stop it, and start it "
      "again afterwards), or another program holds that lock (lslocks)");
}

}  // namespace lambent::monitor
