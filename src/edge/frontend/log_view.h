// LogView: a function's log as a client wants to see it: lines of text, or of JSON that programs
// read. Pure; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/domain/function_log.h"
#include "core/http/message.h"
#include "edge/frontend/log_reader.h"

namespace lambent::frontend {

struct LogForm {
  bool is_json = false;  // a line of JSON each
  bool shows_times = false;
};
std::string_view content_type_of(const LogForm& form);

class LogView {
 public:
  explicit LogView(LogForm form) : form_(form), text_({.shows_times = form.shows_times}) {}

  // What an answer adds to those before. Where other nodes were asked, JSON says first, and again
  // whenever it changes, which have lines and which are silent; of the latter text has a line too,
  // if `notes_silent`.
  std::string show(const LogReader::Answer& answer, bool notes_silent);

 private:
  std::string about(const LogReader::Answer& answer, bool notes_silent);

  const LogForm form_;
  LogText text_;
  bool has_begun_ = false;
  std::vector<std::string> nodes_;
  std::vector<std::string> silent_;
};

// With when to ask again.
http::Response log_error(const Error& error);

// The header that names those whose lines are missing.
constexpr std::string_view kSilentNodes = "x-lambent-silent-nodes";
// "a,b"
std::string names_in_a_row(const std::vector<std::string>& names);

}  // namespace lambent::frontend
