// Which header fields are for one connection only, and not for the program behind a relay (RFC
// 9110, 7.6.1). Free functions; any thread.
#pragma once

#include "core/http/message.h"

namespace lambent::http {

// Whether `list`, a comma-separated header value, contains `word`.
bool list_contains(std::string_view list, std::string_view word);
// The fields without those that are for one connection: Connection and what it names, Keep-Alive,
// Proxy-Connection, Proxy-Authenticate, Proxy-Authorization, TE, Trailer, Transfer-Encoding,
// Upgrade, and what nodes say of a request that has not begun, which no program can say.
Headers end_to_end(const Headers& headers);
// Puts the fields of a relay into an answer: they win over those of the program, but what the
// answer varies by is added to what the program says.
void put_ours(const Headers& ours, Headers& headers);
// The protocols that a request asks for, or an answer changes to; empty: it keeps HTTP. HTTP/2
// (h2c) counts as none.
std::string upgrade_of(const Headers& headers);

}  // namespace lambent::http
