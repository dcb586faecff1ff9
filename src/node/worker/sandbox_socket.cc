#include "node/worker/sandbox_socket.h"

#include <sys/socket.h>

#include "core/base/packet.h"

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

namespace lambent::worker {

Result<OwnedFd> listen_to_sandbox(const std::string& path) {
  ASSIGN_OR_RETURN(OwnedFd listener, listen_packets(path, 0666));
  // Connections have it from their listener. An older kernel does not know it.
  const int off = 0;
  (void)setsockopt(listener.get(), SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof(off));
  return listener;
}

}  // namespace lambent::worker
