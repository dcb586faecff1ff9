#include "edge/cli/log_printer.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/base64.h"

namespace lambent::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string text_in(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::set<std::string> names_in(const Json& object, const char* key) {
  std::set<std::string> names;
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array()) return names;
  for (const Json& each : *found) {
    if (each.is_string()) names.insert(each.get<std::string>());
  }
  return names;
}

}  // namespace

void LogPrinter::feed(std::string_view bytes) {
  part_ += bytes;
  size_t begin = 0;
  for (size_t end = part_.find('\n'); end != std::string::npos; end = part_.find('\n', begin)) {
    show(std::string_view(part_).substr(begin, end - begin));
    begin = end + 1;
  }
  part_.erase(0, begin);
  console_.out.flush();
}

void LogPrinter::show(std::string_view line) {
  const Json object = Json::parse(line, nullptr, false);
  if (!object.is_object()) {
    console_.out << line << "\n";
    return;
  }
  if (!object.contains("text")) {
    const bool is_gone = object.value("older_lines_gone", Json(false)) == true;
    if (is_gone && !std::exchange(says_gone_, true)) {
      console_.err << kOlderLinesGone;
    }
    if (names_in(object, "nodes").size() > 1) text_.name_nodes(true);
    return tell_silent(names_in(object, "silent_nodes"));
  }
  const std::string node = text_in(object, "node");
  const std::string time = text_in(object, "time");
  // All have the same form, in which the later one is the greater.
  if (left_out_.contains(node) && time <= left_out_until_) return;
  newest_ = std::max(newest_, time);
  const auto bytes = base64_decode(text_in(object, "bytes"));
  const std::string text = bytes && !bytes->empty() ? *bytes : text_in(object, "text");
  if (!is_wanted(node, time, text)) return;
  if (console_.json) {
    console_.out << line << "\n";
    return;
  }
  std::string shown;
  text_.add(node, {log_time_in(time), text}, shown);
  console_.out << shown;
}

bool LogPrinter::is_wanted(const std::string& node, const std::string& time,
                           std::string_view text) {
  if (time < since_) return false;
  if (invocation_.empty()) return true;
  const bool starts = text.starts_with("START RequestId: ");
  if (text.find("RequestId: " + invocation_) != std::string_view::npos) {
    found_invocation_ = true;
    // Stages of a pipeline have it one after the other: the next one may start before the one
    // before has ended. What follows an END, the REPORT, has its id too.
    unsigned& open = open_[node];
    if (starts) ++open;
    if (text.starts_with("END RequestId: ") && open > 0) --open;
    return true;
  }
  if (const auto open = open_.find(node); open == open_.end() || open->second == 0) return false;
  found_others_ = found_others_ || starts;
  return true;
}

void LogPrinter::leave_out_silent() {
  left_out_ = silent_;
  const Duration now = std::chrono::system_clock::now().time_since_epoch();
  left_out_until_ = newest_.empty() ? log_time_text(now) : newest_;
}

void LogPrinter::tell_silent(const std::set<std::string>& silent) {
  for (const std::string& node : silent) {
    if (silent_.contains(node)) continue;
    console_.err << "node " << node << " does not answer: its lines are missing\n";
  }
  silent_ = silent;
}

}  // namespace lambent::cli
