#include "core/crypto/sha256.h"

#include <gtest/gtest.h>

#include <string>

namespace lambent::crypto {
namespace {

TEST(Sha256, GivesOfPiecesWhatTheWholeHas) {
  std::string whole;
  Sha256 pieces;
  for (size_t size : {0, 1, 63, 64, 65, 100'000}) {
    const std::string piece(size, static_cast<char>('a' + size % 7));
    pieces.add(piece);
    whole += piece;
    EXPECT_EQ(pieces.digest(), sha256(whole)) << "and more may come after it";
  }
}

}  // namespace
}  // namespace lambent::crypto
