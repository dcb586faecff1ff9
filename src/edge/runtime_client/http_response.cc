#include "edge/runtime_client/http_response.h"

#include <charconv>

namespace lambent::runtime_client {
namespace {

Error invalid(const char* what) {
  return {ErrorCode::kInvalidArgument, std::string("answer of the Runtime API: ") + what};
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool same_word(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (lower(a[i]) != lower(b[i])) return false;
  }
  return true;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// All of `text` as a number in `base`, at most kMostBodyBytes.
Result<size_t> read_size(std::string_view text, int base) {
  size_t size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size, base);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) {
    return invalid("bad length");
  }
  if (size > kMostBodyBytes) return invalid("body too large");
  return size;
}

Result<void> read_status(std::string_view line, HttpResponse& response) {
  if (line.size() < 12 || !line.starts_with("HTTP/1.") || line[8] != ' ' ||
      (line.size() > 12 && line[12] != ' ')) {
    return invalid("no HTTP/1 status line");
  }
  const auto [end, error] = std::from_chars(line.data() + 9, line.data() + 12, response.status);
  if (error != std::errc() || end != line.data() + 12 || response.status < 100) {
    return invalid("bad status");
  }
  response.keep_alive = line[7] == '1';
  return {};
}

Result<void> read_headers(std::string_view text, HttpResponse& response) {
  while (!text.empty()) {
    const size_t end = text.find("\r\n");
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 2);
    const size_t colon = line.find(':');
    if (colon == 0 || colon == std::string_view::npos) return invalid("bad header");
    const std::string_view name = line.substr(0, colon);
    if (name.find_first_of(" \t\n\r") != std::string_view::npos) return invalid("bad header name");
    response.headers.emplace_back(name, trimmed(line.substr(colon + 1)));
  }
  return {};
}

// Joins the chunks that start at `text`; false if more is needed.
Result<bool> read_chunks(std::string_view text, HttpResponse& response) {
  const size_t before = text.size();
  while (true) {
    const size_t end = text.find("\r\n");
    if (end == std::string_view::npos) {
      if (text.size() > 32) return invalid("bad chunk");
      return false;
    }
    ASSIGN_OR_RETURN(const size_t size, read_size(text.substr(0, end), 16));
    if (text.size() < end + 2 + size + 2) return false;
    if (text.substr(end + 2 + size, 2) != "\r\n") return invalid("bad end of a chunk");
    if (size + response.joined_chunks.size() > kMostBodyBytes) return invalid("body too large");
    response.joined_chunks += text.substr(end + 2, size);
    text.remove_prefix(end + 2 + size + 2);
    if (size == 0) break;
  }
  response.consumed += before - text.size();
  return true;
}

}  // namespace

std::string_view HttpResponse::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (same_word(key, name)) return value;
  }
  return {};
}

Result<bool> parse_response(std::string_view buffer, HttpResponse& response) {
  response = HttpResponse{};
  const size_t end = buffer.find("\r\n\r\n");
  if (end == std::string_view::npos) {
    if (buffer.size() > kMostHeaderBytes) return invalid("headers too large");
    return false;
  }
  const size_t first = buffer.find("\r\n");
  RETURN_IF_ERROR(read_status(buffer.substr(0, first), response));
  RETURN_IF_ERROR(read_headers(buffer.substr(first + 2, end - first), response));
  if (same_word(response.header("connection"), "close")) response.keep_alive = false;
  response.consumed = end + 4;

  const std::string_view coding = response.header("transfer-encoding");
  const std::string_view length = response.header("content-length");
  if (!coding.empty()) {
    if (!same_word(coding, "chunked") || !length.empty()) return invalid("unknown coding");
    response.chunked = true;
    return read_chunks(buffer.substr(response.consumed), response);
  }
  if (response.status == 204 || response.status == 304) return true;
  if (length.empty()) return invalid("no length");
  ASSIGN_OR_RETURN(const size_t size, read_size(length, 10));
  if (buffer.size() - response.consumed < size) return false;
  response.body = buffer.substr(response.consumed, size);
  response.consumed += size;
  return true;
}

}  // namespace lambent::runtime_client
