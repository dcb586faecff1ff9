#include "node/environments/build_failure.h"

#include <algorithm>

namespace lambent::environments {
namespace {

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Before "error:" come lines about progress.
std::string_view from_the_error_on(std::string_view output) {
  for (const char* begin : {"error:", "  × ", "× "}) {
    const size_t at = output.find(begin);
    if (at != std::string_view::npos) return output.substr(at);
  }
  return output;
}

// Blanks and ends of lines become one blank.
std::string in_one_line(std::string_view text) {
  std::string line;
  for (const char c : text) {
    const bool blank = c == ' ' || c == '\n' || c == '\t' || c == '\r';
    if (!blank) {
      line += c;
    } else if (!line.empty() && line.back() != ' ') {
      line += ' ';
    }
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

ErrorCode code_of(std::string_view said) {
  if (has(said, "No space left") || has(said, "Disk quota")) return ErrorCode::kStorageFull;
  for (const char* sign :
       {"dns error", "error sending request", "Connection refused", "connection closed",
        "timed out", "client error (Connect)", "HTTP status server error", "network"}) {
    if (has(said, sign)) return ErrorCode::kUnavailable;
  }
  return ErrorCode::kInvalidArgument;
}

}  // namespace

std::string without_credentials(std::string_view text) {
  std::string clean;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '\x1b') {
      // A colour: ESC [ ... m
      while (at < text.size() && text[at] != 'm') ++at;
      continue;
    }
    if (static_cast<unsigned char>(c) < ' ' && c != '\n' && c != '\t') continue;
    clean += c;
    if (!clean.ends_with("://")) continue;
    const size_t end = std::min(text.find_first_of(" /?#\n\t'\"`)", at + 1), text.size());
    const size_t sign = text.substr(0, end).rfind('@');
    if (sign != std::string_view::npos && sign > at) at = sign;
  }
  return clean;
}

Error build_failure(std::string_view output) {
  const std::string said = without_credentials(output);
  std::string reason = in_one_line(from_the_error_on(said));
  if (reason.starts_with("error: ")) reason.erase(0, 7);
  // uv says each cause in a line of its own.
  constexpr std::string_view kCause = " cause: ";
  for (size_t at = 0; (at = reason.find(kCause, at)) != std::string::npos;) {
    reason.replace(at, kCause.size(), ": ");
  }
  if (reason.size() > kMostReason) reason = reason.substr(0, kMostReason) + " ...";
  if (reason.empty()) reason = "uv ended without a reason";
  const ErrorCode code = code_of(said);
  if (code == ErrorCode::kInvalidArgument && has(said, "no usable wheels")) {
    reason +=
        " (packages are installed only from wheels, because no code of theirs runs at deploy; the "
        "way out is to build the wheel once, by 'pip wheel NAME -w FOLDER', and start the worker "
        "with --python-wheels FOLDER)";
  }
  return Error{code, "python packages: " + reason};
}

Error with_wheels_named(Error failure, std::string_view inside, const std::string& outside) {
  std::string& text = failure.message;
  bool named = false;
  for (size_t at = 0; (at = text.find(inside, at)) != std::string::npos; at += outside.size()) {
    text.replace(at, inside.size(), outside);
    named = true;
  }
  if (named && has(text, "Permission denied")) {
    failure.code = ErrorCode::kFailedPrecondition;
    text +=
        " (packages are installed by a user without rights, who has to read the worker's folder "
        "of wheels: chmod -R a+rX " +
        outside + ")";
  }
  return failure;
}

Error refused_places(const std::vector<std::string>& places) {
  std::string list;
  for (const std::string& place : places) list += (list.empty() ? "" : ", ") + place;
  return Error{ErrorCode::kFailedPrecondition,
               "python packages: the index leads to " + list +
                   ", and only the index itself is reached; if its files lie there, the operator "
                   "names that place after the index: --python-index 'URL URL'"};
}

}  // namespace lambent::environments
