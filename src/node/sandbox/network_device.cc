#include "node/sandbox/network_device.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/route.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "core/base/check.h"
#include "node/network/inner_network.h"

namespace lambent::sandbox {
namespace {

constexpr char kFile[] = "/dev/net/tun";
constexpr char kName[] = "out";
constexpr int kBacklog = 256;

Error failed(const std::string& doing) { return error_from_errno(doing, errno); }

ifreq request_of_device() {
  ifreq request{};
  snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", kName);
  return request;
}

sockaddr_in v4_address(const char* text, uint16_t port = 0) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  inet_pton(AF_INET, text, &address.sin_addr);
  return address;
}

template <typename Address>
void put(sockaddr& to, const Address& address) {
  static_assert(sizeof(Address) <= sizeof(sockaddr));
  std::memcpy(&to, &address, sizeof(address));
}

Result<void> set_up_v4(const OwnedFd& control) {
  ifreq request = request_of_device();
  put(request.ifr_addr, v4_address(network::kSandboxV4));
  if (ioctl(control.get(), SIOCSIFADDR, &request) != 0) return failed("give it an address");
  put(request.ifr_netmask, v4_address("255.255.255.252"));
  static_assert(network::kPrefixV4 == 30);
  if (ioctl(control.get(), SIOCSIFNETMASK, &request) != 0) return failed("give it a prefix");
  request = request_of_device();
  request.ifr_mtu = network::kLargestPacket;
  if (ioctl(control.get(), SIOCSIFMTU, &request) != 0) return failed("set its MTU");
  request = request_of_device();
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  if (ioctl(control.get(), SIOCSIFFLAGS, &request) != 0) return failed("bring it up");
  rtentry route{};
  put(route.rt_dst, v4_address("0.0.0.0"));
  put(route.rt_genmask, v4_address("0.0.0.0"));
  put(route.rt_gateway, v4_address(network::kRouterV4));
  route.rt_flags = RTF_UP | RTF_GATEWAY;
  if (ioctl(control.get(), SIOCADDRT, &route) != 0) return failed("add its route");
  return {};
}

// By netlink, which can say that no other host has it: the kernel would try to find out first.
bool add_v6_address(int device) {
  struct {
    nlmsghdr header;
    ifaddrmsg message;
    rtattr flags_head;
    uint32_t flags;
    rtattr local_head;
    in6_addr local;
  } request{};
  static_assert(sizeof(request) ==
                NLMSG_LENGTH(sizeof(ifaddrmsg)) + RTA_LENGTH(4) + RTA_LENGTH(sizeof(in6_addr)));
  request.header.nlmsg_len = sizeof(request);
  request.header.nlmsg_type = RTM_NEWADDR;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
  request.message.ifa_family = AF_INET6;
  request.message.ifa_prefixlen = network::kPrefixV6;
  request.message.ifa_flags = IFA_F_NODAD | IFA_F_PERMANENT;
  request.message.ifa_index = static_cast<uint32_t>(device);
  request.flags_head = {RTA_LENGTH(4), IFA_FLAGS};
  request.flags = IFA_F_NODAD | IFA_F_PERMANENT;
  request.local_head = {RTA_LENGTH(sizeof(in6_addr)), IFA_LOCAL};
  inet_pton(AF_INET6, network::kSandboxV6, &request.local);
  const OwnedFd netlink(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!netlink.valid() || send(netlink.get(), &request, sizeof(request), 0) < 0) return false;
  alignas(nlmsghdr) char answer[1024];
  const ssize_t got = recv(netlink.get(), answer, sizeof(answer), 0);
  const auto* header = reinterpret_cast<const nlmsghdr*>(answer);
  return got >= static_cast<ssize_t>(NLMSG_LENGTH(sizeof(nlmsgerr))) &&
         header->nlmsg_type == NLMSG_ERROR &&
         static_cast<const nlmsgerr*>(NLMSG_DATA(header))->error == 0;
}

// False: the kernel has no IPv6, and the sandbox does without.
bool set_up_v6() {
  const OwnedFd control(socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq device = request_of_device();
  if (!control.valid() || ioctl(control.get(), SIOCGIFINDEX, &device) != 0) return false;
  if (!add_v6_address(device.ifr_ifindex)) return false;
  in6_rtmsg route{};
  inet_pton(AF_INET6, network::kRouterV6, &route.rtmsg_gateway);
  route.rtmsg_flags = RTF_UP | RTF_GATEWAY;
  route.rtmsg_metric = 1;
  route.rtmsg_ifindex = device.ifr_ifindex;
  return ioctl(control.get(), SIOCADDRT, &route) == 0;
}

template <typename Address>
Result<OwnedFd> listen_at(const Address& address) {
  OwnedFd listener(socket(std::is_same_v<Address, sockaddr_in> ? AF_INET : AF_INET6,
                          SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.valid()) return failed("socket");
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(listener.get(), kBacklog) != 0) {
    return failed("listen for its relay");
  }
  return listener;
}

Result<OwnedFd> open_device(const std::string& path) {
  OwnedFd file(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) return failed("open " + std::string(kFile));
  return file;
}

// With one thread: its sockets are of that other network until it is back.
Result<OwnedFd> open_device_in_network_of(const OwnedFd& socket) {
  const OwnedFd there(ioctl(socket.get(), SIOCGSKNS));
  if (!there.valid()) return failed("find the network of the sandbox");
  const OwnedFd here(open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
  if (!here.valid()) return failed("find the own network");
  if (setns(there.get(), CLONE_NEWNET) != 0) return failed("enter the network of the sandbox");
  auto file = open_device(kFile);
  CHECK(setns(here.get(), CLONE_NEWNET) == 0, "the network that one came from can be entered");
  return file;
}

Result<OwnedFd> attach(OwnedFd device) {
  if ((fcntl(device.get(), F_GETFL) & O_PATH) != 0) {
    ASSIGN_OR_RETURN(device, open_device("/proc/self/fd/" + std::to_string(device.get())));
  }
  ifreq request = request_of_device();
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  if (ioctl(device.get(), TUNSETIFF, &request) != 0) return failed("make a network device");
  return device;
}

}  // namespace

Result<OwnedFd> find_network_device(const OwnedFd& socket, bool root) {
  if (root) return open_device_in_network_of(socket);
  OwnedFd file(open(kFile, O_PATH | O_CLOEXEC));
  if (!file.valid()) return failed("find " + std::string(kFile));
  return file;
}

std::string try_network_device() {
  const OwnedFd file(open(kFile, O_RDWR | O_CLOEXEC));
  if (file.valid()) return {};
  const std::string why = failed("open " + std::string(kFile)).message;
  if (errno == EACCES || errno == EPERM) {
    return why + " (as root: chmod 666 /dev/net/tun; it gives no right to the host's network)";
  }
  return why + " (as root: modprobe tun; in a container: pass the device in)";
}

Result<std::vector<OwnedFd>> make_network_device(OwnedFd device_file) {
  const auto make = [&]() -> Result<std::vector<OwnedFd>> {
    ASSIGN_OR_RETURN(OwnedFd device, attach(std::move(device_file)));
    const OwnedFd control(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!control.valid()) return failed("socket");
    RETURN_IF_ERROR(set_up_v4(control));
    std::vector<OwnedFd> made;
    made.push_back(std::move(device));
    ASSIGN_OR_RETURN(OwnedFd listener, listen_at(v4_address(network::kSandboxV4)));
    made.push_back(std::move(listener));
    if (set_up_v6()) {
      sockaddr_in6 address{};
      address.sin6_family = AF_INET6;
      inet_pton(AF_INET6, network::kSandboxV6, &address.sin6_addr);
      if (auto second = listen_at(address); second.ok()) made.push_back(std::move(*second));
    }
    return made;
  };
  auto made = make();
  if (!made.ok()) return made.error().with_context("give the sandbox a network");
  return made;
}

}  // namespace lambent::sandbox
