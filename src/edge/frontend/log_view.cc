#include "edge/frontend/log_view.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "edge/frontend/json_text.h"
#include "edge/frontend/native_error.h"

namespace lambent::frontend {
namespace {

nlohmann::json json_of(const std::string& node, const LogLine& line) {
  nlohmann::json object = {{"text", std::string(line.text)}};
  if (!node.empty()) object["node"] = node;
  if (line.at) object["time"] = log_time_text(*line.at);
  return object;
}

}  // namespace

std::string_view content_type_of(const LogForm& form) {
  return form.is_json ? "application/x-ndjson" : "text/plain; charset=utf-8";
}

http::Response log_error(const Error& error) {
  http::Response response = error_response(error);
  if (response.status == 503) response.headers.set("Retry-After", "1");
  return response;
}

std::string names_in_a_row(const std::vector<std::string>& names) {
  std::string row;
  for (const std::string& name : names) row += (row.empty() ? "" : ",") + name;
  return row;
}

std::string LogView::about(const LogReader::Answer& answer, bool notes_silent) {
  const bool begins = !std::exchange(has_begun_, true);
  const bool has_changed = nodes_ != answer.nodes || silent_ != answer.silent;
  std::string shown;
  if (form_.is_json && (begins || has_changed || answer.log.older_is_gone)) {
    nlohmann::json object = {{"older_lines_gone", answer.log.older_is_gone}};
    if (!answer.is_alone) {
      object["nodes"] = answer.nodes;
      object["silent_nodes"] = answer.silent;
    }
    shown += to_text(object) + "\n";
  }
  for (const std::string& node : answer.silent) {
    const bool is_new = std::find(silent_.begin(), silent_.end(), node) == silent_.end();
    if (form_.is_json || !notes_silent || !is_new) continue;
    text_.note("[node " + node + " does not answer: its lines are missing]", shown);
  }
  nodes_ = answer.nodes;
  silent_ = answer.silent;
  return shown;
}

std::string LogView::show(const LogReader::Answer& answer, bool notes_silent) {
  std::string shown = about(answer, notes_silent);
  // Still, where one of them is silent later.
  if (answer.nodes.size() > 1) text_.name_nodes(true);
  for (const MergedLine& line : answer.log.lines) {
    if (form_.is_json) {
      shown += to_text(json_of(*line.node, line.line)) + "\n";
    } else {
      text_.add(*line.node, line.line, shown);
    }
  }
  return shown;
}

}  // namespace lambent::frontend
