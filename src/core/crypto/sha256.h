// Sha256: the digest of bytes that come in pieces. A resource with one owner; any thread, one at a
// time.
#pragma once

#include <memory>
#include <string_view>

#include "core/crypto/crypto.h"

namespace lambent::crypto {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void add(std::string_view bytes);
  // Of what came so far; more may come after it.
  Digest digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lambent::crypto
