#include "core/http/multipart.h"

#include <algorithm>
#include <cctype>

namespace lambent::http {
namespace {

Error invalid(const std::string& what) { return {ErrorCode::kInvalidArgument, what}; }

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](unsigned char c) { return std::tolower(c); });
  return result;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// The value of a parameter of a header field: `form-data; name="code"` has name.
std::string parameter_of(std::string_view field, std::string_view name) {
  size_t at = field.find(';');
  while (at != std::string_view::npos) {
    field.remove_prefix(at + 1);
    at = field.find(';');
    const std::string_view one = trimmed(field.substr(0, at));
    const size_t equals = one.find('=');
    if (equals == std::string_view::npos || lower(trimmed(one.substr(0, equals))) != name) continue;
    std::string_view value = trimmed(one.substr(equals + 1));
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"') {
      value = value.substr(1, value.size() - 2);
    }
    return std::string(value);
  }
  return {};
}

// The name that the fields of a part give it; empty: none.
std::string name_in(std::string_view fields) {
  while (!fields.empty()) {
    const size_t end = std::min(fields.find("\r\n"), fields.size());
    const std::string_view field = fields.substr(0, end);
    fields.remove_prefix(std::min(end + 2, fields.size()));
    const size_t colon = field.find(':');
    if (colon == std::string_view::npos) continue;
    if (lower(field.substr(0, colon)) != "content-disposition") continue;
    return parameter_of(field.substr(colon + 1), "name");
  }
  return {};
}

}  // namespace

Result<std::vector<Part>> parse_multipart(std::string_view content_type, std::string_view body) {
  const std::string type = lower(trimmed(content_type.substr(0, content_type.find(';'))));
  const std::string boundary = parameter_of(content_type, "boundary");
  if (type != "multipart/form-data" || boundary.empty() || boundary.size() > 70) {
    return invalid("the body must be multipart/form-data with a boundary");
  }
  const std::string delimiter = "\r\n--" + boundary;
  std::vector<Part> parts;
  // The first delimiter may stand at the beginning, without a line before it.
  const std::string_view first = std::string_view(delimiter).substr(2);
  size_t at = body.starts_with(first) ? first.size() : std::string_view::npos;
  if (at == std::string_view::npos) {
    const size_t found = body.find(delimiter);
    if (found == std::string_view::npos) return invalid("the body has no part");
    at = found + delimiter.size();
  }
  while (true) {
    std::string_view rest = body.substr(at);
    if (rest.starts_with("--")) return parts;
    if (!rest.starts_with("\r\n")) return invalid("a part of the body begins without a new line");
    rest.remove_prefix(2);
    // A part without fields has an empty line at once.
    const size_t head = rest.starts_with("\r\n") ? 0 : rest.find("\r\n\r\n");
    if (head == std::string_view::npos) return invalid("a part of the body has no content");
    const std::string_view fields = rest.substr(0, head);
    rest.remove_prefix(head + (head == 0 ? 2 : 4));
    const size_t end = rest.find(delimiter);
    if (end == std::string_view::npos) return invalid("the body ends within a part");
    if (parts.size() == kMostParts) return invalid("the body has too many parts");
    parts.push_back({name_in(fields), rest.substr(0, end)});
    at = static_cast<size_t>(rest.data() - body.data()) + end + delimiter.size();
  }
}

MultipartBody make_multipart(const std::vector<Part>& parts, const std::string& boundary) {
  MultipartBody made{.content_type = "multipart/form-data; boundary=" + boundary, .body = {}};
  size_t size = 0;
  for (const Part& part : parts) size += part.content.size() + boundary.size() + 100;
  made.body.reserve(size);
  for (const Part& part : parts) {
    made.body +=
        "--" + boundary + "\r\nContent-Disposition: form-data; name=\"" + part.name + "\"\r\n\r\n";
    made.body += part.content;
    made.body += "\r\n";
  }
  made.body += "--" + boundary + "--\r\n";
  return made;
}

}  // namespace lambent::http
