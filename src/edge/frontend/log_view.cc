#include "edge/frontend/log_view.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/base64.h"
#include "core/base/json_text.h"
#include "core/base/log.h"
#include "core/base/utf8.h"
#include "edge/frontend/json_text.h"
#include "edge/frontend/native_error.h"

namespace lambent::frontend {
namespace {

// Written as it is: an answer may have many thousands of lines.
void add_json(const std::string& node, const LogLine& line, std::string& to) {
  to += '{';
  if (!is_utf8(line.text)) (to += R"("bytes":")") += base64_encode(line.text) + R"(",)";
  if (!node.empty()) (to += R"("node":")") += json_escape(node) + R"(",)";
  (to += R"("text":")") += json_escape(line.text) + '"';
  if (line.at) (to += R"(,"time":")") += log_time_text(*line.at) + '"';
  to += "}\n";
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
    shown += json_text(object) + "\n";
  }
  if (!form_.is_json && notes_silent && !begins && answer.log.older_is_gone) {
    text_.note("[older lines are gone]", shown);
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
      add_json(*line.node, line.line, shown);
    } else {
      text_.add(*line.node, line.line, shown);
    }
  }
  return shown;
}

}  // namespace lambent::frontend
