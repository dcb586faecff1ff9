#include "edge/frontend/metrics_of_tenant.h"

#include <algorithm>

namespace lambent::frontend {
namespace {

// Whether `label` stands in the sample's braces as a whole: behind '{' or ',', outside of a value.
bool has_label(std::string_view sample, std::string_view label) {
  const size_t open = sample.find('{');
  if (open == std::string_view::npos) return false;
  bool in_value = false;
  for (size_t i = open; i < sample.size(); ++i) {
    const char c = sample[i];
    if (in_value) {
      if (c == '\\') ++i;
      in_value = c != '"' || i >= sample.size();
    } else if (c == '{' || c == ',') {
      if (sample.substr(i + 1).starts_with(label)) return true;
    } else if (c == '}') {
      return false;
    } else {
      in_value = c == '"';
    }
  }
  return false;
}

}  // namespace

std::string metrics_of(std::string_view text, TenantId tenant) {
  const std::string label = "tenant=\"" + std::to_string(tenant.value) + "\"";
  std::string kept;
  std::string comments;  // of the family whose samples come next
  bool after_comment = false;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end);
    if (line.starts_with('#')) {
      if (!after_comment) comments.clear();
      after_comment = true;
      comments += line;
      continue;
    }
    after_comment = false;
    if (!has_label(line, label)) continue;
    kept += comments;
    comments.clear();
    kept += line;
  }
  return kept;
}

}  // namespace lambent::frontend
