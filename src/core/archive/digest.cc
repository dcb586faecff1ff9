#include <algorithm>

#include "core/archive/zip.h"
#include "core/base/base64.h"
#include "core/crypto/crypto.h"

namespace lambent::archive {

std::string code_sha256(std::string_view zip) {
  return base64_encode(crypto::bytes_of(crypto::sha256(zip)));
}

std::string code_folder_name(std::string_view code_sha256) {
  std::string name(code_sha256.substr(0, code_sha256.find('=')));
  std::replace(name.begin(), name.end(), '/', '_');
  std::replace(name.begin(), name.end(), '+', '-');
  return name;
}

}  // namespace lambent::archive
