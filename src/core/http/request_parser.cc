#include "core/http/request_parser.h"

#include <http_parser.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core/http/hop_by_hop.h"

namespace lambent::http {
namespace {

constexpr char kTlsHandshake = 0x16;

// The C parser is lenient about line ends and folded lines, where two readers of the same bytes may
// disagree about what the headers are. We take CR LF only, and no folding, and no NUL.
constexpr size_t kLongestMethod = 32;

std::string_view what_is_wrong_with_lines(std::string_view head) {
  size_t start = 0;
  while (start < head.size()) {
    const auto* end =
        static_cast<const char*>(memchr(head.data() + start, '\n', head.size() - start));
    if (end == nullptr) return "the head does not end with an empty line";
    const size_t length = static_cast<size_t>(end - head.data()) - start;
    const std::string_view line = head.substr(start, length);
    if (line.empty() || line.back() != '\r') return "lines of the head must end with CR LF";
    const std::string_view text = line.substr(0, length - 1);
    if (text.find('\r') != std::string_view::npos) return "CR without LF in the head";
    if (text.find('\0') != std::string_view::npos) return "NUL in the head";
    if (!text.empty() && (text.front() == ' ' || text.front() == '\t')) {
      return "folded header lines are not accepted";
    }
    start += length + 1;
  }
  return {};
}

// Whether the first line begins as a request does, whatever its method is.
bool has_method(std::string_view head) {
  const size_t length = std::min(head.find(' '), head.size());
  return length > 0 && length <= kLongestMethod && head.substr(length).starts_with(" /") &&
         std::ranges::all_of(head.substr(0, length), [](char c) { return c >= 'A' && c <= 'Z'; });
}

// Whether there is an LF without a CR before it, from there on.
bool has_bare_line_end(std::string_view head, size_t from) {
  for (size_t at = head.find('\n', from); at != std::string_view::npos;
       at = head.find('\n', at + 1)) {
    if (at == 0 || head[at - 1] != '\r') return true;
  }
  return false;
}

// Clients send `GET http://host/path` to proxies, and every server has to take it (RFC
// 9112, 3.2.2). Who is meant by the host does not matter here.
void take_off_authority(std::string& target) {
  const size_t scheme = target.find("://");
  if (target.starts_with('/') || scheme == std::string::npos) return;
  if (!same_name(std::string_view(target).substr(0, scheme), "http")) return;
  const size_t path = target.find_first_of("/?#", scheme + 3);
  target.erase(0, std::min(path, target.size()));
  if (!target.starts_with('/')) target.insert(0, "/");
}

// The C parser as Debian builds it lets spaces into names ("Content-Length : 5").
bool is_token(std::string_view name) {
  static constexpr auto kTable = [] {
    std::array<bool, 256> table{};
    for (const char c : std::string_view("!#$%&'*+-.^_`|~")) table[static_cast<size_t>(c)] = true;
    for (size_t c = '0'; c <= '9'; c++) table[c] = true;
    for (size_t c = 'a'; c <= 'z'; c++) table[c] = true;
    for (size_t c = 'A'; c <= 'Z'; c++) table[c] = true;
    return table;
  }();
  return !name.empty() && std::all_of(name.begin(), name.end(),
                                      [](char c) { return kTable[static_cast<unsigned char>(c)]; });
}

// What the headers of a request contain about its connection and its body.
struct Framing {
  bool has_wrong_name = false;  // of any header; the rest is not read then
  size_t hosts = 0;
  size_t lengths = 0;
  size_t encodings = 0;
  bool close = false;
  bool stay = false;
  std::string_view encoding;
  std::string_view expect;
  std::string_view length;
};

Framing framing_of(const Headers& headers) {
  Framing framing;
  for (const auto& [name, value] : headers.fields()) {
    framing.has_wrong_name = !is_token(name);
    if (framing.has_wrong_name) break;
    switch (name.size()) {
      case 4:
        if (same_name(name, "Host")) framing.hosts++;
        break;
      case 6:
        if (same_name(name, "Expect")) framing.expect = value;
        break;
      case 10:
        if (same_name(name, "Connection")) {
          framing.close = framing.close || list_contains(value, "close");
          framing.stay = framing.stay || list_contains(value, "keep-alive");
        }
        break;
      case 14:
        if (same_name(name, "Content-Length")) {
          framing.lengths++;
          framing.length = value;
        }
        break;
      case 17:
        if (same_name(name, "Transfer-Encoding")) {
          framing.encodings++;
          framing.encoding = value;
        }
        break;
      default:
        break;
    }
  }
  return framing;
}

// Where two readers might disagree about where the request ends, or which host it is for. Empty if
// nothing is wrong.
std::string_view what_is_wrong_with(const Framing& framing, bool http_1_0) {
  if (framing.hosts > 1) return "more than one Host header";
  if (framing.hosts == 0 && !http_1_0) return "the Host header is missing";
  if (framing.lengths > 1) return "more than one Content-Length header";
  if (framing.lengths + framing.encodings > 1) {
    return "Content-Length and Transfer-Encoding exclude each other";
  }
  if (framing.encodings == 1 && (http_1_0 || !same_name(framing.encoding, "chunked"))) {
    return "the only Transfer-Encoding accepted is chunked, in HTTP/1.1";
  }
  // The C parser skips white space inside a number; no honest client sends any.
  const std::string_view length = framing.length;
  if (framing.lengths == 1 && (length.empty() || length.size() > 18 ||
                               length.find_first_not_of("0123456789") != std::string_view::npos)) {
    return "Content-Length is not a number";
  }
  return {};
}

}  // namespace

struct RequestParser::CParser {
  http_parser state;
  http_parser_settings settings;
};

struct RequestParser::Callbacks {
  static RequestParser& self(http_parser* parser) {
    return *static_cast<RequestParser*>(parser->data);
  }
  static int on_url(http_parser* parser, const char* at, size_t length) {
    self(parser).request_.target.append(at, length);
    return 0;
  }
  // A whole head is parsed in one go, so fields and values come whole.
  static int on_field(http_parser* parser, const char* at, size_t length) {
    self(parser).request_.headers.add(std::string(at, length), {});
    return 0;
  }
  static int on_value(http_parser* parser, const char* at, size_t length) {
    while (length > 0 && (at[length - 1] == ' ' || at[length - 1] == '\t')) length--;
    self(parser).request_.headers.append_to_last(std::string_view(at, length));
    return 0;
  }
  static int on_head(http_parser* parser) {
    self(parser).head_parsed_ = true;
    parser->upgrade = 0;  // we offer no other protocol; the request stands as it is
    return 1;             // bodies are read by us
  }
};

RequestParser::RequestParser(Limits limits)
    : limits_(limits), c_parser_(std::make_unique<CParser>()) {
  // A process-wide setting of the C library, the same each time; our own limits are below it.
  http_parser_set_max_header_size(1u << 30);
  http_parser_settings& settings = c_parser_->settings;
  http_parser_settings_init(&settings);
  settings.on_url = Callbacks::on_url;
  settings.on_header_field = Callbacks::on_field;
  settings.on_header_value = Callbacks::on_value;
  settings.on_headers_complete = Callbacks::on_head;
}

RequestParser::~RequestParser() = default;

RequestParser::Status RequestParser::feed(std::string_view& data) {
  if (status_ == Status::kIdle || status_ == Status::kHead) {
    feed_head(data);
    // Who takes the body in pieces takes the head before.
    if (streams_) return status_;
  }
  if (status_ == Status::kBody) {
    if (chunked_) {
      feed_chunked_body(data);
    } else {
      feed_sized_body(data);
    }
  }
  return status_;
}

Headers RequestParser::trailers() const {
  Headers trailers;
  if (!chunked_ || status_ != Status::kComplete) return trailers;
  std::string_view lines = chunks_.trailers();
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(line.size() + 1);
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || !is_token(line.substr(0, colon))) continue;
    std::string_view value = line.substr(colon + 1);
    while (value.starts_with(' ') || value.starts_with('\t')) value.remove_prefix(1);
    while (value.ends_with(' ') || value.ends_with('\t')) value.remove_suffix(1);
    trailers.add(std::string(line.substr(0, colon)), std::string(value));
  }
  return trailers;
}

bool RequestParser::take_expects_continue() { return std::exchange(expects_continue_, false); }

void RequestParser::next() {
  status_ = Status::kIdle;
  streams_ = false;
  request_ = {};
  partial_head_.clear();
}

void RequestParser::feed_head(std::string_view& data) {
  // Empty lines before a request line are to be ignored (RFC 9112, 2.2), even if cut in two.
  if (partial_head_ == "\r" && data.starts_with('\n')) {
    data.remove_prefix(1);
    partial_head_.clear();
    status_ = Status::kIdle;
  }
  if (partial_head_.empty()) {
    while (data.starts_with("\r\n")) data.remove_prefix(2);
    if (data.empty()) return;
    // A client that speaks TLS would wait for an answer for as long as we wait for a head.
    if (data.front() == kTlsHandshake) return fail(400, "only plain HTTP is spoken here, no TLS");
    const size_t end = data.find("\r\n\r\n");
    if (end != std::string_view::npos && end + 4 <= limits_.max_headers) {
      const std::string_view head = data.substr(0, end + 4);
      data.remove_prefix(head.size());
      parse_head(head);
      return;
    }
  }
  status_ = Status::kHead;
  const size_t known = partial_head_.size();
  const size_t room = limits_.max_headers > known ? limits_.max_headers - known : 0;
  const std::string_view taken = data.substr(0, room);
  partial_head_ += taken;
  const size_t end = partial_head_.find("\r\n\r\n", known < 3 ? 0 : known - 3);
  if (end == std::string::npos) {
    data.remove_prefix(taken.size());
    // So would one that ends its lines only with LF, be it one of them.
    if (has_bare_line_end(partial_head_, known)) {
      fail(400, "lines of the head must end with CR LF");
    } else if (partial_head_.size() >= limits_.max_headers) {
      fail(431, "the request headers are larger than is allowed here");
    }
    return;
  }
  data.remove_prefix(end + 4 - known);
  partial_head_.resize(end + 4);
  parse_head(partial_head_);
  partial_head_.clear();
}

void RequestParser::parse_head(std::string_view head) {
  http_parser& parser = c_parser_->state;
  http_parser_init(&parser, HTTP_REQUEST);
  parser.data = this;
  head_parsed_ = false;
  if (const std::string_view wrong = what_is_wrong_with_lines(head); !wrong.empty()) {
    fail(400, wrong);
    return;
  }
  status_ = Status::kBody;
  const size_t parsed =
      http_parser_execute(&parser, &c_parser_->settings, head.data(), head.size());
  const auto error = HTTP_PARSER_ERRNO(&parser);
  if (error == HPE_INVALID_METHOD && has_method(head)) {
    return fail(501, "this method is not known here");  // RFC 9110, 9.1
  }
  if (error != HPE_OK || parsed != head.size() || !head_parsed_) {
    fail(400, error == HPE_OK ? "malformed request" : http_errno_description(error));
    return;
  }
  check_head();
}

void RequestParser::check_head() {
  const http_parser& parser = c_parser_->state;
  if (parser.http_major != 1 || parser.http_minor > 1) {
    return fail(400, "only HTTP/1.1 and HTTP/1.0 are spoken here");
  }
  const auto method = static_cast<http_method>(parser.method);
  if (method == HTTP_CONNECT) return fail(400, "CONNECT is not offered");
  request_.method = http_method_str(method);
  http_1_0_ = parser.http_minor == 0;
  take_off_authority(request_.target);

  const Framing framing = framing_of(request_.headers);
  if (framing.has_wrong_name) {
    return fail(400, "a header name with characters that may not be in one");
  }
  keep_alive_ = !framing.close && (!http_1_0_ || framing.stay);
  if (const std::string_view wrong = what_is_wrong_with(framing, http_1_0_); !wrong.empty()) {
    return fail(400, wrong);
  }
  chunked_ = framing.encodings == 1;
  streams_ = limits_.streams != nullptr && *limits_.streams && (*limits_.streams)(request_);
  const size_t max_body = streams_ ? SIZE_MAX : limits_.max_body;
  if (chunked_) chunks_ = ChunkedDecoder(max_body, limits_.max_headers);
  body_left_ = 0;
  for (const char digit : framing.length) {
    body_left_ = body_left_ * 10 + static_cast<size_t>(digit - '0');
  }
  if (body_left_ > max_body) {
    return fail(413, "the request body is larger than is allowed here");
  }
  const bool has_body = chunked_ || body_left_ > 0;
  expects_continue_ = has_body && !http_1_0_ && same_name(framing.expect, "100-continue");
  if (!has_body) {
    status_ = Status::kComplete;
    return;
  }
  status_ = Status::kBody;
  // Pages of the buffer that are never written to cost nothing, however much was announced.
  if (!streams_) request_.body.reserve(body_left_);
}

void RequestParser::feed_sized_body(std::string_view& data) {
  const std::string_view taken = data.substr(0, body_left_);
  request_.body += taken;
  data.remove_prefix(taken.size());
  body_left_ -= taken.size();
  if (body_left_ == 0) status_ = Status::kComplete;
}

void RequestParser::feed_chunked_body(std::string_view& data) {
  switch (chunks_.feed(data, request_.body)) {
    case ChunkedDecoder::Status::kMore:
      break;
    case ChunkedDecoder::Status::kDone:
      status_ = Status::kComplete;
      break;
    case ChunkedDecoder::Status::kMalformed:
      fail(400, "malformed chunks, or too long extensions or trailers");
      break;
    case ChunkedDecoder::Status::kTooLarge:
      fail(413, "the request body is larger than is allowed here");
      break;
  }
}

void RequestParser::fail(int status, std::string_view reason) {
  status_ = Status::kFailed;
  failure_ = {status, reason};
}

}  // namespace lambent::http
