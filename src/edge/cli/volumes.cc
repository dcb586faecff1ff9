#include "edge/cli/volumes.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "core/base/fd.h"
#include "core/domain/limits.h"
#include "core/domain/volume.h"
#include "core/http/message.h"
#include "edge/cli/api_error.h"
#include "edge/cli/api_json.h"
#include "edge/cli/text_table.h"
#include "edge/cli/volume_files.h"

namespace lambent::cli {
namespace {

using Json = nlohmann::ordered_json;

// Without any progress.
constexpr Duration kTimeout = seconds(120);
// How often a transfer without progress is tried again, and how long after the first failure.
constexpr int kMostTries = 8;
constexpr Duration kFirstPause = milliseconds(200);
constexpr Duration kLongestPause = seconds(5);
constexpr Bytes kGetPiece = Bytes::mib(16);

std::string target_of(const std::string& volume, std::string_view rest = "") {
  return "/v1/volumes/" + http::percent_encode(volume) + std::string(rest);
}

// Its parts escaped, the '/' between them as they are.
std::string escaped(std::string_view path) {
  std::string text;
  for (size_t start = 0; start <= path.size();) {
    const size_t end = std::min(path.find('/', start), path.size());
    text += (start == 0 ? "" : "/") + http::percent_encode(path.substr(start, end - start));
    start = end + 1;
  }
  return text;
}

std::string size_text(uint64_t bytes) { return to_string(Bytes(bytes)); }

// One line that is written over, on a terminal.
class Progress {
 public:
  Progress(Console& console, std::string name, Bytes total)
      : console_(console), name_(std::move(name)), total_(total) {}
  ~Progress() {
    if (shown_) console_.err << "\r\x1b[K" << std::flush;
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(const char* doing, Bytes done) {
    if (!console_.err_is_terminal || console_.json) return;
    const Instant now = clock_.now();
    if (shown_ && now - last_ < milliseconds(100)) return;
    last_ = now;
    shown_ = true;
    const double part =
        total_ == Bytes() ? 1 : static_cast<double>(done.count) / static_cast<double>(total_.count);
    char percent[16];
    std::snprintf(percent, sizeof percent, "%3.0f %%", part * 100);
    console_.err << "\r\x1b[K" << name_ << "  " << doing << " " << percent << "  "
                 << to_string(done) << " of " << to_string(total_) << std::flush;
  }

 private:
  Console& console_;
  const std::string name_;
  const Bytes total_;
  const SystemClock clock_;
  Instant last_{};
  bool shown_ = false;
};

// Whether the same again may end well.
bool is_passing(const Error& error) {
  return error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kAborted ||
         error.code == ErrorCode::kDeadlineExceeded;
}

// Tries until it is done; a try that got further than those before it counts from new.
Result<void> with_tries(const std::function<Result<void>()>& attempt,
                        const std::function<Bytes()>& progress) {
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
    if (++failures >= kMostTries) return done;
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, kLongestPause);
  }
}

class Putter {
 public:
  Putter(Transport& transport, Console& console, const std::string& volume)
      : transport_(transport), console_(console), volume_(volume) {}

  // "sent", "continued" or "unchanged".
  Result<std::string> put(const LocalFile& file, Measured& measured) {
    std::error_code ignored;
    const Bytes size(std::filesystem::file_size(file.local, ignored));
    Progress progress(console_, file.path, size);
    ASSIGN_OR_RETURN(measured,
                     measure_file(file.local, [&](Bytes done) { progress.show("read", done); }));
    query_ = "?size=" + std::to_string(measured.size.count) + "&sha256=" + measured.sha256;
    how_ = "unchanged";
    furthest_ = Bytes();
    RETURN_IF_ERROR(
        with_tries([&] { return try_once(file, measured, progress); }, [&] { return furthest_; }));
    return how_;
  }

 private:
  Result<void> try_once(const LocalFile& file, const Measured& measured, Progress& progress) {
    ASSIGN_OR_RETURN(
        const Json status,
        ask_json(transport_, "GET", target_of(volume_, "/uploads/" + escaped(file.path) + query_)));
    if (status.value("complete", false)) return {};
    const Bytes offset(status.value("offset", uint64_t{0}));
    furthest_ = std::max(furthest_, offset);
    how_ = offset > Bytes() ? "continued" : "sent";
    return send(file, measured, offset, progress);
  }

  Result<void> send(const LocalFile& file, const Measured& measured, Bytes offset,
                    Progress& progress) {
    const OwnedFd opened(open(file.local.c_str(), O_RDONLY | O_CLOEXEC));
    if (!opened.valid()) return error_from_errno("open " + file.local, errno);
    if (lseek(opened.get(), static_cast<off_t>(offset.count), SEEK_SET) < 0) {
      return error_from_errno("read " + file.local, errno);
    }
    http::Request request{
        .method = "PUT",
        .target = target_of(volume_, "/files/" + escaped(file.path) + query_ +
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
    ASSIGN_OR_RETURN(const http::Response answered,
                     good(transport_.upload(request, measured.size - offset, kTimeout, source)));
    const Json json = Json::parse(answered.body, nullptr, false);
    if (json.is_object() && json.value("complete", false)) return {};
    return Error{ErrorCode::kAborted, "the worker does not have all of " + file.path};
  }

  Transport& transport_;
  Console& console_;
  const std::string volume_;
  std::string query_;
  std::string how_;
  Bytes furthest_;  // that the worker had of it
};

struct RemoteFile {
  std::string path;
  Bytes size;
  std::string sha256;
};

Result<std::vector<RemoteFile>> remote_files(Transport& transport, const std::string& volume,
                                             const std::string& prefix) {
  std::vector<RemoteFile> files;
  std::string after;
  for (;;) {
    ASSIGN_OR_RETURN(const Json page,
                     ask_json(transport, "GET",
                              target_of(volume, "/files?prefix=" + http::percent_encode(prefix) +
                                                    "&after=" + http::percent_encode(after))));
    for (const Json& file : page.value("files", Json::array())) {
      files.push_back({file.value("path", ""), Bytes(file.value("size_bytes", uint64_t{0})),
                       file.value("sha256", "")});
      // It becomes a path of this machine.
      RETURN_IF_ERROR(validate_volume_path(files.back().path));
    }
    const std::string next = page.value("next", "");
    if (next.empty() || next <= after) return files;
    after = next;
  }
}

// In pieces that fit into memory: the status of an answer is known before its bytes are kept.
Result<void> get_rest(Transport& transport, const std::string& volume, const RemoteFile& file,
                      PartFile& part, Progress& progress) {
  while (part.size() < file.size) {
    const uint64_t end = std::min(part.size() + kGetPiece, file.size).count;
    http::Request request{
        .method = "GET",
        .target = target_of(volume, "/files/" + escaped(file.path) + "?sha256=" + file.sha256)};
    request.headers.add(
        "Range", "bytes=" + std::to_string(part.size().count) + "-" + std::to_string(end - 1));
    ASSIGN_OR_RETURN(const http::Response piece, good(transport.send(request, kTimeout)));
    if (piece.status != 206 || piece.body.size() != end - part.size().count) {
      return Error{ErrorCode::kInternal, "the worker answers with other bytes than were asked for"};
    }
    RETURN_IF_ERROR(part.append(piece.body));
    progress.show("got", part.size());
  }
  return {};
}

Result<std::string> get_file(Transport& transport, Console& console, const std::string& volume,
                             const RemoteFile& file, const std::string& local) {
  Progress progress(console, file.path, file.size);
  if (std::filesystem::is_regular_file(local)) {
    const auto has = measure_file(local, [&](Bytes done) { progress.show("read", done); });
    if (has.ok() && has->sha256 == file.sha256) return std::string("unchanged");
  }
  PartFile part(local);
  RETURN_IF_ERROR(part.open(file.size));
  const bool continues = part.size() > Bytes();
  RETURN_IF_ERROR(with_tries([&] { return get_rest(transport, volume, file, part, progress); },
                             [&] { return part.size(); }));
  RETURN_IF_ERROR(part.finish(file.sha256));
  return std::string(continues ? "continued" : "got");
}

// A line for each file, or all of them as JSON at the end.
class Report {
 public:
  explicit Report(Console& console) : console_(console) {}
  void add(const std::string& path, Bytes size, const std::string& sha256, const std::string& how) {
    if (console_.json) {
      files_.push_back(
          {{"path", path}, {"size_bytes", size.count}, {"sha256", sha256}, {"how", how}});
    } else {
      console_.out << path << "  " << to_string(size) << "  " << how << "\n" << std::flush;
    }
  }
  void end() {
    if (console_.json) console_.out << Json{{"files", files_}}.dump(2) << "\n";
  }

 private:
  Console& console_;
  Json files_ = Json::array();
};

int list_volumes(Transport& transport, Console& console) {
  const auto list = ask_json(transport, "GET", "/v1/volumes");
  if (!list.ok()) return fail(console, list.error());
  if (console.json) {
    console.out << list->dump(2) << "\n";
    return 0;
  }
  TextTable table({"NAME", "FILES", "SIZE", "UNFINISHED"});
  for (const Json& volume : list->value("volumes", Json::array())) {
    table.add({volume.value("name", "-"), std::to_string(volume.value("files", uint64_t{0})),
               size_text(volume.value("size_bytes", uint64_t{0})),
               size_text(volume.value("unfinished_bytes", uint64_t{0}))});
  }
  console.out << table.str();
  return 0;
}

int change(Transport& transport, Console& console, const char* method, const std::string& target,
           const std::string& name) {
  const auto changed = ask_json(transport, method, target);
  if (!changed.ok()) return fail(console, changed.error());
  console.out << (console.json ? changed->dump() : name) << "\n";
  return 0;
}

}  // namespace

int run_volumes_ls(Transport& transport, Console& console, const std::string& volume,
                   const std::string& prefix) {
  if (volume.empty()) return list_volumes(transport, console);
  const auto files = remote_files(transport, volume, prefix);
  if (!files.ok()) return fail(console, files.error());
  Json list = Json::array();
  TextTable table({"PATH", "SIZE", "SHA256"});
  for (const RemoteFile& file : *files) {
    table.add({file.path, to_string(file.size), file.sha256.substr(0, 12)});
    list.push_back({{"path", file.path}, {"size_bytes", file.size.count}, {"sha256", file.sha256}});
  }
  console.out << (console.json ? Json{{"files", list}}.dump(2) + "\n" : table.str());
  return 0;
}

int run_volumes_create(Transport& transport, Console& console, const std::string& volume) {
  return change(transport, console, "PUT", target_of(volume), volume);
}

int run_volumes_put(Transport& transport, Console& console, const PutOptions& options) {
  const auto files = files_to_put(options.local, options.path, options.follow_links);
  if (!files.ok()) return fail(console, files.error());
  Putter putter(transport, console, options.volume);
  Report report(console);
  for (const LocalFile& file : *files) {
    Measured measured;
    const auto how = putter.put(file, measured);
    if (!how.ok()) return fail(console, how.error().with_context("put " + file.local));
    report.add(file.path, measured.size, measured.sha256, *how);
  }
  report.end();
  return 0;
}

int run_volumes_get(Transport& transport, Console& console, const GetOptions& options) {
  const bool is_all = options.path == ".";
  const auto listed = remote_files(transport, options.volume, is_all ? "" : options.path);
  if (!listed.ok()) return fail(console, listed.error());
  const std::string below = options.path + "/";
  Report report(console);
  size_t count = 0;
  for (const RemoteFile& file : *listed) {
    const bool is_it = file.path == options.path;
    if (!is_it && !is_all && !file.path.starts_with(below)) continue;
    ++count;
    const std::string last = std::filesystem::path(options.path).filename();
    const std::string top = options.local.empty() ? last : options.local;
    std::string local = top;
    if (!is_it) local += "/" + (is_all ? file.path : file.path.substr(below.size()));
    if (is_it && std::filesystem::is_directory(top)) local = top + "/" + last;
    const auto how = get_file(transport, console, options.volume, file, local);
    if (!how.ok()) return fail(console, how.error().with_context("get " + file.path));
    report.add(file.path, file.size, file.sha256, *how);
  }
  report.end();
  if (count > 0 || is_all) return 0;
  return fail(console,
              {ErrorCode::kNotFound,
               "volume '" + options.volume + "' has no file and no folder '" + options.path + "'"});
}

int run_volumes_rm(Transport& transport, Console& console, const std::string& volume,
                   const std::string& path) {
  if (path.empty()) return change(transport, console, "DELETE", target_of(volume), volume);
  return change(transport, console, "DELETE", target_of(volume, "/files/" + escaped(path)), path);
}

}  // namespace lambent::cli
