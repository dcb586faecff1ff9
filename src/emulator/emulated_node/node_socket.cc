#include "emulator/emulated_node/node_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace lambent::emulated_node {
namespace {

constexpr timeval kPatience{5, 0};

// An address holds 107 bytes; the folder's descriptor stands for a longer one.
bool connect_to(int fd, const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const int parent = open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (parent < 0) return false;
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  const std::string near = "/proc/self/fd/" + std::to_string(parent) + "/" + name;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  bool connected = false;
  if (near.size() < sizeof address.sun_path) {
    std::memcpy(address.sun_path, near.c_str(), near.size() + 1);
    int result;
    do {
      result = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    } while (result != 0 && errno == EINTR);
    connected = result == 0;
  } else {
    errno = ENAMETOOLONG;
  }
  const int kept = errno;
  close(parent);
  errno = kept;
  return connected;
}

NodeDescriptors receive_from(int fd) {
  char word = 0;
  iovec piece{&word, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  ssize_t got;
  do {
    got = recvmsg(fd, &header, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  const cmsghdr* part = got == 1 ? CMSG_FIRSTHDR(&header) : nullptr;
  const bool has_rights = part && part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS;
  if (!has_rights) return {};
  int fds[2] = {-1, -1};
  const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
  std::memcpy(fds, CMSG_DATA(part), std::min<size_t>(count, 2) * sizeof(int));
  if (count == 2) return {fds[0], fds[1]};
  if (count == 1) close(fds[0]);
  return {};
}

}  // namespace

NodeDescriptors receive_node(const std::string& path, std::string* error) {
  const auto failed = [&](const char* doing) {
    *error = std::string(doing) + " " + path + ": " + std::strerror(errno);
    return NodeDescriptors{};
  };
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0) return failed("cannot make a socket for");
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof kPatience);
  if (!connect_to(fd, path)) {
    failed("cannot connect to");
    close(fd);
    return {};
  }
  errno = 0;
  const NodeDescriptors descriptors = receive_from(fd);
  if (descriptors.live < 0) failed("no node was given at");
  close(fd);
  return descriptors;
}

}  // namespace lambent::emulated_node
