#include "core/tls/certificate.h"

#include <openssl/asn1.h>
#include <openssl/x509v3.h>
#include <time.h>

#include <string_view>

namespace lambent::tls {
namespace {

Duration instant_of(const ASN1_TIME* time) {
  tm fields{};
  if (ASN1_TIME_to_tm(time, &fields) != 1) return {};
  return seconds(timegm(&fields));
}

std::string text_of(const ASN1_STRING* string) {
  unsigned char* utf8 = nullptr;
  const int size = ASN1_STRING_to_UTF8(&utf8, string);
  if (size < 0) return {};
  const std::string text(reinterpret_cast<const char*>(utf8), static_cast<size_t>(size));
  OPENSSL_free(utf8);
  return text.find('\0') == std::string::npos ? text : std::string();
}

std::string common_name_of(X509* certificate) {
  X509_NAME* subject = X509_get_subject_name(certificate);
  // The last one is the most specific.
  int at = -1;
  for (int next = -1; (next = X509_NAME_get_index_by_NID(subject, NID_commonName, next)) >= 0;) {
    at = next;
  }
  if (at < 0) return {};
  return text_of(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
}

}  // namespace

Validity validity_of(const X509* certificate) {
  return {.not_before = instant_of(X509_get0_notBefore(certificate)),
          .not_after = instant_of(X509_get0_notAfter(certificate))};
}

http::PeerCertificate names_of(X509* certificate) {
  http::PeerCertificate names;
  names.common_name = common_name_of(certificate);
  auto* alternatives = static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(alternatives); ++i) {
    const GENERAL_NAME* each = sk_GENERAL_NAME_value(alternatives, i);
    std::vector<std::string>* list = each->type == GEN_DNS     ? &names.dns_names
                                     : each->type == GEN_URI   ? &names.uris
                                     : each->type == GEN_EMAIL ? &names.emails
                                                               : nullptr;
    if (list == nullptr) continue;
    // All three are of one type, IA5String.
    if (std::string text = text_of(each->d.ia5); !text.empty()) list->push_back(std::move(text));
  }
  GENERAL_NAMES_free(alternatives);
  return names;
}

std::string date_of(Duration wall) {
  const time_t whole = std::chrono::duration_cast<seconds>(wall).count();
  tm fields{};
  gmtime_r(&whole, &fields);
  char text[40];
  const size_t size = strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &fields);
  return std::string(text, size);
}

}  // namespace lambent::tls
