// Credentials: the certificate, key and authorities that one side of TLS shows and trusts, as PEM
// text read from files. Values; reading blocks.
#pragma once

#include <string>

#include "core/base/result.h"

namespace lambent::tls {

// Empty names: there is no such file.
struct CredentialFiles {
  std::string certificate;  // the own one first, then those between it and an authority
  std::string key;          // of the first certificate, not encrypted
  std::string authorities;  // who signs what the other side shows; may hold revocation lists

  bool operator==(const CredentialFiles&) const = default;
};

struct Credentials {
  CredentialFiles files;  // for errors
  std::string certificate;
  std::string key;
  std::string authorities;

  bool operator==(const Credentials&) const = default;
};

// NOT_FOUND, PERMISSION_DENIED and the like, with the file's name. What the text says is looked at
// when a context is made of it.
Result<Credentials> read_credentials(const CredentialFiles& files);

}  // namespace lambent::tls
