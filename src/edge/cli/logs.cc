#include "edge/cli/logs.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/parse_number.h"
#include "edge/cli/api_error.h"

namespace lambent::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string target_of(const std::string& name, uint64_t offset) {
  return "/v1/functions/" + http::percent_encode(name) + "/log?offset=" + std::to_string(offset);
}

std::optional<uint64_t> next_offset_of(const http::Response& response) {
  return parse_number<uint64_t>(response.headers.get("x-lambent-next-offset"));
}

// The first answer begins behind the start of the log: what came before is kept no more.
bool begins_late(const http::Response& first) {
  const auto next = next_offset_of(first);
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

void show(Console& console, std::string_view text) {
  if (console.json) {
    console.out << Json{{"text", text}}.dump(-1, ' ', false, Json::error_handler_t::replace)
                << "\n";
  } else {
    console.out << text;
  }
  console.out.flush();
}

}  // namespace

int run_logs(Transport& transport, Console& console, const LogsOptions& options) {
  // The worker gives at most 1 MiB at a time: ask until nothing more comes.
  uint64_t offset = 0;
  std::string kept;  // of which the last lines are wanted
  for (;;) {
    const auto chunk = good(
        transport.send({.method = "GET", .target = target_of(options.name, offset)}, seconds(60)));
    if (!chunk.ok()) return fail(console, chunk.error());
    if (offset == 0 && !options.tail && begins_late(*chunk)) {
      console.err << "older lines are gone: the worker keeps so much of a log as its "
                     "--function-log-size says\n";
    }
    if (options.tail) {
      kept += chunk->body;
      kept = std::string(last_lines(kept, *options.tail));
    } else if (!chunk->body.empty()) {
      show(console, chunk->body);
    }
    const auto next = next_offset_of(*chunk);
    const bool more = next && *next > offset && !chunk->body.empty();
    if (next) offset = *next;
    if (!more) break;
  }
  if (!kept.empty()) show(console, kept);
  if (!options.follow) return 0;

  std::string error_body;
  const auto sink = [&](std::string_view text) {
    show(console, text);
    error_body.append(text.substr(0, 4096 - std::min<size_t>(error_body.size(), 4096)));
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
