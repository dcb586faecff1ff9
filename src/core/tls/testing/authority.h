// Authority: makes certificates for tests, at the time of the test: nothing that expires is
// committed. Included by tests of several modules, which link OpenSSL; one thread.
#pragma once

#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include "core/base/check.h"

#include <string>

#include "core/base/time.h"
#include "core/tls/credentials.h"
#include "core/tls/openssl.h"

namespace lambent::tls {

// A certificate and its key as PEM text.
struct Issued {
  std::string certificate;
  std::string key;
  long serial = 0;
};

struct IssueOptions {
  std::string common_name = "test";
  // As OpenSSL's configuration has them: "DNS:localhost,IP:127.0.0.1,URI:a:b,email:a@b".
  std::string alternatives = "DNS:localhost,IP:127.0.0.1";
  // From now.
  Duration valid_from = -std::chrono::hours(1);
  Duration valid_until = std::chrono::hours(24 * 30);
};

class Authority {
 public:
  explicit Authority(const std::string& name) {
    key_ = new_key();
    certificate_ = new_certificate({.common_name = name, .alternatives = ""}, *key_, 1);
    add_extension(*certificate_, NID_basic_constraints, "critical,CA:TRUE");
    X509_set_issuer_name(certificate_.get(), X509_get_subject_name(certificate_.get()));
    CHECK(X509_sign(certificate_.get(), key_.get(), EVP_sha256()) > 0, "OpenSSL signs");
  }

  std::string certificate() const { return pem_of(*certificate_); }

  Issued issue(const IssueOptions& options = {}) {
    const OwnedKey key = new_key();
    const long serial = ++serials_;
    const OwnedCertificate made = new_certificate(options, *key, serial);
    X509_set_issuer_name(made.get(), X509_get_subject_name(certificate_.get()));
    CHECK(X509_sign(made.get(), key_.get(), EVP_sha256()) > 0, "OpenSSL signs");
    return {pem_of(*made), pem_of(*key), serial};
  }

  // A list, valid for a day, on which this one stands; zero: none does.
  std::string revocations(long serial = 0) const {
    const OwnedRevocations list(X509_CRL_new());
    X509_CRL_set_version(list.get(), 1);
    X509_CRL_set_issuer_name(list.get(), X509_get_subject_name(certificate_.get()));
    ASN1_TIME* const time = ASN1_TIME_new();
    X509_gmtime_adj(time, -60);
    X509_CRL_set1_lastUpdate(list.get(), time);
    if (serial != 0) {
      X509_REVOKED* const revoked = X509_REVOKED_new();
      ASN1_INTEGER* const number = ASN1_INTEGER_new();
      ASN1_INTEGER_set(number, serial);
      X509_REVOKED_set_serialNumber(revoked, number);
      X509_REVOKED_set_revocationDate(revoked, time);
      X509_CRL_add0_revoked(list.get(), revoked);
      ASN1_INTEGER_free(number);
    }
    X509_gmtime_adj(time, 24 * 3600);
    X509_CRL_set1_nextUpdate(list.get(), time);
    ASN1_TIME_free(time);
    X509_CRL_sort(list.get());
    CHECK(X509_CRL_sign(list.get(), key_.get(), EVP_sha256()) > 0, "OpenSSL signs");
    const OwnedBio bio(BIO_new(BIO_s_mem()));
    PEM_write_bio_X509_CRL(bio.get(), list.get());
    return text_of(*bio);
  }

  static Issued self_signed(const IssueOptions& options = {}) {
    const OwnedKey key = new_key();
    const OwnedCertificate made = new_certificate(options, *key, 7);
    X509_set_issuer_name(made.get(), X509_get_subject_name(made.get()));
    CHECK(X509_sign(made.get(), key.get(), EVP_sha256()) > 0, "OpenSSL signs");
    return {pem_of(*made), pem_of(*key), 7};
  }

  // The same key behind a passphrase.
  static std::string encrypted(const std::string& key_pem) {
    const OwnedBio in(BIO_new_mem_buf(key_pem.data(), static_cast<int>(key_pem.size())));
    const OwnedKey key(PEM_read_bio_PrivateKey(in.get(), nullptr, nullptr, nullptr));
    const OwnedBio out(BIO_new(BIO_s_mem()));
    PEM_write_bio_PKCS8PrivateKey(out.get(), key.get(), EVP_aes_128_cbc(), "secret", 6, nullptr,
                                  nullptr);
    return text_of(*out);
  }

 private:
  static OwnedKey new_key() { return OwnedKey(EVP_EC_gen("P-256")); }

  static OwnedCertificate new_certificate(const IssueOptions& options, EVP_PKEY& key, long serial) {
    OwnedCertificate made(X509_new());
    X509_set_version(made.get(), 2);
    ASN1_INTEGER_set(X509_get_serialNumber(made.get()), serial);
    const auto whole = [](Duration from_now) {
      return std::chrono::duration_cast<seconds>(from_now).count();
    };
    X509_gmtime_adj(X509_getm_notBefore(made.get()), whole(options.valid_from));
    X509_gmtime_adj(X509_getm_notAfter(made.get()), whole(options.valid_until));
    X509_NAME_add_entry_by_txt(X509_get_subject_name(made.get()), "CN", MBSTRING_UTF8,
                               reinterpret_cast<const unsigned char*>(options.common_name.data()),
                               static_cast<int>(options.common_name.size()), -1, 0);
    X509_set_pubkey(made.get(), &key);
    if (!options.alternatives.empty()) {
      add_extension(*made, NID_subject_alt_name, options.alternatives);
    }
    return made;
  }

  static void add_extension(X509& certificate, int kind, const std::string& value) {
    X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, nullptr, kind, value.c_str());
    CHECK(extension != nullptr, value.c_str());
    X509_add_ext(&certificate, extension, -1);
    X509_EXTENSION_free(extension);
  }

  static std::string text_of(BIO& bio) {
    char* data = nullptr;
    const long size = BIO_get_mem_data(&bio, &data);
    return std::string(data, static_cast<size_t>(size));
  }
  static std::string pem_of(X509& certificate) {
    const OwnedBio bio(BIO_new(BIO_s_mem()));
    PEM_write_bio_X509(bio.get(), &certificate);
    return text_of(*bio);
  }
  static std::string pem_of(EVP_PKEY& key) {
    const OwnedBio bio(BIO_new(BIO_s_mem()));
    PEM_write_bio_PrivateKey(bio.get(), &key, nullptr, nullptr, 0, nullptr, nullptr);
    return text_of(*bio);
  }

  OwnedKey key_;
  OwnedCertificate certificate_;
  long serials_ = 100;
};

// As if they were read from files of these names.
inline Credentials credentials_of(const Issued& own, const std::string& authorities = "") {
  return {.files = {.certificate = own.certificate.empty() ? "" : "own.pem",
                    .key = own.certificate.empty() ? "" : "own.key",
                    .authorities = authorities.empty() ? "" : "ca.pem"},
          .certificate = own.certificate,
          .key = own.key,
          .authorities = authorities};
}

}  // namespace lambent::tls
