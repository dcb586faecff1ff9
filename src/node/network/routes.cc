#include "node/network/routes.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace lambent::network {
namespace {

Route route_of(unsigned char type) {
  switch (type) {
    case RTN_UNICAST:
      return Route::kOut;
    case RTN_LOCAL:
    case RTN_ANYCAST:
      return Route::kOwn;
    case RTN_BROADCAST:
    case RTN_MULTICAST:
    case RTN_NAT:
    case RTN_XRESOLVE:
      return Route::kBroadcast;
    default:
      return Route::kNone;
  }
}

}  // namespace

Result<Routes> Routes::open() {
  Routes routes;
  routes.socket_ = OwnedFd(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!routes.socket_.valid()) return error_from_errno("ask the kernel for routes", errno);
  const timeval patience{1, 0};
  setsockopt(routes.socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  return routes;
}

Route Routes::of(const IpAddress& address) {
  const bool four = address.is_v4();
  const size_t length = four ? 4 : 16;
  struct {
    nlmsghdr header;
    rtmsg message;
    rtattr attribute;
    uint8_t bytes[16];
  } request{};
  request.header.nlmsg_len =
      static_cast<uint32_t>(NLMSG_LENGTH(sizeof(rtmsg)) + RTA_LENGTH(length));
  request.header.nlmsg_type = RTM_GETROUTE;
  request.header.nlmsg_flags = NLM_F_REQUEST;
  request.header.nlmsg_seq = ++sequence_;
  request.message.rtm_family = four ? AF_INET : AF_INET6;
  request.message.rtm_dst_len = static_cast<unsigned char>(length * 8);
  request.attribute.rta_type = RTA_DST;
  request.attribute.rta_len = static_cast<unsigned short>(RTA_LENGTH(length));
  std::memcpy(request.bytes, address.bytes.data() + (four ? 12 : 0), length);
  if (send(socket_.get(), &request, request.header.nlmsg_len, 0) < 0) return Route::kNone;
  alignas(nlmsghdr) char buffer[8192];
  while (true) {
    const ssize_t got = recv(socket_.get(), buffer, sizeof(buffer), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < static_cast<ssize_t>(sizeof(nlmsghdr))) return Route::kNone;
    const auto* answer = reinterpret_cast<const nlmsghdr*>(buffer);
    if (answer->nlmsg_seq != sequence_) continue;  // of a question that we gave up
    if (answer->nlmsg_type != RTM_NEWROUTE ||
        got < static_cast<ssize_t>(NLMSG_LENGTH(sizeof(rtmsg)))) {
      return Route::kNone;
    }
    return route_of(static_cast<const rtmsg*>(NLMSG_DATA(answer))->rtm_type);
  }
}

}  // namespace lambent::network
