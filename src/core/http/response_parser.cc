#include "core/http/response_parser.h"

#include <http_parser.h>

#include <cstdint>

#include "core/http/response_head.h"

namespace lambent::http {
namespace {

constexpr size_t kMostTrailers = 64 * 1024;

Error malformed(std::string_view what) {
  return {ErrorCode::kInternal, "the server's answer is not HTTP: " + std::string(what)};
}

Error too_large(size_t most) {
  return malformed("its headers have more than " + std::to_string(most) + " bytes");
}

}  // namespace

struct ResponseParser::Callbacks {
  static Response& response(http_parser* parser) { return *static_cast<Response*>(parser->data); }
  static int on_field(http_parser* parser, const char* at, size_t length) {
    response(parser).headers.add(std::string(at, length), {});
    return 0;
  }
  static int on_value(http_parser* parser, const char* at, size_t length) {
    while (length > 0 && (at[length - 1] == ' ' || at[length - 1] == '\t')) length--;
    response(parser).headers.append_to_last(std::string_view(at, length));
    return 0;
  }
  static int on_head(http_parser*) { return 1; }  // the body is read by us
};

Result<bool> ResponseParser::feed(std::string_view& data) {
  while (!head_done_) {
    if (data.empty()) return false;
    const size_t known = partial_head_.size();
    partial_head_ += data.substr(0, options_.max_head);
    const size_t end = partial_head_.find("\r\n\r\n", known < 3 ? 0 : known - 3);
    // Nothing more would come of one that ends its lines only with LF. One whose end has come is
    // refused too, so that it does not matter in which pieces a head comes.
    if (partial_head_.find("\n\n", known < 1 ? 0 : known - 1) < end) {
      return malformed("lines of its head must end with CR LF");
    }
    if (end == std::string::npos) {
      data.remove_prefix(partial_head_.size() - known);
      if (partial_head_.size() >= options_.max_head) return too_large(options_.max_head);
      return false;
    }
    if (end + 4 > options_.max_head) return too_large(options_.max_head);
    data.remove_prefix(end + 4 - known);
    partial_head_.resize(end + 4);
    RETURN_IF_ERROR(parse_head(partial_head_));
    partial_head_.clear();
    if (response_.status == 101) {
      if (!options_.upgrades) return malformed("it changes to another protocol unasked");
      head_done_ = true;
      return true;
    }
    if (response_.status >= 100 && response_.status < 200) {
      response_ = {};  // 100 Continue and the like: the answer is still to come
    } else {
      head_done_ = true;
    }
  }
  if (framing_ == Framing::kChunked) {
    const ChunkedDecoder::Status status = chunks_.feed(data, response_.body);
    if (status == ChunkedDecoder::Status::kDone) return true;
    if (status != ChunkedDecoder::Status::kMore) return malformed("bad chunk");
    return false;
  }
  const std::string_view taken = framing_ == Framing::kToClose ? data : data.substr(0, body_left_);
  response_.body += taken;
  data.remove_prefix(taken.size());
  body_left_ -= framing_ == Framing::kSized ? taken.size() : 0;
  return framing_ == Framing::kSized && body_left_ == 0;
}

Result<void> ResponseParser::parse_head(std::string_view head) {
  http_parser parser;
  http_parser_settings settings;
  http_parser_set_max_header_size(1u << 30);
  http_parser_init(&parser, HTTP_RESPONSE);
  http_parser_settings_init(&settings);
  parser.data = &response_;
  settings.on_header_field = Callbacks::on_field;
  settings.on_header_value = Callbacks::on_value;
  settings.on_headers_complete = Callbacks::on_head;
  const size_t parsed = http_parser_execute(&parser, &settings, head.data(), head.size());
  if (HTTP_PARSER_ERRNO(&parser) != HPE_OK) {
    return malformed(http_errno_description(HTTP_PARSER_ERRNO(&parser)));
  }
  if (parsed != head.size()) return malformed("it ends early");
  response_.status = static_cast<int>(parser.status_code);
  if (response_.status < 100) return malformed("its status is " + std::to_string(response_.status));
  keep_alive_ = http_should_keep_alive(&parser) != 0;
  const bool old = parser.http_major == 1 && parser.http_minor == 0;
  if (old && !response_.headers.contains("Connection")) keep_alive_ = false;
  body_left_ = 0;
  framing_ = Framing::kSized;
  const bool bodiless = options_.bodiless || is_bodiless(response_.status);
  const bool is_chunked = (parser.flags & F_CHUNKED) != 0;
  size_.reset();
  if (bodiless && is_chunked) return {};
  if (is_chunked) {
    if (!same_name(response_.headers.get("Transfer-Encoding"), "chunked")) {
      return malformed("it has another transfer coding than chunked");
    }
    framing_ = Framing::kChunked;
    chunks_ = ChunkedDecoder(SIZE_MAX, kMostTrailers);
  } else if ((parser.flags & F_CONTENTLENGTH) != 0) {
    uint64_t size = 0;
    for (const char digit : response_.headers.get("Content-Length")) {
      if (digit < '0' || digit > '9' || size > SIZE_MAX / 16) return malformed("bad length");
      size = size * 10 + static_cast<size_t>(digit - '0');
    }
    size_ = size;
    if (!bodiless) body_left_ = size;
  } else if (!bodiless) {
    framing_ = Framing::kToClose;
  }
  return {};
}

}  // namespace lambent::http
