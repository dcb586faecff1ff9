// HTTP/1.1 requests and responses as values. Made by the server and the client, read by frontends.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lambent::http {

// Header fields in order; names compare without case.
class Headers {
 public:
  void add(std::string name, std::string value) {
    if (fields_.empty()) fields_.reserve(kUsual);
    fields_.emplace_back(std::move(name), std::move(value));
  }
  // More of the last field's value; there must be one.
  void append_to_last(std::string_view value) { fields_.back().second.append(value); }
  // Replaces every field of that name.
  void set(std::string_view name, std::string value);
  // The first value, or an empty string.
  std::string_view get(std::string_view name) const;
  bool contains(std::string_view name) const;
  const std::vector<std::pair<std::string, std::string>>& fields() const { return fields_; }

 private:
  static constexpr size_t kUsual = 16;  // most messages have no more fields
  std::vector<std::pair<std::string, std::string>> fields_;
};

// By what a request came to a server: plain TCP, a Unix socket, TLS over TCP.
enum class Transport { kTcp, kUnix, kTls };

// Whom a client's certificate names, after its chain was verified.
struct PeerCertificate {
  std::string common_name;  // of the subject; empty if it has none
  // Its subject alternative names, as they stand there, in order.
  std::vector<std::string> dns_names;
  std::vector<std::string> uris;
  std::vector<std::string> emails;

  bool operator==(const PeerCertificate&) const = default;
};

// Who is at the other end of a server's connection, as the kernel tells it.
struct Peer {
  Transport transport = Transport::kTcp;
  std::optional<uint32_t> user;  // of the process that connected to a Unix socket
  std::string address;           // "127.0.0.1:40312", "[::1]:40312"; empty for Unix sockets
  std::optional<PeerCertificate> certificate;
};

struct Request {
  std::string method;
  std::string target;  // as sent: path and query, still percent-encoded
  Headers headers;
  std::string body;
  Peer peer;  // the server sets it; clients ignore it
};

struct Response {
  int status = 200;
  Headers headers;  // Content-Length, Date and Connection are the server's to add
  std::string body;
  // Kept until all of the body was handed to the kernel, or its client is gone: a counter of
  // unsent bytes sees here that they went. May be empty; the server releases it on the loop thread.
  std::shared_ptr<const void> lease = nullptr;
};

// Whether two names of header fields, or other words of HTTP, are the same but for case.
bool same_name(std::string_view a, std::string_view b);
// The part of a target before '?', and the one after it.
std::string_view path_of(std::string_view target);
std::string_view query_of(std::string_view target);
// Percent-decodes; false on a malformed escape or a NUL.
bool percent_decode(std::string_view text, std::string& out);
std::string percent_encode(std::string_view text);
// The decoded value of `name` in a query string; empty if absent.
std::string query_value(std::string_view query, std::string_view name);

}  // namespace lambent::http
