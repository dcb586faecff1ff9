#include "bin/shared_access_copy.h"

#include <gtest/gtest.h>

namespace lambent {
namespace {

catalog::SharedAccess some_access() {
  catalog::SharedToken token{
      .tenant = "team", .token = {}, .secret_sha256 = std::string(32, '\xfe')};
  token.token.id = "LAMB1";
  token.token.name = "laptop é";
  token.token.scopes = {Scope::kInvoke};
  token.token.created_at = seconds(5);
  catalog::SharedToken certificate = token;
  certificate.token.id = "LAMB2";
  certificate.token.certificate = "dns:gpu2.example";
  certificate.token.expires_at = seconds(60);
  return {.version = 0,
          .tokens = {token, certificate},
          .secrets = {{"team", "key", std::string("\0\xff", 2), seconds(6)}}};
}

TEST(SharedAccessCopy, IsReadAsItWasWritten) {
  const catalog::SharedAccess written = some_access();
  const catalog::SharedAccess read = read_shared_access_text(text_of_shared_access(written));
  EXPECT_EQ(read.tokens, written.tokens);
  EXPECT_EQ(read.secrets, written.secrets);
}

TEST(SharedAccessCopy, OfWhatIsDamagedGivesNothingThatIsNotWhole) {
  const std::string text = text_of_shared_access(some_access());
  for (size_t length = 0; length < text.size(); ++length) {
    const auto read = read_shared_access_text(std::string_view(text).substr(0, length));
    EXPECT_TRUE(read.tokens.empty() && read.secrets.empty()) << length;
  }
  // An end that cannot be read does not make a token one that lives for ever.
  std::string endless = text;
  endless.replace(endless.find("60000000000"), 11, "\"a minute\"");
  EXPECT_EQ(read_shared_access_text(endless).tokens.size(), 1U);
  std::string short_digest = text;
  short_digest.replace(short_digest.find("secret_sha256\":\"") + 16, 4, "");
  EXPECT_EQ(read_shared_access_text(short_digest).tokens.size(), 1U);
}

}  // namespace
}  // namespace lambent
