// What of certificates, keys and authorities is taken, and what an error says of the rest.
#include "core/tls/context.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/tls/testing/authority.h"

namespace lambent::tls {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string refusal(const Credentials& credentials,
                    ClientCertificates clients = ClientCertificates::kNotAsked) {
  const auto made = ServerContext::make(credentials, clients);
  if (made.ok()) return "taken";
  EXPECT_EQ(made.error().code, ErrorCode::kInvalidArgument);
  return made.error().message;
}

TEST(ServerContext, TellsHowLongItsCertificateIsValid) {
  Authority authority("ca");
  const Issued own = authority.issue({.valid_until = std::chrono::hours(48)});
  const auto made = ServerContext::make(credentials_of(own), ClientCertificates::kNotAsked);
  ASSERT_TRUE(made.ok()) << to_string(made.error());
  const Duration now = SystemClock().wall_now();
  EXPECT_TRUE(made->validity().contains(now));
  EXPECT_TRUE(made->validity().contains(now + std::chrono::hours(47)));
  EXPECT_FALSE(made->validity().contains(now + std::chrono::hours(49)));
  EXPECT_FALSE(made->validity().contains(now - std::chrono::hours(2)));
}

TEST(ServerContext, TakesAChainAndTheKeyInOneFile) {
  Authority authority("ca");
  Issued own = authority.issue();
  own.certificate += own.key + authority.certificate();
  EXPECT_EQ(refusal(credentials_of(own)), "taken");
}

TEST(ServerContext, NamesTheFileThatIsNoCertificateOrKey) {
  Authority authority("ca");
  const Issued own = authority.issue();
  EXPECT_THAT(refusal(credentials_of({"", own.key})), StartsWith(": there is no certificate"));
  EXPECT_THAT(refusal(credentials_of({"nonsense", own.key})),
              StartsWith("own.pem: there is no certificate in it"));
  const std::string cut = own.certificate.substr(0, own.certificate.size() / 2);
  EXPECT_THAT(refusal(credentials_of({cut, own.key})),
              StartsWith("own.pem: a certificate cannot be read"));
  EXPECT_THAT(refusal(credentials_of({own.certificate, ""})),
              StartsWith("own.key: there is no private key in it"));
  EXPECT_THAT(refusal(credentials_of({own.certificate, own.certificate})),
              StartsWith("own.key: there is no private key in it"));
  EXPECT_THAT(refusal(credentials_of({own.certificate, Authority::encrypted(own.key)})),
              HasSubstr("without a passphrase is expected"));
}

TEST(ServerContext, RefusesTheKeyOfAnotherCertificate) {
  Authority authority("ca");
  EXPECT_THAT(refusal(credentials_of({authority.issue().certificate, authority.issue().key})),
              StartsWith("own.key: this key is not that of the certificate in own.pem"));
}

TEST(ServerContext, RefusesAuthoritiesThatCannotBeRead) {
  Authority authority("ca");
  const Issued own = authority.issue();
  EXPECT_THAT(refusal(credentials_of(own, "nonsense"), ClientCertificates::kAsked),
              StartsWith("ca.pem: there is no certificate in it"));
  const std::string list = authority.revocations();
  EXPECT_EQ(
      refusal(credentials_of(own, authority.certificate() + list), ClientCertificates::kAsked),
      "taken");
  const std::string cut = authority.certificate() + list.substr(0, list.size() / 2);
  EXPECT_THAT(refusal(credentials_of(own, cut), ClientCertificates::kAsked),
              StartsWith("ca.pem: "));
}

TEST(ClientContext, RefusesHostsThatACertificateCannotName) {
  const auto client = ClientContext::make(credentials_of({}, Authority("ca").certificate()));
  ASSERT_TRUE(client.ok()) << to_string(client.error());
  EXPECT_EQ(client->encrypt(OwnedFd(), "").error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(client->encrypt(OwnedFd(), std::string("a\0b", 3)).error().code,
            ErrorCode::kInvalidArgument);
}

TEST(Certificate, ItsNamesAreReadByKindAndInOrder) {
  Authority authority("ca");
  const Issued own = authority.issue(
      {.common_name = "worker \xc3\xa4",
       .alternatives = "DNS:a.example,URI:spiffe://lambent/node/1,email:ops@example.org,"
                       "DNS:*.b.example,IP:10.0.0.1,URI:urn:x"});
  const OwnedBio bio(BIO_new_mem_buf(own.certificate.data(), -1));
  const OwnedCertificate certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  EXPECT_EQ(names_of(certificate.get()),
            (http::PeerCertificate{.common_name = "worker \xc3\xa4",
                                   .dns_names = {"a.example", "*.b.example"},
                                   .uris = {"spiffe://lambent/node/1", "urn:x"},
                                   .emails = {"ops@example.org"}}));
}

TEST(Certificate, NamesWithANulAreLeftOut) {
  Authority authority("ca");
  const Issued own = authority.issue({.common_name = std::string("root\0.evil", 10)});
  const OwnedBio bio(BIO_new_mem_buf(own.certificate.data(), -1));
  const OwnedCertificate certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  EXPECT_EQ(names_of(certificate.get()).common_name, "");
}

TEST(Certificate, DatesAreWrittenInUtc) {
  EXPECT_EQ(date_of(seconds(1'700'000'000)), "2023-11-14 22:13:20 UTC");
}

}  // namespace
}  // namespace lambent::tls
