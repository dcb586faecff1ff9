#include "core/http/response_head.h"

#include <http_parser.h>
#include <strings.h>

#include <ctime>
#include <span>

namespace lambent::http {
namespace {

bool is_ours(std::string_view name) {
  const auto is = [name](std::string_view other) {
    return name.size() == other.size() && strncasecmp(name.data(), other.data(), name.size()) == 0;
  };
  switch (name.size()) {
    case 4:
      return is("Date");
    case 10:
      return is("Connection");
    case 14:
      return is("Content-Length");
    case 17:
      return is("Transfer-Encoding");
    default:
      return false;
  }
}

void append_safely(std::string& out, std::string_view text) {
  const size_t start = out.size();
  out += text;
  // One comparison for nearly every character: the three are below 14.
  for (char& c : std::span(out).subspan(start)) {
    if (static_cast<unsigned char>(c) < 14 && (c == '\r' || c == '\n' || c == '\0')) c = ' ';
  }
}

}  // namespace

std::string_view reason_phrase(int status) {
  switch (status) {
#define STATUS(number, name, text) \
  case number:                     \
    return #text;
    HTTP_STATUS_MAP(STATUS)
#undef STATUS
    default:
      return "Unknown";
  }
}

bool is_bodiless(int status) { return status < 200 || status == 204 || status == 304; }

std::string encode_head(const Response& response, const HeadOptions& options,
                        std::string_view date_line) {
  std::string out;
  size_t size = 160;
  for (const auto& [name, value] : response.headers.fields()) {
    size += name.size() + value.size() + 4;
  }
  out.reserve(size);
  out += "HTTP/1.1 ";
  out += std::to_string(response.status);
  out += ' ';
  out += reason_phrase(response.status);
  out += "\r\n";
  for (const auto& [name, value] : response.headers.fields()) {
    if (is_ours(name)) continue;
    append_safely(out, name);
    out += ": ";
    append_safely(out, value);
    out += "\r\n";
  }
  out += date_line;
  if (options.framing == BodyFraming::kChunked) {
    out += "Transfer-Encoding: chunked\r\n";
  } else if (options.framing == BodyFraming::kSized && !is_bodiless(response.status)) {
    out += "Content-Length: ";
    out += std::to_string(options.body_size);
    out += "\r\n";
  }
  if (options.upgrade) {
    out += "Connection: Upgrade\r\n";
  } else if (options.close) {
    out += "Connection: close\r\n";
  } else if (options.http_1_0) {
    out += "Connection: keep-alive\r\n";
  }
  out += "\r\n";
  return out;
}

std::string_view DateLine::at(Instant now) {
  if (now >= valid_until_) {
    const Duration wall = clock_.wall_now();
    const auto second = std::chrono::floor<std::chrono::seconds>(wall);
    const time_t time = second.count();
    tm parts{};
    gmtime_r(&time, &parts);
    char text[64];
    const size_t length =
        strftime(text, sizeof text, "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &parts);
    line_.assign(text, length);
    valid_until_ = now + (second + std::chrono::seconds(1) - wall);
  }
  return line_;
}

}  // namespace lambent::http
