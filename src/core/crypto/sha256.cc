#include "core/crypto/sha256.h"

#include <openssl/evp.h>

#include "core/base/check.h"

namespace lambent::crypto {

struct Sha256::State {
  using Context = std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)>;
  Context context{EVP_MD_CTX_new(), &EVP_MD_CTX_free};
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  CHECK(state_->context != nullptr, "a digest context can be allocated");
  CHECK(EVP_DigestInit_ex(state_->context.get(), EVP_sha256(), nullptr) == 1, "SHA-256 is there");
}

Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::add(std::string_view bytes) {
  const int done = EVP_DigestUpdate(state_->context.get(), bytes.data(), bytes.size());
  CHECK(done == 1, "SHA-256 takes bytes");
}

Digest Sha256::digest() const {
  const State::Context copy(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  CHECK(copy != nullptr, "a digest context can be allocated");
  Digest digest;
  unsigned size = 0;
  CHECK(EVP_MD_CTX_copy_ex(copy.get(), state_->context.get()) == 1, "a digest can be copied");
  CHECK(EVP_DigestFinal_ex(copy.get(), digest.data(), &size) == 1, "SHA-256 ends");
  return digest;
}

}  // namespace lambent::crypto
