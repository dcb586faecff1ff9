// When the peer's machine learns that what it sent has come. Free functions; the stream's thread.
#pragma once

#include "core/http/stream.h"

namespace lambent::http {

// Tells it at once. A peer that writes a message in several parts, without TCP_NODELAY, sends the
// next one only then; by itself Linux tells it up to 40 ms later.
void acknowledge(const Stream& stream);

}  // namespace lambent::http
