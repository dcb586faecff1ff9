#include "core/base/process.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace lambent {

OwnedFd open_process(pid_t process) {
  return OwnedFd(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
}

pid_t process_behind(const OwnedFd& socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return 0;
  return peer.pid;
}

}  // namespace lambent
