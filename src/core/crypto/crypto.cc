#include "core/crypto/crypto.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "core/base/check.h"

namespace lambent::crypto {
namespace {

constexpr size_t kNonceSize = 12;
constexpr size_t kTagSize = 16;

const unsigned char* unsigned_of(std::string_view bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}
unsigned char* unsigned_of(std::string& bytes) {
  return reinterpret_cast<unsigned char*>(bytes.data());
}

using CipherContext = std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)>;

CipherContext new_cipher() {
  CipherContext context(EVP_CIPHER_CTX_new(), &EVP_CIPHER_CTX_free);
  CHECK(context != nullptr, "a cipher context can be allocated");
  return context;
}

Error not_ours() {
  return {ErrorCode::kDataLoss,
          "sealed bytes do not open with this key: they were changed, or the key was"};
}

}  // namespace

Digest sha256(std::string_view bytes) {
  Digest digest;
  const int done =
      EVP_Digest(bytes.data(), bytes.size(), digest.data(), nullptr, EVP_sha256(), nullptr);
  CHECK(done == 1, "SHA-256 is there");
  return digest;
}

Digest hmac_sha256(std::string_view key, std::string_view bytes) {
  Digest digest;
  const auto* done = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                          unsigned_of(bytes), bytes.size(), digest.data(), nullptr);
  CHECK(done != nullptr, "HMAC-SHA-256 is there");
  return digest;
}

std::string_view bytes_of(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

std::string to_hex(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::string to_hex(const Digest& digest) { return to_hex(bytes_of(digest)); }

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string random_bytes(size_t count) {
  std::string bytes(count, '\0');
  for (size_t have = 0; have < count;) {
    const ssize_t got = getrandom(bytes.data() + have, count - have, 0);
    CHECK(got > 0 || errno == EINTR, "the kernel has random bytes");
    have += static_cast<size_t>(std::max<ssize_t>(got, 0));
  }
  return bytes;
}

std::string seal(std::string_view key, std::string_view text, std::string_view context) {
  CHECK(key.size() == kKeySize, "a key has 32 bytes");
  const std::string nonce = random_bytes(kNonceSize);
  std::string ciphertext(text.size(), '\0');
  std::string tag(kTagSize, '\0');
  const CipherContext cipher = new_cipher();
  int written = 0;
  bool done = EVP_EncryptInit_ex(cipher.get(), EVP_aes_256_gcm(), nullptr, unsigned_of(key),
                                 unsigned_of(nonce)) == 1;
  done = done && EVP_EncryptUpdate(cipher.get(), nullptr, &written, unsigned_of(context),
                                   static_cast<int>(context.size())) == 1;
  done = done && EVP_EncryptUpdate(cipher.get(), unsigned_of(ciphertext), &written,
                                   unsigned_of(text), static_cast<int>(text.size())) == 1;
  done =
      done && EVP_EncryptFinal_ex(cipher.get(), unsigned_of(ciphertext) + written, &written) == 1;
  done = done && EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_GET_TAG, kTagSize, tag.data()) == 1;
  CHECK(done, "AES-256-GCM is there");
  return nonce + ciphertext + tag;
}

Result<std::string> open(std::string_view key, std::string_view sealed, std::string_view context) {
  CHECK(key.size() == kKeySize, "a key has 32 bytes");
  if (sealed.size() < kNonceSize + kTagSize) return not_ours();
  const std::string_view nonce = sealed.substr(0, kNonceSize);
  const std::string_view ciphertext =
      sealed.substr(kNonceSize, sealed.size() - kNonceSize - kTagSize);
  std::string tag(sealed.substr(sealed.size() - kTagSize));
  std::string text(ciphertext.size(), '\0');
  const CipherContext cipher = new_cipher();
  int written = 0;
  bool done = EVP_DecryptInit_ex(cipher.get(), EVP_aes_256_gcm(), nullptr, unsigned_of(key),
                                 unsigned_of(nonce)) == 1;
  done = done && EVP_DecryptUpdate(cipher.get(), nullptr, &written, unsigned_of(context),
                                   static_cast<int>(context.size())) == 1;
  done =
      done && EVP_DecryptUpdate(cipher.get(), unsigned_of(text), &written, unsigned_of(ciphertext),
                                static_cast<int>(ciphertext.size())) == 1;
  done = done && EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_SET_TAG, kTagSize, tag.data()) == 1;
  done = done && EVP_DecryptFinal_ex(cipher.get(), unsigned_of(text) + written, &written) == 1;
  if (!done) return not_ours();
  return text;
}

}  // namespace lambent::crypto
