#include "node/images/pull_failure.h"

#include <algorithm>
#include <initializer_list>
#include <optional>

namespace lambent::images {
namespace {

constexpr size_t kMostSaid = 600;

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool has_any(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::ranges::any_of(parts, [text](std::string_view part) { return has(text, part); });
}

// The last line that is not empty, without the log's own words: time="..." level=fatal msg="...".
std::string said(std::string_view output) {
  while (!output.empty() && (output.back() == '\n' || output.back() == ' '))
    output.remove_suffix(1);
  output.remove_prefix(output.rfind('\n') + 1);
  if (const size_t at = output.find("msg=\""); at != std::string_view::npos) {
    output.remove_prefix(at + 5);
    if (output.ends_with('"')) output.remove_suffix(1);
  }
  // umoci's mark.
  while (!output.empty() &&
         (output.front() == ' ' || static_cast<unsigned char>(output.front()) >= 0x80)) {
    output.remove_prefix(1);
  }
  std::string line;
  for (const char c : output.substr(0, kMostSaid)) {
    if (c != '\\') line += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return line;
}

std::optional<Error> full_disk(const std::string& reference, std::string_view output) {
  if (!has_any(output, {"no space left", "No space left", "disk quota"})) return std::nullopt;
  return Error{ErrorCode::kStorageFull,
               "image " + reference + ": the disk of the state folder is full"};
}

}  // namespace

Error unpack_failure(const std::string& reference, std::string_view output) {
  if (const auto full = full_disk(reference, output)) return *full;
  return {ErrorCode::kInvalidArgument,
          "image " + reference + ": its layers cannot be unpacked: " + said(output)};
}

Error pull_failure(const std::string& reference, std::string_view output) {
  const std::string what = "image " + reference + ": ";
  if (const auto full = full_disk(reference, output)) return *full;
  if (has_any(output, {"no image found in manifest list", "no image found in image index"})) {
    return {ErrorCode::kInvalidArgument, what + "it is not for this machine: " + said(output)};
  }
  if (has(output, "/opt/lambent/source") && has(output, "permission denied")) {
    return {ErrorCode::kFailedPrecondition,
            what +
                "its files are not readable for all users of the worker's machine; chmod -R "
                "a+rX makes them so"};
  }
  if (has_any(output, {"unauthorized", "authentication required", "denied", "forbidden"})) {
    return {ErrorCode::kPermissionDenied,
            what +
                "its registry does not let the worker have it, or has no such image; "
                "keep credentials of yours as the secret registry-auth, or the operator gives some "
                "with --registry-auth: " +
                said(output)};
  }
  const std::string is_none = what + "there is no such image or tag: ";
  if (has_any(output, {"manifest unknown", "name unknown", "NAME_UNKNOWN", "MANIFEST_UNKNOWN",
                       "unknown: artifact"})) {
    return {ErrorCode::kNotFound, is_none + said(output)};
  }
  if (has_any(output, {"not found", "no descriptor found", "no such file or directory"})) {
    return {ErrorCode::kInvalidArgument, is_none + said(output)};
  }
  if (has_any(output,
              {"connection refused", "no such host", "i/o timeout", "connection reset",
               "Temporary failure", "TLS handshake", "x509", "server gave HTTP response",
               "network is unreachable", "EOF", "502 Bad", "503 Service", "too many requests"})) {
    return {ErrorCode::kUnavailable, what + "its registry did not serve it: " + said(output)};
  }
  return {ErrorCode::kInvalidArgument, what + "it cannot be read: " + said(output)};
}

}  // namespace lambent::images
