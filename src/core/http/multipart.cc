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

// Where `field` has its next ';' that is not within quotes; npos: nowhere.
size_t end_of_parameter(std::string_view field) {
  bool is_quoted = false;
  for (size_t at = 0; at < field.size(); ++at) {
    if (field[at] == '"') is_quoted = !is_quoted;
    if (field[at] == '\\' && is_quoted) ++at;
    if (at < field.size() && field[at] == ';' && !is_quoted) return at;
  }
  return std::string_view::npos;
}

// The value of a parameter of a header field: `form-data; name="code"` has name.
std::string parameter_of(std::string_view field, std::string_view name) {
  size_t at = end_of_parameter(field);
  while (at != std::string_view::npos) {
    field.remove_prefix(at + 1);
    at = end_of_parameter(field);
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

// "\r\n--boundary" of a Content-Type.
Result<std::string> delimiter_of(std::string_view content_type) {
  const std::string type = lower(trimmed(content_type.substr(0, content_type.find(';'))));
  const std::string boundary = parameter_of(content_type, "boundary");
  if (type != kMultipartForm || boundary.empty() || boundary.size() > 70) {
    return invalid("the body must be multipart/form-data with a boundary");
  }
  return "\r\n--" + boundary;
}

// Goes over the parts of a body, of which perhaps only the beginning is there.
class PartReader {
 public:
  enum class Step { kPart, kEnd, kBroken, kIncomplete };

  PartReader(std::string_view body, const std::string& delimiter)
      : body_(body), delimiter_(delimiter) {}

  Step next() {
    if (!at_ && !find_first()) return stop("the body has no part");
    std::string_view rest = body_.substr(*at_);
    if (rest.starts_with("--")) return Step::kEnd;
    if (!rest.starts_with("\r\n")) {
      why_ = "a part of the body begins without a new line";
      return rest.size() < 2 ? Step::kIncomplete : Step::kBroken;
    }
    rest.remove_prefix(2);
    // A part without fields has an empty line at once.
    const size_t head = rest.starts_with("\r\n") ? 0 : rest.find("\r\n\r\n");
    if (head == std::string_view::npos) return stop("a part of the body has no content");
    const std::string_view fields = rest.substr(0, head);
    rest.remove_prefix(head + (head == 0 ? 2 : 4));
    const size_t end = rest.find(delimiter_);
    if (end == std::string_view::npos) return stop("the body ends within a part");
    part_ = {name_in(fields), rest.substr(0, end)};
    at_ = static_cast<size_t>(rest.data() - body_.data()) + end + delimiter_.size();
    return Step::kPart;
  }
  const Part& part() const { return part_; }
  // Of a body that is broken or not complete.
  const std::string& why() const { return why_; }

 private:
  bool find_first() {
    // The first delimiter may stand at the beginning, without a line before it.
    const std::string_view first = std::string_view(delimiter_).substr(2);
    if (body_.starts_with(first)) {
      at_ = first.size();
      return true;
    }
    const size_t found = body_.find(delimiter_);
    if (found == std::string_view::npos) return false;
    at_ = found + delimiter_.size();
    return true;
  }
  Step stop(const char* why) {
    why_ = why;
    return Step::kIncomplete;
  }

  const std::string_view body_;
  const std::string& delimiter_;
  std::optional<size_t> at_;  // behind the last delimiter
  Part part_;
  std::string why_;
};

}  // namespace

Result<std::vector<Part>> parse_multipart(std::string_view content_type, std::string_view body) {
  const auto delimiter = delimiter_of(content_type);
  if (!delimiter.ok()) return delimiter.error();
  PartReader reader(body, *delimiter);
  std::vector<Part> parts;
  while (true) {
    const PartReader::Step step = reader.next();
    if (step == PartReader::Step::kEnd) return parts;
    if (step != PartReader::Step::kPart) return invalid(reader.why());
    if (parts.size() == kMostParts) return invalid("the body has too many parts");
    parts.push_back(reader.part());
  }
}

Result<std::optional<std::string_view>> find_part(std::string_view content_type,
                                                  std::string_view beginning,
                                                  std::string_view name) {
  const auto delimiter = delimiter_of(content_type);
  if (!delimiter.ok()) return delimiter.error();
  PartReader reader(beginning, *delimiter);
  while (true) {
    switch (reader.next()) {
      case PartReader::Step::kPart:
        if (reader.part().name == name) return std::optional(reader.part().content);
        break;
      case PartReader::Step::kEnd:
        return invalid("the body has no part '" + std::string(name) + "'");
      case PartReader::Step::kBroken:
        return invalid(reader.why());
      case PartReader::Step::kIncomplete:
        return std::optional<std::string_view>();
    }
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
