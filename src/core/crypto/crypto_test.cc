#include "core/crypto/crypto.h"

#include <gtest/gtest.h>

namespace lambent::crypto {
namespace {

const std::string kKey(kKeySize, 'k');

// Vectors of FIPS 180-4 and RFC 4231, test case 2.
TEST(CryptoTest, DigestsAreThoseOfTheStandards) {
  EXPECT_EQ(to_hex(sha256("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(to_hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(to_hex(hmac_sha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST(CryptoTest, EqualityNeedsTheSameBytesAndSize) {
  EXPECT_TRUE(equal_in_constant_time("", ""));
  EXPECT_TRUE(equal_in_constant_time("abc", "abc"));
  EXPECT_FALSE(equal_in_constant_time("abc", "abd"));
  EXPECT_FALSE(equal_in_constant_time("abc", "ab"));
}

TEST(CryptoTest, RandomBytesDiffer) {
  EXPECT_EQ(random_bytes(33).size(), 33U);
  EXPECT_NE(random_bytes(32), random_bytes(32));
}

TEST(CryptoTest, SealedBytesOpenWithTheirKeyAndContextOnly) {
  for (const std::string& text : {std::string(), std::string("secret"), std::string(70'000, 'x')}) {
    const std::string sealed = seal(kKey, text, "tenant 1");
    EXPECT_EQ(open(kKey, sealed, "tenant 1").value(), text);
    EXPECT_EQ(open(std::string(kKeySize, 'o'), sealed, "tenant 1").error().code,
              ErrorCode::kDataLoss);
    EXPECT_EQ(open(kKey, sealed, "tenant 2").error().code, ErrorCode::kDataLoss);
  }
}

TEST(CryptoTest, EveryChangedByteOfSealedBytesIsNoticed) {
  const std::string sealed = seal(kKey, "secret", "");
  EXPECT_EQ(sealed.find("secret"), std::string::npos);
  for (size_t i = 0; i < sealed.size(); ++i) {
    std::string changed = sealed;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_FALSE(open(kKey, changed, "").ok()) << i;
    EXPECT_FALSE(open(kKey, sealed.substr(0, i), "").ok()) << i;
  }
}

TEST(CryptoTest, TheSameTextIsSealedDifferentlyEachTime) {
  EXPECT_NE(seal(kKey, "secret", ""), seal(kKey, "secret", ""));
}

}  // namespace
}  // namespace lambent::crypto
