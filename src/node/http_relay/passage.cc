#include "node/http_relay/passage.h"

#include <charconv>
#include <utility>

#include "core/http/hop_by_hop.h"
#include "core/http/limits.h"
#include "node/http_relay/limits.h"

namespace lambent::http_relay {
namespace {

constexpr size_t kReadAtOnce = 64 * 1024;
// A single turn of the loop passes at most this much of one answer.
constexpr size_t kReadPerTurn = 256 * 1024;

// With its body, if that came whole.
std::string head_of(const RelayedRequest& request, bool chunks_body) {
  const http::Request& head = request.head;
  std::string text;
  text.reserve(512);
  text += head.method + " " + head.target + " HTTP/1.1\r\n";
  for (const auto& [name, value] : head.headers.fields()) text += name + ": " + value + "\r\n";
  if (chunks_body) text += "Transfer-Encoding: chunked\r\n";
  if (!request.upgrade.empty()) {
    text += "Connection: Upgrade\r\nUpgrade: " + request.upgrade + "\r\n";
  }
  text += "\r\n";
  text += head.body;
  return text;
}

std::string chunk_of(std::string_view bytes) {
  char size[20];
  char* end = std::to_chars(size, size + 16, bytes.size(), 16).ptr;
  std::string chunk;
  chunk.reserve(bytes.size() + 24);
  chunk.append(size, end);
  chunk += "\r\n";
  chunk += bytes;
  chunk += "\r\n";
  return chunk;
}

// Of an answer that its client does not get any more: with more the program is stopped.
constexpr size_t kMostUnwanted = 256 * 1024;

// Sending it twice does what sending it once does (RFC 9110, 9.2.2).
bool is_idempotent(const std::string& method) {
  return method == "GET" || method == "HEAD" || method == "OPTIONS" || method == "PUT" ||
         method == "DELETE" || method == "TRACE";
}

// Such a server says so before it is asked: a frame of SETTINGS (type 4) of the stream 0 (RFC
// 9113, 3.4 and 4.1).
bool begins_http2(std::string_view bytes) {
  using namespace std::string_view_literals;
  return bytes.size() >= 9 && bytes.substr(0, 2) == "\0\0"sv && bytes[3] == 4 &&
         bytes.substr(5, 4) == "\0\0\0\0"sv;
}

}  // namespace

Passage::Passage(std::shared_ptr<RelayedRequest> request, std::function<void(PassageEnd)> on_end)
    : request_(std::move(request)),
      on_end_(std::move(on_end)),
      client_(request_->responder.stream()),
      parser_({.bodiless = request_->head.method == "HEAD",
               .upgrades = !request_->upgrade.empty(),
               .max_head = limits::kRelayedHead.count}) {
  request_->on_client_gone = [this] { client_left(); };
}

Passage::~Passage() {
  if (is_over_) return;
  request_->on_client_gone = nullptr;
  let_go_of_client();
}

// It may end before this does: once its side is over nothing here may touch it.
void Passage::let_go_of_client() {
  if (client_ == nullptr) return;
  client_->on_room(nullptr);
  client_->hold(true);  // its sink ends with this
  client_ = nullptr;
}

void Passage::abandon() {
  if (is_over_ || is_taking_) return;
  is_over_ = true;
  request_->on_client_gone = nullptr;
  let_go_of_client();
}

void Passage::begin(Upstream& upstream) {
  upstream_ = &upstream;
  if (client_ == nullptr) return fail("Http.BadAnswer", "the request cannot be relayed");
  chunks_body_ = request_->has_body && !request_->head.headers.contains("Content-Length");
  upstream.set_events({.on_connected = {},
                       .on_readable = [this] { on_readable(); },
                       .on_room = [this] { on_room(); }});
  client_->hold(false);
  head_ = head_of(*request_, chunks_body_);
  upstream.watch_reads(true);
  client_->on_room([this] {
    if (!std::exchange(client_is_behind_, false)) return;
    upstream_->watch_reads(true);
  });
  body_is_over_ = !request_->has_body;
  if (request_->has_body) {
    client_->receive({.on_bytes = [this](std::string_view bytes) { pass_body(bytes); },
                      .on_end = [this] { body_ended(); }});
  }
  upstream.write(std::exchange(head_, {}));
}

void Passage::pass_body(std::string_view bytes) {
  const bool is_chunk = chunks_body_ && !parser_.switched();
  // A short request leaves in one piece.
  std::string sent = std::exchange(head_, {});
  if (is_chunk) {
    sent += chunk_of(bytes);
  } else {
    sent += bytes;
  }
  upstream_->write(std::move(sent));
  if (upstream_->unsent() > limits::kRelayWindow.count) client_->hold(true);
}

void Passage::body_ended() {
  if (parser_.switched()) return upstream_->finish_writing();
  body_is_over_ = true;
  if (chunks_body_) upstream_->write("0\r\n\r\n");
}

void Passage::on_room() {
  if (client_ != nullptr) client_->hold(false);
}

// The program sees that nothing more comes, but perhaps only once it looks: until it closes the
// connection or has answered it is at work, and its sandbox gets nothing else to do.
void Passage::client_left() {
  client_left_ = true;
  let_go_of_client();
  if (upstream_ == nullptr) return end({.error_type = "Http.ClientLeft"});
  if (parser_.switched()) return end({.succeeded = true});
  upstream_->finish_writing();
  upstream_->watch_reads(true);
}

bool Passage::take_unwanted(std::string_view bytes) {
  unwanted_ += bytes.size();
  PassageEnd left;
  // A client that leaves a stream has had what it wanted.
  left.succeeded = head_passed_;
  if (!left.succeeded) {
    left.error_type = "Http.ClientLeft";
    left.message = "the client went away before it was answered";
  }
  const auto whole = parser_.feed(bytes);
  parser_.response().body.clear();
  // A stream may have no end. Its next write fails, which tells the program.
  const bool has_end = !parser_.head_done() || parser_.size().has_value();
  if (whole.ok() && !*whole && has_end && unwanted_ < kMostUnwanted) return true;
  end(std::move(left));
  return false;
}

void Passage::on_readable() {
  char buffer[kReadAtOnce];
  for (size_t total = 0; total < kReadPerTurn;) {
    const http::Transfer got = upstream_->read(buffer);
    if (got.kind == http::Transfer::Kind::kWaitsToRead) return;
    if (got.kind != http::Transfer::Kind::kMoved) return on_upstream_end(got.kind);
    total += got.bytes;
    if (!something_came_ && !client_left_ && begins_http2({buffer, got.bytes})) {
      return fail("Http.BadAnswer",
                  "the program answers in HTTP/2, as gRPC does; functions are sent HTTP/1.1");
    }
    something_came_ = true;
    is_taking_ = true;
    if (!take({buffer, got.bytes})) return;  // this may be gone
    is_taking_ = false;
    if (client_is_behind_) return upstream_->watch_reads(false);
    if (got.bytes < sizeof buffer) break;
  }
  upstream_->watch_reads(true);
}

bool Passage::take(std::string_view bytes) {
  if (client_left_) return take_unwanted(bytes);
  if (parser_.switched()) {
    if (!client_->send_bytes(bytes)) client_is_behind_ = true;
    return true;
  }
  const auto whole = parser_.feed(bytes);
  if (!whole.ok()) {
    fail("Http.BadAnswer", "the program's answer cannot be passed on: " + whole.error().message);
    return false;
  }
  const bool begins = parser_.head_done() && !head_passed_;
  if (begins) begin_answer();
  if (parser_.switched()) {
    if (!client_->send_bytes(bytes)) client_is_behind_ = true;
    return true;
  }
  // The head leaves with it, or with the end.
  const std::string piece = std::exchange(parser_.response().body, {});
  const bool is_due = !piece.empty() || (begins && !*whole);
  if (is_due && !request_->kept && !client_->send_bytes(piece)) client_is_behind_ = true;
  says_more_ = !bytes.empty();
  if (!*whole) return true;
  finish();
  return false;
}

void Passage::begin_answer() {
  head_passed_ = true;
  if (request_->keeps && request_->keeps(parser_.response())) request_->kept = parser_.response();
  if (request_->kept) return;
  request_->answered = true;
  http::Response head;
  head.status = parser_.response().status;
  head.headers = http::end_to_end(parser_.response().headers);
  if (parser_.switched()) {
    head.headers.add("Upgrade", std::string(parser_.response().headers.get("Upgrade")));
    client_->switch_protocols(std::move(head));
    client_->receive({.on_bytes = [this](std::string_view bytes) { pass_body(bytes); },
                      .on_end = [this] { body_ended(); }});
    return;
  }
  // Ours win: a program cannot name another invocation.
  http::put_ours(request_->answer_headers, head.headers);
  client_->start(std::move(head), parser_.size());
}

void Passage::on_upstream_end(http::Transfer::Kind kind) {
  if (client_left_) {
    PassageEnd left{.succeeded = head_passed_};
    if (!left.succeeded) left.error_type = "Http.ClientLeft";
    return end(std::move(left));
  }
  const bool in_order = kind == http::Transfer::Kind::kEnd;
  if (parser_.switched()) return finish();
  if (in_order && parser_.finish()) {
    PassageEnd how = end_by_status();
    how.may_be_cut_off = true;
    return end(std::move(how));
  }
  if (head_passed_) {
    return end({.error_type = "Http.Disconnected",
                .message = "the program closed the connection in the middle of its answer",
                .connection_is_lost = true});
  }
  PassageEnd how;
  how.connection_is_lost = true;
  how.error_type = "Http.Disconnected";
  how.message = something_came_
                    ? "the program closed the connection in the middle of its answer's head"
                    : "the program closed the connection without an answer";
  how.may_be_repeated =
      !something_came_ && !request_->has_body && is_idempotent(request_->head.method);
  end(std::move(how));
}

void Passage::finish() {
  if (!request_->kept) client_->finish();
  PassageEnd how = end_by_status();
  how.keeps_connection = parser_.keep_alive() && body_is_over_ && !parser_.switched() &&
                         upstream_->unsent() == 0 && !says_more_ && request_->head.method != "HEAD";
  end(std::move(how));
}

PassageEnd Passage::end_by_status() {
  PassageEnd how;
  const int status = parser_.response().status;
  how.succeeded = status < 500;
  if (!how.succeeded) {
    how.error_type = "Http.ServerError";
    how.message = "the program answered with status " + std::to_string(status);
  }
  return how;
}

void Passage::fail(std::string type, std::string message) {
  end({.error_type = std::move(type), .message = std::move(message)});
}

void Passage::end(PassageEnd how) {
  is_over_ = true;
  request_->on_client_gone = nullptr;
  let_go_of_client();
  const std::function<void(PassageEnd)> tell = std::move(on_end_);
  tell(std::move(how));
}

}  // namespace lambent::http_relay
