#include "core/tls/credentials.h"

#include "core/base/fd.h"

namespace lambent::tls {
namespace {

constexpr size_t kMostPem = 1024 * 1024;

Result<std::string> read_pem(const std::string& path) {
  if (path.empty()) return std::string();
  return read_file(path, kMostPem);
}

}  // namespace

Result<Credentials> read_credentials(const CredentialFiles& files) {
  Credentials read{.files = files, .certificate = {}, .key = {}, .authorities = {}};
  ASSIGN_OR_RETURN(read.certificate, read_pem(files.certificate));
  ASSIGN_OR_RETURN(read.key, read_pem(files.key));
  ASSIGN_OR_RETURN(read.authorities, read_pem(files.authorities));
  return read;
}

}  // namespace lambent::tls
