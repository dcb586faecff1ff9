#include "edge/frontend/access_log.h"

#include <cstdio>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/json_text.h"
#include "core/http/exchange.h"
#include "edge/frontend/json_text.h"

namespace lambent::frontend {
namespace {

constexpr int kClientLeft = 499;

// In quotes of a combined line: nothing in it ends them, or the line.
std::string in_quotes(std::string_view text) {
  std::string made = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    char escape[8];
    std::snprintf(escape, sizeof escape, "\\x%02X", byte);
    const bool is_plain = byte >= ' ' && byte < 127 && c != '"' && c != '\\';
    made += is_plain ? std::string(1, c) : std::string(escape);
  }
  return made + "\"";
}

std::string_view or_dash(std::string_view text) { return text.empty() ? "-" : text; }

// "127.0.0.1" of "127.0.0.1:1234"; no spaces, which end a field of a combined line.
std::string host_of(const std::string& origin) {
  std::string host = origin.substr(0, origin.rfind(':'));
  for (char& c : host) c = c == ' ' ? '_' : c;
  return host;
}

std::tm utc(Duration at) {
  const auto whole = static_cast<std::time_t>(std::chrono::duration_cast<seconds>(at).count());
  std::tm time{};
  gmtime_r(&whole, &time);
  return time;
}

std::string formatted(const char* format, Duration at) {
  const std::tm time = utc(at);
  char text[64];
  return {text, std::strftime(text, sizeof text, format, &time)};
}

class LoggedExchange final : public http::Responder::Exchange, private http::StreamedExchange {
 public:
  LoggedExchange(http::Responder inner, AccessRecord record, const Clock& clock,
                 std::function<void(const AccessRecord&)> write)
      : inner_(std::move(inner)),
        record_(std::move(record)),
        clock_(clock),
        began_(clock.now()),
        write_(std::move(write)) {}

  void send(http::Response response) override {
    note_head(response);
    record_.bytes = response.body.size();
    end();
    inner_.send(std::move(response));
  }
  void start_chunked(http::Response head) override {
    note_head(head);
    inner_.start_chunked(std::move(head));
  }
  bool send_chunk(std::string_view data) override {
    record_.bytes += data.size();
    return inner_.send_chunk(data);
  }
  void finish_chunked() override {
    end();
    inner_.finish_chunked();
  }
  void on_disconnect(std::function<void()> callback) override {
    inner_.on_disconnect(std::move(callback));
  }
  http::StreamedExchange* stream() override { return wrapped(inner_.stream()); }
  http::StreamedExchange* answer_stream() override { return wrapped(inner_.answer_stream()); }
  // The client gets what the responder within makes of that.
  void abandon() override {
    end();
    http::Responder over = std::move(inner_);
  }

 private:
  http::StreamedExchange* wrapped(http::StreamedExchange* stream) {
    stream_ = stream;
    return stream == nullptr ? nullptr : this;
  }
  http::Headers trailers() const override { return stream_->trailers(); }
  void receive(Sink sink) override { stream_->receive(std::move(sink)); }
  void hold(bool held) override { stream_->hold(held); }
  void expect_whole(bool expects) override { stream_->expect_whole(expects); }
  void start(http::Response head, std::optional<uint64_t> size) override {
    note_head(head);
    stream_->start(std::move(head), size);
  }
  void switch_protocols(http::Response head) override {
    note_head(head);
    record_.status = 101;
    stream_->switch_protocols(std::move(head));
  }
  bool send_bytes(std::string_view bytes) override {
    record_.bytes += bytes.size();
    return stream_->send_bytes(bytes);
  }
  void on_room(std::function<void()> callback) override { stream_->on_room(std::move(callback)); }
  void end_at_half_close() override { stream_->end_at_half_close(); }
  void finish() override {
    end();
    stream_->finish();
  }

  void note_head(const http::Response& head) {
    record_.status = head.status;
    record_.invocation = head.headers.get("x-amzn-requestid");
  }
  void end() {
    if (std::exchange(ended_, true)) return;
    if (record_.status == 0) record_.status = kClientLeft;
    record_.took = clock_.now() - began_;
    write_(record_);
  }

  http::Responder inner_;
  http::StreamedExchange* stream_ = nullptr;
  AccessRecord record_;
  const Clock& clock_;
  const Instant began_;
  const std::function<void(const AccessRecord&)> write_;
  bool ended_ = false;
};

}  // namespace

std::string origin_of(const http::Peer& peer) {
  if (peer.transport != http::Transport::kUnix) return peer.address;
  return peer.user ? "unix, user " + std::to_string(*peer.user) : "unix";
}

std::string line_of(const AccessRecord& record, AccessLogFormat format) {
  if (format == AccessLogFormat::kCombined) {
    return host_of(record.origin) + " - - [" + formatted("%d/%b/%Y:%H:%M:%S +0000", record.at) +
           "] " + in_quotes(record.method + " " + record.target + " HTTP/1.1") + " " +
           std::to_string(record.status) + " " + std::to_string(record.bytes) + " " +
           in_quotes(or_dash(record.referer)) + " " + in_quotes(or_dash(record.user_agent)) + "\n";
  }
  char fraction[16];
  std::snprintf(fraction, sizeof fraction, ".%06dZ",
                static_cast<int>(record.at.count() / 1'000 % 1'000'000));
  nlohmann::json line = {{"at", formatted("%Y-%m-%dT%H:%M:%S", record.at) + fraction},
                         {"origin", record.origin},
                         {"method", record.method},
                         {"target", record.target},
                         {"status", record.status},
                         {"bytes", record.bytes},
                         {"took_ms", to_milliseconds(record.took)},
                         {"user_agent", record.user_agent}};
  if (!record.invocation.empty()) line["invocation"] = record.invocation;
  return json_text(line) + "\n";
}

http::Server::Handler with_access_log(http::Server::Handler inner, const Clock& clock,
                                      std::function<void(const AccessRecord&)> write) {
  return [inner = std::move(inner), &clock, write = std::move(write)](http::Request request,
                                                                      http::Responder responder) {
    AccessRecord record{.at = clock.wall_now(),
                        .origin = origin_of(request.peer),
                        .method = request.method,
                        .target = request.target,
                        .user_agent = std::string(request.headers.get("User-Agent")),
                        .referer = std::string(request.headers.get("Referer"))};
    inner(std::move(request), http::Responder(std::make_shared<LoggedExchange>(
                                  std::move(responder), std::move(record), clock, write)));
  };
}

}  // namespace lambent::frontend
