#include "edge/frontend/sigv4.h"

#include <algorithm>
#include <cctype>
#include <ctime>
#include <utility>

#include "core/crypto/crypto.h"
#include "edge/frontend/plain_text.h"

namespace lambent::frontend {
namespace {

constexpr std::string_view kService = "lambda";
constexpr std::string_view kTerminator = "aws4_request";
constexpr size_t kMostSignedHeaders = 64;

Error malformed(const std::string& what) {
  return {ErrorCode::kInvalidArgument, "the Authorization header has no good " + what};
}
Error refused(std::string message) { return {ErrorCode::kUnauthenticated, std::move(message)}; }

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

bool is_unreserved(unsigned char c) {
  return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.' || c == '~';
}

// AWS's own percent-encoding: everything but unreserved characters, in upper-case digits.
std::string encode(std::string_view text, bool keep_slash) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (is_unreserved(byte) || (keep_slash && c == '/')) {
      out += c;
    } else {
      out += '%';
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    }
  }
  return out;
}

// Without "." and ".." and empty segments.
std::string normalized_path(std::string_view path) {
  std::vector<std::string_view> kept;
  for (const std::string_view segment : split(path, '/')) {
    if (segment == "..") {
      if (!kept.empty()) kept.pop_back();
    } else if (!segment.empty() && segment != ".") {
      kept.push_back(segment);
    }
  }
  std::string out;
  for (const std::string_view segment : kept) out.append("/").append(segment);
  if (out.empty() || path.ends_with('/')) out += '/';
  return out;
}

std::string canonical_query(std::string_view query) {
  if (query.empty()) return {};
  std::vector<std::pair<std::string, std::string>> parameters;
  for (const std::string_view part : split(query, '&')) {
    const size_t equals = part.find('=');
    std::string name;
    std::string value;
    const bool good =
        http::percent_decode(part.substr(0, equals), name) &&
        (equals == std::string_view::npos || http::percent_decode(part.substr(equals + 1), value));
    // What cannot be decoded was not signed by a client that encodes.
    if (good) parameters.emplace_back(encode(name, false), encode(value, false));
  }
  std::sort(parameters.begin(), parameters.end());
  std::string out;
  for (const auto& [name, value] : parameters) {
    out.append(out.empty() ? "" : "&").append(name).append("=").append(value);
  }
  return out;
}

// Trimmed, and with one blank where there are several.
void append_canonical_value(std::string& out, std::string_view value) {
  bool blank = false;
  for (const char c : trimmed(value)) {
    const bool is_blank = c == ' ';
    if (!(is_blank && blank)) out += c;
    blank = is_blank;
  }
}

void append_canonical_header(std::string& out, const http::Request& request,
                             std::string_view name) {
  out.append(name).append(":");
  bool first = true;
  for (const auto& [field, value] : request.headers.fields()) {
    if (!http::same_name(field, name)) continue;
    if (!std::exchange(first, false)) out += ',';
    append_canonical_value(out, value);
  }
  out += '\n';
}

bool is_signed(const SigV4& signature, std::string_view name) {
  return std::find(signature.signed_headers.begin(), signature.signed_headers.end(), name) !=
         signature.signed_headers.end();
}

// Of X-Amz-Date: 20150830T123600Z.
std::optional<Duration> parse_date(std::string_view text) {
  constexpr std::string_view kShape = "ddddddddTddddddZ";
  if (text.size() != kShape.size()) return std::nullopt;
  for (size_t i = 0; i < kShape.size(); ++i) {
    const bool digit = std::isdigit(static_cast<unsigned char>(text[i])) != 0;
    if (kShape[i] == 'd' ? !digit : text[i] != kShape[i]) return std::nullopt;
  }
  const auto number = [&](size_t at, size_t digits) {
    int value = 0;
    for (size_t i = at; i < at + digits; ++i) value = 10 * value + (text[i] - '0');
    return value;
  };
  std::tm date{};
  date.tm_year = number(0, 4) - 1900;
  date.tm_mon = number(4, 2) - 1;
  date.tm_mday = number(6, 2);
  date.tm_hour = number(9, 2);
  date.tm_min = number(11, 2);
  date.tm_sec = number(13, 2);
  return seconds(::timegm(&date));
}

std::string expected_signature(std::string_view secret, const SigV4& signature,
                               std::string_view date, const std::string& canonical) {
  const std::string scope = std::string(signature.date) + "/" + std::string(signature.region) +
                            "/" + std::string(signature.service) + "/" + std::string(kTerminator);
  const std::string text = std::string(kSigV4Scheme) + "\n" + std::string(date) + "\n" + scope +
                           "\n" + crypto::to_hex(crypto::sha256(canonical));
  crypto::Digest key = crypto::hmac_sha256("AWS4" + std::string(secret), signature.date);
  for (const std::string_view part : {signature.region, signature.service, kTerminator}) {
    key = crypto::hmac_sha256(crypto::bytes_of(key), part);
  }
  return crypto::to_hex(crypto::hmac_sha256(crypto::bytes_of(key), text));
}

// What has to be covered, or it could be changed on the way.
Result<void> check_covered(const http::Request& request, const SigV4& signature) {
  for (const std::string_view name : {"host", "x-amz-date"}) {
    if (!is_signed(signature, name)) {
      return refused("the signature does not cover the header " + std::string(name));
    }
  }
  for (const auto& [field, value] : request.headers.fields()) {
    std::string name(field);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const bool decides = name.starts_with("x-amz-") || name.starts_with("x-lambent-");
    if (decides && !is_signed(signature, name)) {
      return refused("the signature does not cover the header " + name);
    }
  }
  return {};
}

Result<void> check_date(std::string_view date, const SigV4& signature, Duration now) {
  const auto signed_at = parse_date(date);
  if (!signed_at) return refused("the request has no good X-Amz-Date");
  if (date.substr(0, 8) != signature.date) {
    return refused("X-Amz-Date is of another day than the credential's scope");
  }
  if (*signed_at + kSigV4Skew < now || now + kSigV4Skew < *signed_at) {
    return refused(
        "the signature's date, " + std::string(date) +
        ", is more than 5 minutes from the worker's clock: set the clock, or sign again");
  }
  return {};
}

}  // namespace

Result<std::optional<SigV4>> parse_sigv4(std::string_view authorization) {
  if (!authorization.starts_with(kSigV4Scheme)) return std::optional<SigV4>();
  authorization.remove_prefix(kSigV4Scheme.size());
  if (!authorization.empty() && authorization.front() != ' ') return std::optional<SigV4>();
  SigV4 signature;
  for (const std::string_view part : split(authorization, ',')) {
    const std::string_view field = trimmed(part);
    const size_t equals = std::min(field.find('='), field.size());
    const std::string_view name = field.substr(0, equals);
    const std::string_view value = field.substr(std::min(equals + 1, field.size()));
    if (name == "Credential") {
      const auto parts = split(value, '/');
      if (parts.size() != 5 || parts[4] != kTerminator) return malformed("Credential");
      signature.access_key_id = parts[0];
      signature.date = parts[1];
      signature.region = parts[2];
      signature.service = parts[3];
    } else if (name == "SignedHeaders") {
      signature.signed_headers = split(value, ';');
    } else if (name == "Signature") {
      signature.signature = value;
    }
  }
  if (signature.access_key_id.empty()) return malformed("Credential");
  if (signature.signed_headers.empty() || signature.signed_headers.size() > kMostSignedHeaders) {
    return malformed("SignedHeaders");
  }
  if (signature.signature.size() != 64) return malformed("Signature");
  return std::optional<SigV4>(std::move(signature));
}

std::string canonical_request(const http::Request& request, const SigV4& signature,
                              std::string_view body_digest) {
  std::string out = request.method + "\n";
  out += encode(normalized_path(http::path_of(request.target)), true) + "\n";
  out += canonical_query(http::query_of(request.target)) + "\n";
  std::string names;
  for (const std::string_view name : signature.signed_headers) {
    append_canonical_header(out, request, name);
    names.append(names.empty() ? "" : ";").append(name);
  }
  return out + "\n" + names + "\n" + std::string(body_digest);
}

Result<void> verify_sigv4(const http::Request& request, const SigV4& signature,
                          std::string_view secret, std::string_view body_digest, Duration now) {
  if (signature.service != kService) {
    return refused("the request is signed for the service '" +
                   std::string(signature.service.substr(0, 32)) + "', not for lambda");
  }
  RETURN_IF_ERROR(check_covered(request, signature));
  const std::string_view date = request.headers.get("x-amz-date");
  RETURN_IF_ERROR(check_date(date, signature, now));
  if (request.headers.contains("x-amz-content-sha256") &&
      request.headers.get("x-amz-content-sha256") != body_digest) {
    return refused("X-Amz-Content-Sha256 is not the digest of the body");
  }
  const std::string expected = expected_signature(
      secret, signature, date, canonical_request(request, signature, body_digest));
  if (!crypto::equal_in_constant_time(expected, signature.signature)) {
    return refused(
        "the signature does not match: is it the right secret access key, and was the request "
        "changed on its way?");
  }
  return {};
}

}  // namespace lambent::frontend
