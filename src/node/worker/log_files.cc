#include "node/worker/log_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <optional>
#include <tuple>
#include <utility>

#include "core/base/fd.h"

namespace lambent::worker {
namespace {

constexpr Duration kCleaningPeriod = std::chrono::hours(1);

// "FUNCTION-OFFSET.log": the offset is that of the file's first byte in the function's log.
struct LogFile {
  FunctionId function;
  uint64_t offset = 0;
  std::string path;
  uint64_t size = 0;
  Duration written_at{};  // since the Unix epoch

  uint64_t end() const { return offset + size; }
};

std::string name_of(FunctionId function, uint64_t offset) {
  return std::to_string(function.value) + "-" + std::to_string(offset) + ".log";
}

// Reads a number and what must follow it.
template <typename Number>
bool take_number(std::string_view& text, Number& number, std::string_view then) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  if (!text.starts_with(then)) return false;
  text.remove_prefix(then.size());
  return true;
}

std::optional<LogFile> log_file_at(const std::string& path, std::string_view name) {
  LogFile file;
  file.path = path;
  struct stat about {};
  const bool is_ours = take_number(name, file.function.value, "-") &&
                       take_number(name, file.offset, ".log") && name.empty() &&
                       ::stat(path.c_str(), &about) == 0 && S_ISREG(about.st_mode);
  if (!is_ours) return std::nullopt;
  file.size = static_cast<uint64_t>(about.st_size);
  file.written_at = seconds(about.st_mtim.tv_sec) + nanoseconds(about.st_mtim.tv_nsec);
  return file;
}

// In order of function and offset.
std::vector<LogFile> log_files_in(const std::string& folder) {
  std::vector<LogFile> files;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename();
    if (auto file = log_file_at(entry.path(), name)) files.push_back(*std::move(file));
  }
  std::sort(files.begin(), files.end(), [](const LogFile& a, const LogFile& b) {
    return std::tie(a.function, a.offset) < std::tie(b.function, b.offset);
  });
  return files;
}

Result<void> append_to(const std::string& path, std::string_view text) {
  const OwnedFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!file.valid()) return error_from_errno("open " + path, errno);
  const auto wrote = write_all(file.get(), text);
  if (!wrote.ok()) return wrote.error().with_context(path);
  return {};
}

}  // namespace

// The files. Of one function there are two at most: when the newer is half of what is kept, the
// older goes and a new one begins.
class LogFiles::Writer {
 public:
  Writer(std::string folder, Bytes per_function)
      : folder_(std::move(folder)), per_file_(per_function.count / 2) {}

  const std::string& folder() const { return folder_; }

  void adopt(const LogFile& file) {
    files_[file.function].push_back({file.path, file.end(), file.size});
  }

  Result<void> append(FunctionId function, uint64_t offset, std::string_view text) {
    std::vector<File>& files = files_[function];
    const bool goes_on =
        !files.empty() && files.back().end == offset && files.back().size < per_file_;
    if (!goes_on) begin_file(function, offset, files);
    File& file = files.back();
    const auto appended = append_to(file.path, text);
    // What is in the file then is not known: the next text begins another.
    file.end = appended.ok() ? offset + text.size() : 0;
    file.size += text.size();
    return appended;
  }

  void remove(FunctionId function) {
    const auto found = files_.find(function);
    if (found == files_.end()) return;
    for (const File& file : found->second) (void)::unlink(file.path.c_str());
    files_.erase(found);
  }

  void remove_older_than(Duration instant) {
    for (const LogFile& file : log_files_in(folder_)) {
      if (file.written_at >= instant) continue;
      (void)::unlink(file.path.c_str());
      std::erase_if(files_[file.function],
                    [&](const File& each) { return each.path == file.path; });
    }
  }

 private:
  struct File {
    std::string path;
    uint64_t end = 0;  // the offset behind its last byte
    uint64_t size = 0;
  };

  void begin_file(FunctionId function, uint64_t offset, std::vector<File>& files) {
    while (files.size() >= 2) {
      (void)::unlink(files.front().path.c_str());
      files.erase(files.begin());
    }
    const std::string path = folder_ + "/" + name_of(function, offset);
    (void)::unlink(path.c_str());
    files.push_back({path, offset, 0});
  }

  const std::string folder_;
  const uint64_t per_file_;
  std::map<FunctionId, std::vector<File>> files_;
};

LogFiles::LogFiles(loop::EventLoop& loop, LogSink& log, LogFilesOptions options)
    : loop_(loop),
      log_(log),
      options_(std::move(options)),
      writer_(std::make_shared<Writer>(options_.folder, options_.per_function)),
      thread_(loop) {
  std::error_code error;
  std::filesystem::create_directories(options_.folder, error);
  if (!error)
    std::filesystem::permissions(options_.folder, std::filesystem::perms::owner_all, error);
  if (error)
    log_.warning("logs_not_kept", {{"folder", options_.folder}, {"error", error.message()}});
  cleaning_ = loop_.call_after(kCleaningPeriod, [this] { clean(); });
}

LogFiles::~LogFiles() {
  loop_.cancel(cleaning_);
  if (timed_) loop_.cancel(timer_);
  if (!waiting_.empty()) write();
}

void LogFiles::restore(const std::vector<FunctionId>& functions, LogStore& logs) {
  std::map<FunctionId, std::vector<LogFile>> kept;
  const Duration oldest = loop_.clock().wall_now() - options_.age;
  for (LogFile& file : log_files_in(options_.folder)) {
    const bool known = std::binary_search(functions.begin(), functions.end(), file.function);
    if (known && file.written_at >= oldest) {
      kept[file.function].push_back(std::move(file));
    } else {
      (void)::unlink(file.path.c_str());
    }
  }
  std::vector<const std::vector<LogFile>*> newest_first;
  for (const auto& [function, files] : kept) {
    for (const LogFile& file : files) writer_->adopt(file);
    newest_first.push_back(&files);
  }
  std::sort(newest_first.begin(), newest_first.end(), [](const auto* a, const auto* b) {
    return a->back().written_at > b->back().written_at;
  });
  Bytes restored;
  for (const auto* files : newest_first) {
    std::string text;
    uint64_t offset = files->front().offset;
    for (const LogFile& file : *files) {
      // A text that the disk did not take is missing between them.
      if (offset + text.size() != file.offset) {
        text.clear();
        offset = file.offset;
      }
      auto bytes = read_file(file.path, file.size);
      if (bytes.ok()) text += *bytes;
    }
    restored += Bytes(text.size());
    const bool too_much = restored > options_.most_restored;
    // Its offsets go on in any case.
    if (too_much) offset += text.size();
    logs.restore(files->front().function, offset, too_much ? std::string() : std::move(text));
  }
}

void LogFiles::append(FunctionId function, uint64_t offset, std::string_view text) {
  if (waiting_bytes_ + Bytes(text.size()) > options_.most_waiting) {
    dropped_bytes_ += text.size();
    return;
  }
  waiting_bytes_ += Bytes(text.size());
  std::vector<Text>& texts = waiting_[function];
  if (!texts.empty() && texts.back().offset + texts.back().bytes.size() == offset) {
    texts.back().bytes += text;
  } else {
    texts.push_back({offset, std::string(text)});
  }
  wake();
}

void LogFiles::remove(FunctionId function) {
  waiting_.erase(function);
  thread_.run([writer = writer_, function] { writer->remove(function); }, [] {});
}

void LogFiles::wake() {
  if (timed_ || writing_) return;
  timed_ = true;
  timer_ = loop_.call_after(options_.written_after, [this] {
    timed_ = false;
    write();
  });
}

void LogFiles::write() {
  // Shared by the thread, which fills in the error, and the loop, which takes it.
  struct Work {
    Texts texts;
    std::optional<Error> error;
  };
  auto work = std::make_shared<Work>();
  work->texts.swap(waiting_);
  waiting_bytes_ = Bytes();
  writing_ = thread_.run(
      [writer = writer_, work] {
        for (const auto& [function, texts] : work->texts) {
          for (const Text& text : texts) {
            const auto appended = writer->append(function, text.offset, text.bytes);
            if (!appended.ok()) work->error = appended.error();
          }
        }
      },
      [this, work] {
        writing_ = false;
        if (work->error) log_.warning("logs_not_kept", {{"error", to_string(*work->error)}});
        if (const uint64_t dropped = std::exchange(dropped_bytes_, 0); dropped > 0) {
          log_.warning("logs_not_kept", {{"bytes", static_cast<int64_t>(dropped)},
                                         {"error", "the disk is slower than what is printed"}});
        }
        if (!waiting_.empty()) wake();
      });
}

void LogFiles::clean() {
  const Duration oldest = loop_.clock().wall_now() - options_.age;
  thread_.run([writer = writer_, oldest] { writer->remove_older_than(oldest); }, [] {});
  cleaning_ = loop_.call_after(kCleaningPeriod, [this] { clean(); });
}

}  // namespace lambent::worker
