// The connection of a client that sends no SDK's invocation id: it stands in the place of that id,
// so that a client that was told when to come again, and comes by the same connection, has its
// turn. It makes nothing a repeat. Set by the frontend, understood by the worker; any thread.
#pragma once

#include <string>
#include <string_view>

namespace lambent {

// No header has such a character.
inline constexpr char kConnectionMark = '\n';

// `address`: the client's, with its port; empty, as of Unix sockets: nothing is known.
inline std::string connection_key(std::string_view address) {
  return address.empty() ? std::string() : kConnectionMark + std::string(address);
}

inline bool is_connection_key(std::string_view idempotency_key) {
  return idempotency_key.starts_with(kConnectionMark);
}

}  // namespace lambent
