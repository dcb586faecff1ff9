#include "core/domain/volume.h"

#include <algorithm>

#include "core/domain/limits.h"

namespace lambent {
namespace {

Error bad_path(std::string_view path, const std::string& why) {
  return {ErrorCode::kInvalidArgument,
          "'" + std::string(path.substr(0, 200)) + "' is not a path of a file in a volume: " + why};
}

// How many bytes a character that begins so has, and the least that it may stand for; 0: none does.
struct Utf8Form {
  int bytes;
  uint32_t bits;
  uint32_t least;
};
Utf8Form form_of(unsigned char first) {
  if (first < 0x80) return {1, first, 0};
  if (first >= 0xC2 && first < 0xE0) return {2, first & 0x1FU, 0x80};
  if (first >= 0xE0 && first < 0xF0) return {3, first & 0x0FU, 0x800};
  if (first >= 0xF0 && first < 0xF5) return {4, first & 0x07U, 0x10000};
  return {0, 0, 0};
}

bool is_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const Utf8Form form = form_of(static_cast<unsigned char>(text[at]));
    if (form.bytes == 0 || at + form.bytes > text.size()) return false;
    uint32_t character = form.bits;
    for (int i = 1; i < form.bytes; ++i) {
      const auto next = static_cast<unsigned char>(text[at + i]);
      if ((next & 0xC0) != 0x80) return false;
      character = character << 6 | (next & 0x3FU);
    }
    const bool is_surrogate = character >= 0xD800 && character < 0xE000;
    if (character < form.least || character > 0x10FFFF || is_surrogate) return false;
    at += form.bytes;
  }
  return true;
}

}  // namespace

Result<void> validate_volume_path(std::string_view path) {
  if (path.empty()) return bad_path(path, "it is empty");
  if (path.size() > limits::kVolumePathLength) {
    return bad_path(path,
                    "it has more than " + std::to_string(limits::kVolumePathLength) + " bytes");
  }
  if (path.front() == '/') return bad_path(path, "it begins with '/'");
  const auto is_control = [](unsigned char c) { return c < ' ' || c == 127; };
  if (std::any_of(path.begin(), path.end(), is_control) || !is_utf8(path)) {
    return Error{ErrorCode::kInvalidArgument,
                 "a path in a volume is UTF-8 without control characters"};
  }
  size_t parts = 0;
  for (size_t start = 0; start <= path.size(); ++parts) {
    const size_t end = std::min(path.find('/', start), path.size());
    const std::string_view part = path.substr(start, end - start);
    if (part.empty()) return bad_path(path, "it has an empty part, or '/' at its end");
    if (part == "." || part == "..") return bad_path(path, "it has a part '.' or '..'");
    if (part.size() > limits::kVolumePartLength) {
      return bad_path(path, "one of its parts has more than " +
                                std::to_string(limits::kVolumePartLength) + " bytes");
    }
    start = end + 1;
  }
  if (parts > limits::kVolumePathDepth) {
    return bad_path(path,
                    "it has more than " + std::to_string(limits::kVolumePathDepth) + " parts");
  }
  return {};
}

Result<void> validate_sha256(std::string_view digest) {
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (digest.size() == 64 && std::all_of(digest.begin(), digest.end(), is_digit)) return {};
  return Error{ErrorCode::kInvalidArgument,
               "a sha256 is 64 hexadecimal digits in lower case, as sha256sum shows it"};
}

}  // namespace lambent
