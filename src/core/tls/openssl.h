// What OpenSSL gives out, as owners, and its errors as text. Used by this module's files only.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

namespace lambent::tls {

template <auto kFree>
struct FreeWith {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using OwnedBio = std::unique_ptr<BIO, FreeWith<BIO_free>>;
using OwnedKey = std::unique_ptr<EVP_PKEY, FreeWith<EVP_PKEY_free>>;
using OwnedCertificate = std::unique_ptr<X509, FreeWith<X509_free>>;
using OwnedRevocations = std::unique_ptr<X509_CRL, FreeWith<X509_CRL_free>>;
using OwnedSsl = std::unique_ptr<SSL, FreeWith<SSL_free>>;

// The text of the first error that this thread's calls left, and forgets all of them; "unknown
// reason" if there is none.
std::string take_openssl_error();

}  // namespace lambent::tls
