// What a certificate says, as values. Free functions; any thread.
#pragma once

#include "core/base/time.h"
#include "core/http/message.h"
#include "core/tls/openssl.h"

namespace lambent::tls {

// Since the Unix epoch, in whole seconds.
struct Validity {
  Duration not_before{};
  Duration not_after{};

  bool contains(Duration wall) const { return not_before <= wall && wall <= not_after; }
};

Validity validity_of(const X509* certificate);
// Names with a NUL byte are left out: no honest certificate has one.
http::PeerCertificate names_of(X509* certificate);

// "2026-11-28 04:00:00 UTC".
std::string date_of(Duration wall);

}  // namespace lambent::tls
