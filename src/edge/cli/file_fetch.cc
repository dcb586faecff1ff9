#include "edge/cli/file_fetch.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/base/base64.h"
#include "core/base/json_text.h"
#include "core/base/parse_number.h"
#include "core/crypto/crypto.h"
#include "core/domain/volume.h"
#include "edge/cli/volume_files.h"

namespace lambent::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostState = 64 * 1024;
constexpr size_t kMostRefusal = 8 * 1024;
constexpr size_t kMostSaid = 200;
// Without progress.

std::optional<Bytes> bytes_in(std::string_view text) {
  const auto number = parse_number<uint64_t>(text);
  return number ? std::optional(Bytes(*number)) : std::nullopt;
}

// "bytes 5-9/10", or "bytes */10".
struct ContentRange {
  std::optional<Bytes> first;
  std::optional<Bytes> size;
};
ContentRange content_range(const CurlHead& head) {
  std::string_view text = head.headers.get("Content-Range");
  if (!text.starts_with("bytes ")) return {};
  text.remove_prefix(6);
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return {};
  return {.first = bytes_in(text.substr(0, text.find('-'))),
          .size = bytes_in(text.substr(slash + 1))};
}

// What an S3 store says in XML, or anyone in a line of text; empty: nothing that one could show.
std::string said_in(std::string_view body) {
  const size_t message = body.find("<Message>");
  if (message != std::string_view::npos) {
    body.remove_prefix(message + 9);
    body = body.substr(0, body.find('<'));
  } else if (body.find('<') != std::string_view::npos || body.find('{') != std::string_view::npos) {
    return "";
  }
  std::string said;
  for (const char c : body.substr(0, kMostSaid)) {
    if (c == '\n' && !said.empty()) break;
    if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) said += c;
  }
  return said;
}

}  // namespace

ServedFile served_file(const CurlHead& head) {
  ServedFile file;
  const std::string_view tag = head.headers.get("ETag");
  file.tag = tag.starts_with('"') ? tag : head.headers.get("Last-Modified");
  file.size =
      head.status == 206 ? content_range(head).size : bytes_in(head.headers.get("Content-Length"));
  return file;
}

std::string told_sha256(const CurlHead& head) {
  // Of a file that was sent in parts it is a checksum of checksums, "...-3" or by its type.
  const std::string_view type = head.headers.get("x-amz-checksum-type");
  if (!type.empty() && type != "FULL_OBJECT") return "";
  const auto digest = base64_decode(head.headers.get("x-amz-checksum-sha256"));
  return digest && digest->size() == 32 ? crypto::to_hex(*digest) : "";
}

std::optional<Bytes> first_byte(const CurlHead& head) { return content_range(head).first; }

Error error_of_status(int status, std::string_view body) {
  const std::string said = said_in(body);
  const std::string text =
      "the server answers " + std::to_string(status) + (said.empty() ? "" : ": " + said);
  if (status == 404 || status == 410) return {ErrorCode::kNotFound, text};
  if (status == 401 || status == 403) return {ErrorCode::kPermissionDenied, text};
  const bool is_passing = status == 408 || status == 429 || (status >= 500 && status != 501);
  return {is_passing ? ErrorCode::kUnavailable : ErrorCode::kFailedPrecondition, text};
}

void FileFetch::read_state() {
  served_ = {};
  sha256_.clear();
  const auto text = read_file(state(), kMostState);
  if (!text.ok()) return;
  const Json json = Json::parse(*text, nullptr, false);
  if (!json.is_object()) return;
  const auto tag = json.find("tag");
  if (tag != json.end() && tag->is_string()) served_.tag = *tag;
  const auto digest = json.find("sha256");
  if (digest != json.end() && digest->is_string() &&
      validate_sha256(digest->get<std::string>()).ok()) {
    sha256_ = *digest;
  }
  const auto size = json.find("size");
  if (size != json.end() && size->is_number_unsigned()) served_.size = Bytes(size->get<uint64_t>());
}

Result<void> FileFetch::write_state() const {
  Json json = {{"tag", served_.tag}};
  if (served_.size) json["size"] = served_.size->count;
  if (!sha256_.empty()) json["sha256"] = sha256_;
  return write_file_atomically(state(), json_text(json), false);
}

Result<void> FileFetch::open() {
  for (const std::string& path : {local_, work_}) {
    std::error_code error;
    const std::filesystem::path folder = std::filesystem::path(path).parent_path();
    std::filesystem::create_directories(folder, error);
    if (error) return error_from_errno("create " + folder.string(), error.value());
  }
  // One that is whole is looked at again: the server may have another by now.
  rename(local_.c_str(), part().c_str());
  file_ = OwnedFd(::open(part().c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file_.valid()) return error_from_errno("write " + part(), errno);
  const off_t end = lseek(file_.get(), 0, SEEK_END);
  if (end < 0) return error_from_errno("read " + part(), errno);
  size_ = furthest_ = Bytes(static_cast<uint64_t>(end));
  read_state();
  return {};
}

Result<void> FileFetch::begin_again() {
  size_ = Bytes();
  if (ftruncate(file_.get(), 0) != 0 || lseek(file_.get(), 0, SEEK_SET) != 0) {
    return error_from_errno("write " + part(), errno);
  }
  return {};
}

Result<void> FileFetch::check_size(Bytes size) const {
  if (size <= most_) return {};
  return too_large(most_);
}

Result<void> FileFetch::begin_body(const CurlHead& head) {
  has_begun_ = true;
  const std::string_view coding = head.headers.get("Content-Encoding");
  if (!coding.empty() && coding != "identity") {
    return Error{ErrorCode::kFailedPrecondition,
                 "the server sends it in '" + std::string(coding) + "', which was not asked for"};
  }
  const ServedFile now = served_file(head);
  if (head.status == 206) {
    // What was asked for is what comes, or the parts do not fit together.
    if (first_byte(head) != size_ || now.tag != served_.tag ||
        (served_.size && now.size != served_.size)) {
      RETURN_IF_ERROR(begin_again());
      return Error{ErrorCode::kAborted, "the server has another file by now"};
    }
  } else {
    RETURN_IF_ERROR(begin_again());
  }
  served_ = now;
  if (head.status == 200) sha256_ = told_sha256(head);
  if (now.size) RETURN_IF_ERROR(check_size(*now.size));
  RETURN_IF_ERROR(write_state());
  const std::string name = std::filesystem::path(local_).filename();
  progress_ = std::make_unique<TransferProgress>(console_, name, now.size.value_or(most_));
  return {};
}

Result<void> FileFetch::take(const CurlHead& head, std::string_view piece) {
  if (head.status != 200 && head.status != 206) {
    refusal_ += piece.substr(0, kMostRefusal - std::min(kMostRefusal, refusal_.size()));
    return {};
  }
  if (!has_begun_) RETURN_IF_ERROR(begin_body(head));
  RETURN_IF_ERROR(check_size(size_ + Bytes(piece.size())));
  RETURN_IF_ERROR(write_all(file_.get(), piece));
  size_ += Bytes(piece.size());
  furthest_ = std::max(furthest_, size_);
  progress_->show("fetched", size_);
  return {};
}

Result<void> FileFetch::try_once() {
  CurlRequest request = request_;
  request.most = most_;
  const bool goes_on = size_ > Bytes() && !served_.tag.empty();
  const bool is_whole = goes_on && served_.size == size_;
  // Without a name for what the server had, nothing says that it is the same.
  if (!goes_on) RETURN_IF_ERROR(begin_again());
  if (is_whole) {
    const bool is_date = !served_.tag.starts_with('"');
    request.headers.push_back((is_date ? "If-Modified-Since: " : "If-None-Match: ") + served_.tag);
  } else if (goes_on) {
    request.headers.push_back("Range: bytes=" + std::to_string(size_.count) + "-");
    request.headers.push_back("If-Range: " + served_.tag);
  }
  if (lseek(file_.get(), 0, SEEK_END) < 0) return error_from_errno("write " + part(), errno);
  has_begun_ = false;
  refusal_.clear();
  const auto head = run_curl_hops(
      request, [this](const CurlHead& at, std::string_view piece) { return take(at, piece); });
  progress_.reset();
  if (!head.ok()) return head.error();
  if (head->status == 304 && is_whole) return {};
  if (head->status == 416 && goes_on) {
    RETURN_IF_ERROR(begin_again());
    return Error{ErrorCode::kAborted, "the server has another file by now"};
  }
  if (head->status != 200 && head->status != 206) {
    return error_of_status(head->status, refusal_);
  }
  // An empty body is none that the sink saw.
  if (!has_begun_) RETURN_IF_ERROR(begin_body(*head));
  if (served_.size && *served_.size != size_) {
    return Error{ErrorCode::kAborted,
                 "it was cut off after " + to_string(size_) + " of " + to_string(*served_.size)};
  }
  return {};
}

Result<void> FileFetch::finish(const std::string& wanted) {
  const std::string& sha256 = wanted.empty() ? sha256_ : wanted;
  if (!sha256.empty()) {
    ASSIGN_OR_RETURN(const MeasuredFile measured, measure_file(part(), [](Bytes) {}));
    if (measured.sha256 != sha256) {
      unlink(part().c_str());
      unlink(state().c_str());
      return Error{ErrorCode::kDataLoss,
                   "what came has the sha256 " + measured.sha256 + ", and not " + sha256};
    }
  }
  if (rename(part().c_str(), local_.c_str()) != 0) {
    return error_from_errno("write " + local_, errno);
  }
  return {};
}

Result<void> FileFetch::run(const std::string& sha256) {
  RETURN_IF_ERROR(open());
  const auto fetched =
      with_tries([&] { return try_once(); }, [&] { return furthest_; }, kFetchTries);
  if (fetched.ok()) return finish(sha256);
  // Of a file that cannot be had, or not be kept, nothing stays.
  const ErrorCode code = fetched.error().code;
  const bool goes_on = code == ErrorCode::kAborted || code == ErrorCode::kUnavailable ||
                       code == ErrorCode::kDeadlineExceeded;
  if (!goes_on || size_ == Bytes() || served_.tag.empty()) {
    unlink(part().c_str());
    unlink(state().c_str());
    return fetched;
  }
  Error error = fetched.error();
  error.message += "; " + to_string(size_) + " came and are kept, and the next try goes on there";
  return error;
}

}  // namespace lambent::cli
