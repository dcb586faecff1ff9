#include <openssl/evp.h>
#include <openssl/sha.h>

#include <array>

#include "archive/zip.h"

namespace lambent::archive {
namespace {

std::array<unsigned char, SHA256_DIGEST_LENGTH> digest_of(std::string_view bytes) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  const int done =
      EVP_Digest(bytes.data(), bytes.size(), digest.data(), nullptr, EVP_sha256(), nullptr);
  CHECK(done == 1, "libcrypto has SHA-256");
  return digest;
}

}  // namespace

std::string code_sha256(std::string_view zip) {
  const auto digest = digest_of(zip);
  std::array<unsigned char, 4 * ((SHA256_DIGEST_LENGTH + 2) / 3) + 1> text;
  const int size = EVP_EncodeBlock(text.data(), digest.data(), static_cast<int>(digest.size()));
  return std::string(text.begin(), text.begin() + size);
}

std::string code_folder_name(std::string_view zip) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string name;
  for (const unsigned char byte : digest_of(zip)) {
    name += kDigits[byte >> 4];
    name += kDigits[byte & 15];
  }
  return name;
}

}  // namespace lambent::archive
