#include "bin/listening_sockets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <sstream>
#include <string_view>
#include <utility>

#include "core/http/server.h"

namespace lambent {
namespace {

// More than anyone has; a number beyond is a mistake.
constexpr int kMostInherited = 64;

Error invalid(const std::string& message) { return {ErrorCode::kInvalidArgument, message}; }

Result<int> read_number(const char* name, std::string_view text, int most) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0 || number > most) {
    return invalid(std::string(name) + " is a number from 0 to " + std::to_string(most) +
                   ", not '" + std::string(text) + "'");
  }
  return number;
}

// A listener that is closed resets what the system has accepted for it. From now on it accepts no
// more: the first packet of a connection (SYN without ACK) is dropped, and the client sends it
// again some time later. Nothing happens to other kinds of sockets.
void drop_new_connections(int listener) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) != 0) return;
  if (address.ss_family != AF_INET && address.ss_family != AF_INET6) return;
  constexpr uint32_t kFlagsOffset = 13;  // in a TCP header
  constexpr uint32_t kSynAndAck = 0x12;
  constexpr uint32_t kSyn = 0x02;
  sock_filter program[] = {BPF_STMT(BPF_LD | BPF_B | BPF_ABS, kFlagsOffset),
                           BPF_STMT(BPF_ALU | BPF_AND | BPF_K, kSynAndAck),
                           BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kSyn, 0, 1),
                           BPF_STMT(BPF_RET | BPF_K, 0), BPF_STMT(BPF_RET | BPF_K, UINT32_MAX)};
  const sock_fprog filter{.len = static_cast<unsigned short>(std::size(program)),
                          .filter = program};
  (void)setsockopt(listener, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter));
}

// Of a listening socket.
Result<sockaddr_storage> address_of(int fd) {
  int listens = 0;
  socklen_t size = sizeof(listens);
  if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0) {
    return invalid("descriptor " + std::to_string(fd) +
                   ", which LISTEN_FDS counts, is not a listening socket");
  }
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return error_from_errno("read the address of an inherited socket", errno);
  }
  return address;
}

// The path of a Unix socket, ADDRESS:PORT of TCP.
std::string text_of(const sockaddr_storage& address) {
  if (address.ss_family == AF_UNIX) {
    const auto& name = reinterpret_cast<const sockaddr_un&>(address);
    return {name.sun_path, strnlen(name.sun_path, sizeof(name.sun_path))};
  }
  char host[INET6_ADDRSTRLEN] = "";
  const bool is_v6 = address.ss_family == AF_INET6;
  const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  const void* number = is_v6 ? static_cast<const void*>(&v6.sin6_addr) : &v4.sin_addr;
  if (inet_ntop(address.ss_family, number, host, sizeof(host)) == nullptr) return {};
  return to_string(
      http::Authority{is_v6 ? http::Authority::Kind::kIpv6 : http::Authority::Kind::kIpv4, host,
                      ntohs(is_v6 ? v6.sin6_port : v4.sin_port)});
}

}  // namespace

Result<ListeningSockets> ListeningSockets::inherit(const Variables& variables, pid_t self,
                                                   int first) {
  ListeningSockets sockets;
  if (variables.pid == nullptr || variables.count == nullptr) return sockets;
  ASSIGN_OR_RETURN(const int wanted, read_number("LISTEN_PID", variables.pid, INT_MAX));
  // They were for the process that started this one.
  if (wanted != self) return sockets;
  ASSIGN_OR_RETURN(const int number, read_number("LISTEN_FDS", variables.count, kMostInherited));
  std::istringstream lines(variables.addresses == nullptr ? "" : variables.addresses);
  for (int fd = first; fd < first + number; ++fd) {
    ASSIGN_OR_RETURN(const sockaddr_storage address, address_of(fd));
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    std::string text;
    if (!std::getline(lines, text)) text = text_of(address);
    sockets.inherited_.push_back({std::move(text), OwnedFd(fd), false});
  }
  return sockets;
}

Result<OwnedFd> ListeningSockets::tcp(const http::Authority& address) {
  const std::string wanted = to_string(address);
  const std::string any_port = wanted.substr(0, wanted.rfind(':') + 1);
  for (Socket& each : inherited_) {
    const bool is_it =
        *address.port == 0 ? each.address.starts_with(any_port) : each.address == wanted;
    if (is_it && each.fd.valid()) return keep(each.address, std::move(each.fd), false);
  }
  ASSIGN_OR_RETURN(OwnedFd fresh, http::listen_tcp(address.host, *address.port));
  return keep(wanted, std::move(fresh), true);
}

Result<OwnedFd> ListeningSockets::unix_socket(const std::string& path,
                                              const std::function<Result<OwnedFd>()>& open) {
  for (Socket& each : inherited_) {
    if (each.address == path && each.fd.valid()) return keep(path, std::move(each.fd), false);
  }
  ASSIGN_OR_RETURN(OwnedFd fresh, open());
  return keep(path, std::move(fresh), true);
}

Result<OwnedFd> ListeningSockets::keep(std::string address, OwnedFd listener, bool is_new) {
  OwnedFd copy(fcntl(listener.get(), F_DUPFD_CLOEXEC, 3));
  if (!copy.valid()) return error_from_errno("copy the listener at " + address, errno);
  kept_.push_back({std::move(address), std::move(listener), is_new});
  return copy;
}

Result<void> ListeningSockets::check_all_taken() const {
  for (const Socket& each : inherited_) {
    if (!each.fd.valid()) continue;
    return Error{ErrorCode::kInvalidArgument,
                 "the service manager listens at " + each.address +
                     ", which the worker does not: its clients would wait for ever. Give both the "
                     "same addresses, by --listen and --socket"};
  }
  return {};
}

void ListeningSockets::close() {
  for (const Socket& each : kept_) {
    if (each.is_new) drop_new_connections(each.fd.get());
  }
  inherited_.clear();
  kept_.clear();
}

Result<void> ListeningSockets::hand_over(int first) {
  const int number = static_cast<int>(kept_.size());
  // Out of the way first, or one would close another.
  for (Socket& each : kept_) {
    OwnedFd moved(fcntl(each.fd.get(), F_DUPFD_CLOEXEC, first + number));
    if (!moved.valid()) return error_from_errno("hand over the listener at " + each.address, errno);
    each.fd = std::move(moved);
  }
  std::string addresses;
  for (int index = 0; index < number; ++index) {
    addresses += kept_[index].address + "\n";
    if (dup2(kept_[index].fd.get(), first + index) < 0) {
      return error_from_errno("hand over the listener at " + kept_[index].address, errno);
    }
  }
  setenv("LISTEN_PID", std::to_string(getpid()).c_str(), 1);
  setenv("LISTEN_FDS", std::to_string(number).c_str(), 1);
  setenv("LAMBENT_LISTENERS", addresses.c_str(), 1);
  return {};
}

}  // namespace lambent
