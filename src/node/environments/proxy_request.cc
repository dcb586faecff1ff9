#include "node/environments/proxy_request.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>

namespace lambent::environments {
namespace {

constexpr uint16_t kHttpPort = 80;
constexpr uint16_t kHttpsPort = 443;
constexpr size_t kMostHost = 253;

Error bad_request(const char* why) { return {ErrorCode::kInvalidArgument, why}; }

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

struct Authority {
  std::string host;
  uint16_t port = 0;
};

bool is_host(std::string_view host, bool in_brackets) {
  if (host.empty() || host.size() > kMostHost) return false;
  return std::ranges::all_of(host, [in_brackets](const char c) {
    const bool word = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.';
    return word || (in_brackets ? c == ':' : c == '-' || c == '_');
  });
}

// "host", "host:80", "[::1]:80"; `port` if it names none, and none if it has to.
std::optional<Authority> authority_of(std::string_view text, uint16_t port) {
  Authority authority{.host = {}, .port = port};
  const bool in_brackets = text.starts_with('[');
  const size_t end = in_brackets ? text.find(']') : text.find(':');
  if (in_brackets && end == std::string_view::npos) return std::nullopt;
  const std::string_view host = in_brackets ? text.substr(1, end - 1) : text.substr(0, end);
  if (!is_host(host, in_brackets)) return std::nullopt;
  authority.host = lower(host);
  std::string_view rest;
  if (end != std::string_view::npos) rest = text.substr(in_brackets ? end + 1 : end);
  if (!rest.empty()) {
    if (!rest.starts_with(':')) return std::nullopt;
    rest.remove_prefix(1);
    const auto [last, error] =
        std::from_chars(rest.data(), rest.data() + rest.size(), authority.port);
    if (error != std::errc() || last != rest.data() + rest.size()) return std::nullopt;
  }
  if (authority.port == 0) return std::nullopt;
  return authority;
}

std::string place_of(const std::string& host, uint16_t port) {
  const bool six = host.find(':') != std::string::npos;
  return (six ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

bool is_token(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](const char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_';
  });
}

// What is between the client and the proxy, or said again to the server.
bool is_of_the_connection(const std::string& name) {
  return name == "host" || name == "connection" || name == "keep-alive" || name == "upgrade" ||
         name == "te" || name == "trailer" || name == "expect" || name.starts_with("proxy-");
}

bool is_printable(std::string_view text) {
  return std::ranges::all_of(
      text, [](const char c) { return static_cast<unsigned char>(c) >= ' ' && c != '\x7f'; });
}

// The fields that go on to the server.
Result<std::string> fields_for_server(std::string_view lines) {
  std::string fields;
  while (!lines.empty()) {
    const size_t end = lines.find("\r\n");
    if (end == std::string_view::npos) return bad_request("a line without its end");
    const std::string_view line = lines.substr(0, end);
    lines.remove_prefix(end + 2);
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || !is_token(line.substr(0, colon)) ||
        !is_printable(line)) {
      return bad_request("no header field");
    }
    const std::string name = lower(line.substr(0, colon));
    if (name == "content-length" || name == "transfer-encoding") {
      return bad_request("a request with a body");
    }
    if (!is_of_the_connection(name)) fields += std::string(line) + "\r\n";
  }
  return fields;
}

}  // namespace

std::string ProxyRequest::place() const { return place_of(host, port); }

Result<ProxyRequest> parse_proxy_request(std::string_view head) {
  if (head.size() > kMostProxyHead || !head.ends_with("\r\n\r\n")) return bad_request("no head");
  head.remove_suffix(2);
  const size_t end = head.find("\r\n");
  const std::string_view line = head.substr(0, end);
  const size_t first = line.find(' ');
  const size_t second = line.find(' ', first + 1);
  if (first == std::string_view::npos || second == std::string_view::npos || !is_printable(line)) {
    return bad_request("no request line");
  }
  const std::string_view method = line.substr(0, first);
  std::string_view target = line.substr(first + 1, second - first - 1);
  if (!line.substr(second + 1).starts_with("HTTP/1.")) return bad_request("no HTTP/1.1");
  ASSIGN_OR_RETURN(std::string fields, fields_for_server(head.substr(end + 2)));
  ProxyRequest request;
  request.tunnel = method == "CONNECT";
  std::string path;
  if (!request.tunnel) {
    if (method != "GET" && method != "HEAD") return bad_request("neither GET, HEAD nor CONNECT");
    if (!target.starts_with("http://")) return bad_request("no http URL");
    target.remove_prefix(7);
    const size_t begin = std::min(target.find_first_of("/?"), target.size());
    path = std::string(target.substr(begin));
    if (!path.starts_with('/')) path = "/" + path;
    target = target.substr(0, begin);
  }
  const auto authority = authority_of(target, request.tunnel ? 0 : kHttpPort);
  if (!authority) return bad_request("no host and port");
  request.host = authority->host;
  request.port = authority->port;
  if (request.tunnel) return request;
  request.head = std::string(method) + " " + path + " HTTP/1.1\r\nHost: " + std::string(target) +
                 "\r\n" + fields + "Connection: close\r\n\r\n";
  return request;
}

Result<std::string> place_of_url(std::string_view url) {
  const bool encrypted = url.starts_with("https://");
  if (!encrypted && !url.starts_with("http://")) return bad_request("no URL of http or https");
  url.remove_prefix(encrypted ? 8 : 7);
  url = url.substr(0, url.find_first_of("/?#"));
  if (const size_t sign = url.rfind('@'); sign != std::string_view::npos) {
    url.remove_prefix(sign + 1);
  }
  const auto authority = authority_of(url, encrypted ? kHttpsPort : kHttpPort);
  if (!authority) return bad_request("a URL without a host");
  return place_of(authority->host, authority->port);
}

Result<std::vector<std::string>> index_places(const std::string& index,
                                              const std::vector<std::string>& further) {
  constexpr char kPyPi[] = "pypi.org:443";
  constexpr char kFilesOfPyPi[] = "files.pythonhosted.org:443";
  std::vector<std::string> places = {kPyPi};
  if (!index.empty()) {
    ASSIGN_OR_RETURN(places.front(), place_of_url(index));
  }
  if (places.front() == kPyPi) places.emplace_back(kFilesOfPyPi);
  for (const std::string& url : further) {
    ASSIGN_OR_RETURN(std::string place, place_of_url(url));
    places.push_back(std::move(place));
  }
  return places;
}

}  // namespace lambent::environments
