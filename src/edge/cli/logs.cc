#include "edge/cli/logs.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/base/json_text.h"
#include "core/base/parse_number.h"
#include "edge/cli/api_error.h"
#include "edge/cli/log_printer.h"
#include "edge/cli/quota_words.h"

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
  const auto next = parse_number<uint64_t>(first.headers.get("x-lambent-next-offset"));
  return next && !first.body.empty() && *next > first.body.size();
}

// What the last `count` lines are of a text.
std::string_view last_lines(std::string_view text, uint64_t count) {
  size_t begin = text.size();
  if (text.ends_with('\n')) --begin;  // it ends the last line
  for (; count > 0; --count) {
    const size_t end = begin == 0 ? std::string_view::npos : text.rfind('\n', begin - 1);
    if (end == std::string_view::npos) return text;
    begin = end;
  }
  return text.substr(std::min(begin + 1, text.size()));
}

class Shown {
 public:
  Shown(Console& console, const LogsOptions& options)
      : target_(console.out.rdbuf()),
        out_(options.tail ? kept_.rdbuf() : target_),
        console_{out_, console.err, console.json, console.err_is_terminal},
        printer_(console_, options.timestamps, !options.tail,
                 {.since = options.since, .invocation = options.invocation}),
        needs_lines_(options.since || !options.invocation.empty()),
        tail_(options.tail) {}

  void answer(const http::Response& response, bool is_first) {
    in_lines_ = is_in_lines(response);
    if (!in_lines_ && needs_lines_ && is_first && !response.body.empty()) {
      console_.err << "this worker tells no times: all of the log is shown\n";
    }
    if (!in_lines_ && !tail_ && is_first && begins_late(response)) {
      console_.err << kOlderLinesGone;
    }
    if (!response.body.empty()) piece(response.body);
    if (!tail_) return;
    kept_.str(std::string(last_lines(kept_.str(), *tail_)));
    kept_.seekp(0, std::ios::end);
  }
  // What was there is shown, and what comes is from now on.
  void begin_at_tail() {
    if (!tail_) return;
    printer_.leave_out_silent();
    out_.rdbuf(target_);
    out_ << kept_.str();
    out_.flush();
  }
  // The exit code once all was shown.
  int end(const LogsOptions& options) {
    if (options.invocation.empty() || !in_lines_) return 0;
    if (!printer_.found_invocation()) {
      return fail(console_, {ErrorCode::kNotFound,
                             "the log of '" + options.name + "' has no line of invocation " +
                                 options.invocation + "; 'lambent invocations " + options.name +
                                 "' lists what is remembered"});
    }
    if (printer_.found_others()) {
      console_.err << "other invocations ran meanwhile: lines may be theirs\n";
    }
    return 0;
  }
  // Whether anyone reads it.
  bool is_read() const { return static_cast<bool>(out_); }
  void piece(std::string_view bytes) {
    if (in_lines_) return printer_.feed(bytes);
    if (console_.json) {
      console_.out << json_text(Json{{"text", bytes}}) << "\n";
    } else {
      console_.out << bytes;
    }
    console_.out.flush();
  }

 private:
  std::ostringstream kept_;  // until it is known which lines are the last ones
  std::streambuf* const target_;
  std::ostream out_;
  Console console_;
  LogPrinter printer_;
  const bool needs_lines_;
  const std::optional<uint64_t> tail_;
  bool in_lines_ = false;
};

}  // namespace

Result<Duration> since_in(const std::string& text, Duration now) {
  if (const auto ago = duration_in(text); ago.ok()) {
    if (*ago >= Duration(0) && *ago <= now) return now - *ago;
  }
  // With or without a fraction of the second.
  std::string time = text;
  if (time.ends_with('Z')) time.pop_back();
  if (time.find('.') == std::string::npos) time += ".000";
  if (const auto at = log_time_in(time + "Z")) return *at;
  return Error{ErrorCode::kInvalidArgument,
               "--since: a time ago such as 10m, or one such as 2026-11-29T17:36:32Z, is expected, "
               "not '" +
                   text + "'"};
}

int run_logs(Transport& transport, Console& console, const LogsOptions& options) {
  Shown shown(console, options);
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
  shown.begin_at_tail();
  if (!options.follow) return shown.end(options);

  std::string error_body;
  const auto sink = [&](std::string_view text) {
    shown.piece(text);
    error_body.append(text.substr(0, kMostOfError - std::min(error_body.size(), kMostOfError)));
    return shown.is_read();
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
