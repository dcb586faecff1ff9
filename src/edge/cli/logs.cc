#include "edge/cli/logs.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "edge/cli/api_error.h"
#include "edge/cli/log_printer.h"

namespace lambent::cli {
namespace {

using Json = nlohmann::ordered_json;

// Of an answer that is no error, what a message needs of one that is.
constexpr size_t kMostOfError = 4096;

std::string target_of(const std::string& name, const std::string& offset) {
  return "/v1/functions/" + http::percent_encode(name) +
         "/log?offset=" + http::percent_encode(offset) + "&format=ndjson";
}

bool is_in_lines(const http::Response& response) {
  return response.headers.get("Content-Type").starts_with("application/x-ndjson");
}

// Of a worker that answers with text: it knows neither times nor other nodes. The first answer
// begins behind the start of the log: what came before is kept no more.
bool begins_late(const http::Response& first) {
  const std::string_view text = first.headers.get("x-lambent-next-offset");
  uint64_t next = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), next);
  const bool is_number = code == std::errc() && end == text.data() + text.size();
  return is_number && !first.body.empty() && next > first.body.size();
}

class Shown {
 public:
  Shown(Console& console, bool shows_times) : console_(console), printer_(console, shows_times) {}

  void answer(const http::Response& response, bool is_first) {
    in_lines_ = is_in_lines(response);
    if (!in_lines_ && is_first && begins_late(response)) {
      console_.err << "older lines are gone: the worker keeps so much of a log as its "
                      "--function-log-size says\n";
    }
    if (!response.body.empty()) piece(response.body);
  }
  void piece(std::string_view bytes) {
    if (in_lines_) return printer_.feed(bytes);
    if (console_.json) {
      console_.out << Json{{"text", bytes}}.dump(-1, ' ', false, Json::error_handler_t::replace)
                   << "\n";
    } else {
      console_.out << bytes;
    }
    console_.out.flush();
  }

 private:
  Console& console_;
  LogPrinter printer_;
  bool in_lines_ = false;
};

}  // namespace

int run_logs(Transport& transport, Console& console, const LogsOptions& options) {
  Shown shown(console, options.timestamps);
  // The worker gives at most 1 MiB at a time: ask until nothing more comes.
  std::string offset = "0";
  for (;;) {
    const auto chunk = good(
        transport.send({.method = "GET", .target = target_of(options.name, offset)}, seconds(60)));
    if (!chunk.ok()) return fail(console, chunk.error());
    shown.answer(*chunk, offset == "0");
    const std::string next(chunk->headers.get("x-lambent-next-offset"));
    const bool more = !next.empty() && next != offset && !chunk->body.empty();
    if (!next.empty()) offset = next;
    if (!more) break;
  }
  if (!options.follow) return 0;

  std::string error_body;
  const auto sink = [&](std::string_view text) {
    shown.piece(text);
    error_body.append(text.substr(0, kMostOfError - std::min(error_body.size(), kMostOfError)));
    return static_cast<bool>(console.out);
  };
  auto followed =
      transport.stream({.method = "GET", .target = target_of(options.name, offset) + "&follow=1"},
                       std::chrono::hours(24 * 365), sink);
  if (!followed.ok()) return fail(console, followed.error());
  if (followed->status >= 300) {
    followed->body = error_body;
    return fail(console, error_of(*followed));
  }
  return 0;
}

}  // namespace lambent::cli
