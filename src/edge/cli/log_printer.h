// LogPrinter: what `lambent logs` shows of an answer in lines of JSON: text on the output, and on
// the other what is missing. One thread.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "core/domain/function_log.h"
#include "edge/cli/console.h"

namespace lambent::cli {

inline constexpr std::string_view kOlderLinesGone =
    "older lines are gone: the worker keeps as much of a log as its --function-log-size says, and "
    "if it was killed, its last lines may be lost\n";

// Which lines are shown.
struct LogFilter {
  std::optional<Duration> since;  // those that were printed then or later
  std::string invocation;         // those from its START to its END; empty: of all
};

class LogPrinter {
 public:
  LogPrinter(Console& console, bool shows_times, bool tells_of_older, LogFilter filter = {})
      : console_(console),
        text_({.shows_times = shows_times}),
        since_(filter.since ? log_time_text(*filter.since) : ""),
        invocation_(std::move(filter.invocation)),
        says_gone_(!tells_of_older) {}

  // In pieces as they come, which may end in the middle of a line. What is no such line is shown as
  // it is.
  void feed(std::string_view bytes);
  // Lines from before now of nodes that are silent are shown no more once those are back.
  void leave_out_silent();

  // Whether a line of the filter's invocation came; whether another one began within its lines.
  bool found_invocation() const { return found_invocation_; }
  bool found_others() const { return found_others_; }

 private:
  bool is_wanted(const std::string& node, const std::string& time, std::string_view text);
  void show(std::string_view line);
  void tell_silent(const std::set<std::string>& silent);

  Console& console_;
  LogText text_;
  const std::string since_;  // as lines have it; empty: all
  const std::string invocation_;
  std::map<std::string, unsigned> open_;  // by node: sandboxes that have the invocation now
  bool found_invocation_ = false, found_others_ = false;
  std::string part_;
  bool says_gone_;                // or nothing is to be said of it
  std::set<std::string> silent_;  // that were told
  std::string newest_;            // time of a line
  std::set<std::string> left_out_;
  std::string left_out_until_;
};

}  // namespace lambent::cli
