#include <openssl/evp.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>

#include "core/archive/zip.h"

namespace lambent::archive {

std::string code_sha256(std::string_view zip) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  const int done =
      EVP_Digest(zip.data(), zip.size(), digest.data(), nullptr, EVP_sha256(), nullptr);
  CHECK(done == 1, "libcrypto has SHA-256");
  std::array<unsigned char, 4 * ((SHA256_DIGEST_LENGTH + 2) / 3) + 1> text;
  const int size = EVP_EncodeBlock(text.data(), digest.data(), static_cast<int>(digest.size()));
  return std::string(text.begin(), text.begin() + size);
}

std::string code_folder_name(std::string_view code_sha256) {
  std::string name(code_sha256.substr(0, code_sha256.find('=')));
  std::replace(name.begin(), name.end(), '/', '_');
  std::replace(name.begin(), name.end(), '+', '-');
  return name;
}

}  // namespace lambent::archive
