#include "edge/cli/volume_upload.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/base/fd.h"
#include "core/domain/limits.h"
#include "core/http/message.h"
#include "edge/cli/api_error.h"
#include "edge/cli/api_json.h"

namespace lambent::cli {
namespace {

using Json = nlohmann::ordered_json;

// Without any progress.
constexpr Duration kTransferTimeout = seconds(120);
// How long after the first failure a transfer is tried again.
constexpr Duration kFirstPause = milliseconds(200);
constexpr Duration kLongestPause = seconds(5);

// Whether the same again may end well.
bool is_passing(const Error& error) {
  return error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kAborted ||
         error.code == ErrorCode::kDeadlineExceeded;
}

}  // namespace

std::string volume_target(const std::string& volume, std::string_view rest) {
  return "/v1/volumes/" + http::percent_encode(volume) + std::string(rest);
}

std::string escaped_path(std::string_view path) {
  std::string text;
  for (size_t start = 0; start <= path.size();) {
    const size_t end = std::min(path.find('/', start), path.size());
    text += (start == 0 ? "" : "/") + http::percent_encode(path.substr(start, end - start));
    start = end + 1;
  }
  return text;
}

TransferProgress::~TransferProgress() {
  if (shown_) console_.err << "\r\x1b[K" << std::flush;
}

void TransferProgress::show(const char* doing, Bytes done) {
  if (!console_.err_is_terminal || console_.json) return;
  const Instant now = clock_.now();
  if (shown_ && now - last_ < milliseconds(100)) return;
  last_ = now;
  shown_ = true;
  const double part =
      total_ == Bytes() ? 1 : static_cast<double>(done.count) / static_cast<double>(total_.count);
  char percent[16];
  std::snprintf(percent, sizeof percent, "%3.0f %%", part * 100);
  console_.err << "\r\x1b[K" << name_ << "  " << doing << " " << percent << "  " << to_string(done)
               << " of " << to_string(total_) << std::flush;
}

Result<void> with_tries(const std::function<Result<void>()>& attempt,
                        const std::function<Bytes()>& progress, int most) {
  Bytes before = progress();
  Duration pause = kFirstPause;
  for (int failures = 0;;) {
    const Result<void> done = attempt();
    if (done.ok() || !is_passing(done.error())) return done;
    if (progress() > before) {
      before = progress();
      failures = 0;
      pause = kFirstPause;
    }
    if (++failures >= most) return done;
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, kLongestPause);
  }
}

Result<VolumeUpload::Put> VolumeUpload::put(const LocalFile& file) {
  std::error_code ignored;
  const Bytes size(std::filesystem::file_size(file.local, ignored));
  Put result;
  {
    TransferProgress progress(console_, file.path, size);
    ASSIGN_OR_RETURN(result.measured,
                     measure_file(file.local, [&](Bytes done) { progress.show("read", done); }));
  }
  ASSIGN_OR_RETURN(result.how, put(file, result.measured));
  return result;
}

Result<std::string> VolumeUpload::put(const LocalFile& file, const MeasuredFile& measured) {
  TransferProgress progress(console_, file.path, measured.size);
  query_ = "?size=" + std::to_string(measured.size.count) + "&sha256=" + measured.sha256;
  how_ = "unchanged";
  furthest_ = Bytes();
  RETURN_IF_ERROR(
      with_tries([&] { return try_once(file, measured, progress); }, [&] { return furthest_; }));
  return how_;
}

Result<void> VolumeUpload::try_once(const LocalFile& file, const MeasuredFile& measured,
                                    TransferProgress& progress) {
  ASSIGN_OR_RETURN(
      const Json status,
      ask_json(transport_, "GET",
               volume_target(volume_, "/uploads/" + escaped_path(file.path) + query_)));
  if (status.value("complete", false)) return {};
  const Bytes offset(status.value("offset", uint64_t{0}));
  furthest_ = std::max(furthest_, offset);
  how_ = offset > Bytes() ? "continued" : "sent";
  return send(file, measured, offset, progress);
}

Result<void> VolumeUpload::send(const LocalFile& file, const MeasuredFile& measured, Bytes offset,
                                TransferProgress& progress) {
  const OwnedFd opened(open(file.local.c_str(), O_RDONLY | O_CLOEXEC));
  if (!opened.valid()) return error_from_errno("open " + file.local, errno);
  if (lseek(opened.get(), static_cast<off_t>(offset.count), SEEK_SET) < 0) {
    return error_from_errno("read " + file.local, errno);
  }
  http::Request request{
      .method = "PUT",
      .target = volume_target(volume_, "/files/" + escaped_path(file.path) + query_ +
                                           "&offset=" + std::to_string(offset.count))};
  request.headers.add("Content-Type", "application/octet-stream");
  Bytes sent = offset;
  const http::BodySource source = [&](std::string& piece) -> Result<void> {
    piece.resize(std::min(limits::kVolumePiece, measured.size - sent).count);
    const ssize_t got = read(opened.get(), piece.data(), piece.size());
    if (got < 0) return error_from_errno("read " + file.local, errno);
    if (got == 0) {
      return Error{ErrorCode::kFailedPrecondition, file.local + " changed while it was sent"};
    }
    piece.resize(static_cast<size_t>(got));
    sent += Bytes(piece.size());
    progress.show("sent", sent);
    return {};
  };
  ASSIGN_OR_RETURN(
      const http::Response answered,
      good(transport_.upload(request, measured.size - offset, kTransferTimeout, source)));
  const Json json = Json::parse(answered.body, nullptr, false);
  if (json.is_object() && json.value("complete", false)) return {};
  return Error{ErrorCode::kAborted, "the worker does not have all of " + file.path};
}

}  // namespace lambent::cli
