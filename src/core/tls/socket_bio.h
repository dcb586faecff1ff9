// A non-blocking socket as OpenSSL's source and sink of bytes. Its own one would end the process
// with SIGPIPE when the peer is gone. Used by SecureStream.
#pragma once

#include "core/tls/openssl.h"

namespace lambent::tls {

// `fd` stays the caller's and outlives it. Null if there is no memory.
OwnedBio socket_bio(int fd);

// Whether errno says that the call on a socket can be made again later.
bool would_block();

}  // namespace lambent::tls
