#include "core/tls/openssl.h"

#include <openssl/err.h>

namespace lambent::tls {

std::string take_openssl_error() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason == nullptr ? "unknown reason" : reason;
}

}  // namespace lambent::tls
