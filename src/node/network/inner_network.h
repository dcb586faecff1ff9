// The addresses of the network between a sandbox and its relay. Values; any thread.
//
// They are of the ranges for benchmarks: closed otherwise, so that no destination is hidden by
// them, and global to resolvers, which prefer destinations of their own address's scope.
#pragma once

#include "core/domain/ip_address.h"

namespace lambent::network {

inline constexpr char kSandboxV4[] = "198.18.0.2";
inline constexpr char kRouterV4[] = "198.18.0.1";  // answers questions about names, too
inline constexpr unsigned kPrefixV4 = 30;
inline constexpr char kSandboxV6[] = "2001:2::2";
inline constexpr char kRouterV6[] = "2001:2::1";
inline constexpr unsigned kPrefixV6 = 64;
inline constexpr uint16_t kNamePort = 53;
// As large as packets can be: each costs two switches between kernel and relay.
inline constexpr int kLargestPacket = 65'520;

}  // namespace lambent::network
