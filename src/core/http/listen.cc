#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/http/server.h"

namespace lambent::http {
namespace {

constexpr int kBacklog = 4096;

Error bind_error(const std::string& where, int error_number) {
  Error error = error_from_errno("listen on " + where, error_number);
  if (error_number == EADDRINUSE) error.code = ErrorCode::kUnavailable;
  return error;
}

bool somebody_listens(const sockaddr_un& address) {
  const OwnedFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ||
         errno == EAGAIN;
}

}  // namespace

Result<OwnedFd> listen_tcp(const std::string& address, uint16_t port) {
  const std::string where = address + ":" + std::to_string(port);
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  const sockaddr* bound = nullptr;
  socklen_t length = 0;
  if (inet_pton(AF_INET, address.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    bound = reinterpret_cast<const sockaddr*>(&v4);
    length = sizeof v4;
  } else if (inet_pton(AF_INET6, address.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    bound = reinterpret_cast<const sockaddr*>(&v6);
    length = sizeof v6;
  } else {
    return Error{ErrorCode::kInvalidArgument,
                 "listen on " + where + ": '" + address + "' is not an IP address"};
  }
  OwnedFd fd(socket(bound->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return bind_error(where, errno);
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(fd.get(), bound, length) != 0) return bind_error(where, errno);
  if (::listen(fd.get(), kBacklog) != 0) return bind_error(where, errno);
  return fd;
}

Result<OwnedFd> listen_unix(const std::string& path, mode_t mode, std::optional<gid_t> group) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return Error{ErrorCode::kInvalidArgument,
                 "listen on '" + path + "': the path of a Unix socket has 1 to 107 bytes"};
  }
  memcpy(address.sun_path, path.c_str(), path.size() + 1);
  struct stat status {};
  if (lstat(path.c_str(), &status) == 0) {
    if (!S_ISSOCK(status.st_mode)) {
      return Error{ErrorCode::kAlreadyExists,
                   "listen on " + path + ": a file that is not a socket is in the way"};
    }
    if (somebody_listens(address)) return bind_error(path, EADDRINUSE);
    unlink(path.c_str());
  }
  OwnedFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return bind_error(path, errno);
  // No client can connect before listen(), so mode and group are in force before one could.
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return bind_error(path, errno);
  }
  if (group && chown(path.c_str(), static_cast<uid_t>(-1), *group) != 0) {
    return bind_error(path, errno);
  }
  if (chmod(path.c_str(), mode) != 0) return bind_error(path, errno);
  if (::listen(fd.get(), kBacklog) != 0) return bind_error(path, errno);
  return fd;
}

uint16_t port_of(const OwnedFd& listener) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) return 0;
  if (address.ss_family == AF_INET) return ntohs(reinterpret_cast<sockaddr_in&>(address).sin_port);
  if (address.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<sockaddr_in6&>(address).sin6_port);
  }
  return 0;
}

}  // namespace lambent::http
