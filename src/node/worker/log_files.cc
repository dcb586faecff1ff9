#include "node/worker/log_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include "core/base/fd.h"
#include "node/worker/log_times.h"

namespace lambent::worker {
namespace {

constexpr Duration kCleaningPeriod = std::chrono::hours(1);
constexpr size_t kMostFiles = 16;  // of one function

constexpr std::string_view kText = ".log";
constexpr std::string_view kTimes = ".times";
// Of a log file's times, for each of its bytes: more are not read.
constexpr uint64_t kTimesPerByte = 32;

// "FUNCTION-OFFSET.log": the offset is that of the file's first byte in the function's log. Its
// times are in "FUNCTION-OFFSET.times", which logs of older workers do not have.
struct LogFile {
  FunctionId function;
  uint64_t offset = 0;
  std::string path;
  uint64_t size = 0;
  uint64_t size_of_times = 0;
  Duration written_at{};  // since the Unix epoch

  uint64_t end() const { return offset + size; }
};

std::string name_of(FunctionId function, uint64_t offset) {
  return std::to_string(function.value) + "-" + std::to_string(offset) + std::string(kText);
}

std::string times_of(const std::string& path) {
  return path.substr(0, path.size() - kText.size()) + std::string(kTimes);
}

void unlink_both(const std::string& path) {
  (void)::unlink(path.c_str());
  (void)::unlink(times_of(path).c_str());
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
                       take_number(name, file.offset, kText) && name.empty() &&
                       ::stat(path.c_str(), &about) == 0 && S_ISREG(about.st_mode);
  if (!is_ours) return std::nullopt;
  file.size = static_cast<uint64_t>(about.st_size);
  file.written_at = seconds(about.st_mtim.tv_sec) + nanoseconds(about.st_mtim.tv_nsec);
  if (::stat(times_of(path).c_str(), &about) == 0 && S_ISREG(about.st_mode)) {
    file.size_of_times = static_cast<uint64_t>(about.st_size);
  }
  return file;
}

// Of logs that are gone, such as by an older worker, which knows of no times.
void remove_times_without_logs(const std::string& folder) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    std::string_view name = entry.path().filename().native();
    uint64_t number = 0;
    const bool is_ours = take_number(name, number, "-") && take_number(name, number, kTimes);
    if (!is_ours || !name.empty()) continue;
    std::filesystem::path log = entry.path();
    log.replace_extension(kText);
    if (!std::filesystem::exists(log, ignored)) (void)::unlink(entry.path().c_str());
  }
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

struct Kept {
  std::string text;
  std::vector<LogMark> marks;  // offsets in the function's log
};

// What the files have, in order, and where text is missing that the disk did not take a line that
// says so. The text ends where the last file does, and is no longer than the function's log was.
Kept kept_in(const std::vector<LogFile>& files) {
  Kept kept;
  uint64_t end = files.front().offset;
  for (const LogFile& file : files) {
    const uint64_t missing = file.offset > end ? file.offset - end : 0;
    const std::string note = "\n[" + std::to_string(missing) + " bytes were not kept]\n";
    if (note.size() <= missing) kept.text += note;
    const uint64_t begin = kept.text.size();
    auto bytes = read_file(file.path, file.size);
    if (bytes.ok()) kept.text += *bytes;
    const auto times =
        read_file(times_of(file.path), std::min(file.size_of_times, kTimesPerByte * file.size));
    for (const LogMark& mark :
         times.ok() ? read_log_times(*times, kept.text.size() - begin) : std::vector<LogMark>()) {
      kept.marks.push_back({begin + mark.offset, mark.at});
    }
    end = file.end();
  }
  const uint64_t surplus = kept.text.size() > end ? kept.text.size() - end : 0;
  kept.text.erase(0, surplus);
  std::erase_if(kept.marks, [&](const LogMark& mark) { return mark.offset < surplus; });
  for (LogMark& mark : kept.marks) mark.offset += end - kept.text.size() - surplus;
  return kept;
}

Result<void> append_to(const std::string& path, std::string_view text) {
  const OwnedFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!file.valid()) return error_from_errno("open " + path, errno);
  const auto wrote = write_all(file.get(), text);
  if (!wrote.ok()) return wrote.error().with_context(path);
  return {};
}

}  // namespace

// The files. Of one function there are two: when the newer has half of what is kept, the older goes
// and a new one begins. Text that was not kept begins a new file too, for which the oldest go only
// if there is no room.
class LogFiles::Writer {
 public:
  Writer(std::string folder, Bytes per_function)
      : folder_(std::move(folder)), per_file_(std::max<uint64_t>(1, per_function.count / 2)) {}

  const std::string& folder() const { return folder_; }

  void adopt(const LogFile& file) {
    files_[file.function].push_back(
        {file.path, file.offset, file.end(), file.size + file.size_of_times});
  }

  Result<void> append(FunctionId function, const Text& added) {
    std::vector<File>& files = files_[function];
    Left left{added.offset, added.bytes, added.marks};
    Result<void> outcome;
    while (!left.text.empty()) {
      const bool goes_on =
          !files.empty() && files.back().end == left.offset && files.back().size < per_file_;
      if (!goes_on) begin_file(function, left.offset, files);
      File& file = files.back();
      const auto [part, times] = cut_part(file, left);
      // Times first: those of text that does not come are passed over when they are read.
      const auto timed = times.empty() ? Result<void>() : append_to(times_of(file.path), times);
      const auto appended = append_to(file.path, part);
      // What is in the file then is not known: the next text begins another.
      file.end = appended.ok() ? left.offset : 0;
      file.size += part.size() + times.size();
      if (!appended.ok()) return appended;
      if (!timed.ok()) outcome = timed;
    }
    return outcome;
  }

  void remove(FunctionId function) {
    const auto found = files_.find(function);
    if (found == files_.end()) return;
    for (const File& file : found->second) unlink_both(file.path);
    files_.erase(found);
  }

  void remove_older_than(Duration instant) {
    for (const LogFile& file : log_files_in(folder_)) {
      if (file.written_at >= instant) continue;
      unlink_both(file.path);
      std::erase_if(files_[file.function],
                    [&](const File& each) { return each.path == file.path; });
    }
  }

 private:
  struct File {
    std::string path;
    uint64_t begin = 0;  // the offset of its first byte
    uint64_t end = 0;    // and behind its last one
    uint64_t size = 0;   // with its times
  };

  // What is to be written yet.
  struct Left {
    uint64_t offset = 0;
    std::string_view text;
    std::span<const LogMark> marks;
    std::optional<Duration> last = {};  // of the line that goes on in another file
  };
  struct Part {
    std::string_view text;
    std::string times;
  };

  // As much as the file has room for, times included; at least a byte.
  Part cut_part(const File& file, Left& left) const {
    const uint64_t room = per_file_ - file.size;
    const uint64_t begin = left.offset;
    Part part;
    const bool is_cut_line =
        file.size == 0 && left.last && (left.marks.empty() || left.marks.front().offset > begin);
    if (is_cut_line) part.times = log_time_line(0, *left.last);
    uint64_t end = begin + left.text.size();
    while (!left.marks.empty() && left.marks.front().offset < end) {
      const LogMark mark = left.marks.front();
      const std::string line = log_time_line(mark.offset - file.begin, mark.at);
      if (mark.offset > begin && mark.offset - begin + part.times.size() + line.size() >= room) {
        end = mark.offset;
        break;
      }
      part.times += line;
      left.last = mark.at;
      left.marks = left.marks.subspan(1);
    }
    const uint64_t most = room > part.times.size() ? room - part.times.size() : 1;
    part.text = left.text.substr(0, std::min(end - begin, most));
    left.offset += part.text.size();
    left.text.remove_prefix(part.text.size());
    return part;
  }

  // The last file stays, also where it is a little larger than its half.
  void begin_file(FunctionId function, uint64_t offset, std::vector<File>& files) {
    uint64_t kept = 0;
    for (const File& file : files) kept += file.size;
    while (!files.empty() &&
           ((kept > per_file_ && files.size() > 1) || files.size() >= kMostFiles)) {
      kept -= files.front().size;
      unlink_both(files.front().path);
      files.erase(files.begin());
    }
    const std::string path = folder_ + "/" + name_of(function, offset);
    unlink_both(path);
    files.push_back({path, offset, offset, 0});
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
      unlink_both(file.path);
    }
  }
  remove_times_without_logs(options_.folder);
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
    Kept found = kept_in(*files);
    restored += Bytes(found.text.size());
    if (restored > options_.most_restored) found = {};
    // Its offsets go on in any case.
    const uint64_t offset = files->back().end() - found.text.size();
    logs.restore(files->front().function, offset, std::move(found.text), std::move(found.marks));
  }
}

void LogFiles::append(FunctionId function, uint64_t offset, std::string_view text,
                      const std::optional<LogMark>& mark) {
  const Bytes size(text.size() + (mark ? sizeof(LogMark) : 0));
  if (size > options_.most_waiting) {
    dropped_bytes_ += text.size();
    return;
  }
  while (waiting_bytes_ + size > options_.most_waiting) drop_most_waiting();
  waiting_bytes_ += size;
  Waiting& waiting = waiting_[function];
  waiting.size += size.count;
  if (!waiting.texts.empty() && waiting.texts.back().end() == offset) {
    waiting.texts.back().bytes += text;
  } else {
    waiting.texts.push_back({offset, std::string(text)});
  }
  if (mark) waiting.texts.back().marks.push_back(*mark);
  wake();
}

// The function that prints most pays, not the others.
void LogFiles::drop_most_waiting() {
  const auto most =
      std::max_element(waiting_.begin(), waiting_.end(),
                       [](const auto& a, const auto& b) { return a.second.size < b.second.size; });
  dropped_bytes_ += most->second.size;
  waiting_bytes_ = waiting_bytes_ - Bytes(most->second.size);
  waiting_.erase(most);
}

void LogFiles::remove(FunctionId function) {
  if (const auto waiting = waiting_.find(function); waiting != waiting_.end()) {
    waiting_bytes_ = waiting_bytes_ - Bytes(waiting->second.size);
    waiting_.erase(waiting);
  }
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
    std::unordered_map<FunctionId, Waiting> waiting;
    std::optional<Error> error;
  };
  auto work = std::make_shared<Work>();
  work->waiting.swap(waiting_);
  waiting_bytes_ = Bytes();
  writing_ = thread_.run(
      [writer = writer_, work] {
        for (const auto& [function, waiting] : work->waiting) {
          for (const Text& text : waiting.texts) {
            const auto appended = writer->append(function, text);
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
