#include "node/worker/log_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
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
// A line of times takes no more.
constexpr uint64_t kMostTimeLine = 40;
// What a text of so many bytes and marks takes at most; where it goes on in another file, its
// line's time stands there again.
uint64_t room_for(size_t bytes, size_t marks) { return bytes + kMostTimeLine * (marks + 1); }
// Of a log file's times, for each of its bytes: more are not read.
constexpr uint64_t kTimesPerByte = 32;

// Offsets of each life of the logs that follows a kill begin at a multiple of this: more than what
// is printed between two writes. All stay below 2^53, which readers of JSON have as whole numbers.
constexpr uint64_t kLifeStep = uint64_t{1} << 36;
constexpr uint64_t kMostLives = (uint64_t{1} << 17) - 2;
constexpr uint64_t kMostOffset = (uint64_t{1} << 53) - 1;
constexpr std::string_view kRunning = "running\n";
constexpr std::string_view kStopped = "stopped\n";

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

// Removes the text of a log's last file. An empty one stays, which says where the log goes on: its
// offsets are not given again. Renamed first, because its text may go only with its old name.
LogFile empty_at_end(const LogFile& file) {
  (void)::unlink(times_of(file.path).c_str());
  LogFile empty = file;
  empty.offset = file.end();
  empty.size = empty.size_of_times = 0;
  const auto folder = std::filesystem::path(file.path).parent_path();
  empty.path = folder / name_of(file.function, empty.offset);
  const bool is_there = ::rename(file.path.c_str(), empty.path.c_str()) == 0;
  const std::string& present = is_there ? empty.path : file.path;
  if (!is_there || ::truncate(present.c_str(), 0) != 0) (void)::unlink(present.c_str());
  return empty;
}

// Of the files of one folder in order: whether this one is the last of its function.
bool is_last_of_its(const std::vector<LogFile>& files, size_t index) {
  return index + 1 == files.size() || files[index + 1].function != files[index].function;
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
                       file.offset <= kMostOffset && ::stat(path.c_str(), &about) == 0 &&
                       S_ISREG(about.st_mode);
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
    const std::string file = entry.path().filename();
    std::string_view name = file;
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

// The last bytes of a file of this size; nothing if they are not there.
std::optional<std::string> read_end_of(const std::string& path, uint64_t size, uint64_t most) {
  const OwnedFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return std::nullopt;
  std::string bytes(std::min(size, most), '\0');
  const uint64_t begin = size - bytes.size();
  for (size_t got = 0; got < bytes.size();) {
    const ssize_t part = ::pread(file.get(), bytes.data() + got, bytes.size() - got,
                                 static_cast<off_t>(begin + got));
    if (part < 0 && errno == EINTR) continue;
    if (part <= 0) return std::nullopt;
    got += static_cast<size_t>(part);
  }
  return bytes;
}

// At most the last `most` bytes, with the times of their lines.
std::optional<LogPiece> piece_in(const LogFile& file, uint64_t most) {
  auto text = read_end_of(file.path, file.size, most);
  if (!text || text->empty()) return std::nullopt;
  const uint64_t skipped = file.size - text->size();
  LogPiece piece{file.offset + skipped, *std::move(text)};
  // Of the first line, where it is cut, nothing is read.
  const auto times =
      read_end_of(times_of(file.path), file.size_of_times, kTimesPerByte * piece.text.size());
  for (const LogMark& mark : times ? read_log_times(*times, file.size) : std::vector<LogMark>()) {
    const bool is_cut_line = mark.offset < skipped;
    if (is_cut_line) piece.marks.clear();
    piece.marks.push_back({file.offset + std::max(mark.offset, skipped), mark.at});
  }
  return piece;
}

// Text from `end` to this offset is missing: a line that says how much the disk did not take. What
// a worker had not written when it was killed is not known.
std::string gap_note(uint64_t end, uint64_t offset) {
  const bool is_one_life = end / kLifeStep == offset / kLifeStep;
  const uint64_t missing = is_one_life ? offset - end : offset % kLifeStep;
  std::string note = "\n[" + std::to_string(missing) + " bytes were not kept]\n";
  return note.size() <= missing ? note : std::string();
}

// What comes next is not the rest of this line: text is missing, or another worker prints it.
void end_last_line(std::vector<LogPiece>& pieces) {
  if (pieces.empty() || pieces.back().text.empty() || pieces.back().text.ends_with('\n')) return;
  pieces.back().text += '\n';
}

// The newest bytes of these files, at most so many, in order.
std::vector<LogPiece> kept_in(const std::vector<LogFile>& files, uint64_t most) {
  std::vector<LogPiece> newest_first;
  for (auto file = files.rbegin(); file != files.rend() && most > 0; ++file) {
    const bool overlaps = !newest_first.empty() && file->end() > newest_first.back().first_offset;
    if (overlaps) continue;
    auto piece = piece_in(*file, most);
    if (!piece) continue;
    most -= piece->text.size();
    newest_first.push_back(*std::move(piece));
  }
  std::vector<LogPiece> pieces;
  for (auto piece = newest_first.rbegin(); piece != newest_first.rend(); ++piece) {
    if (!pieces.empty() && pieces.back().end() == piece->first_offset) {
      LogPiece& before = pieces.back();
      before.text += piece->text;
      before.marks.insert(before.marks.end(), piece->marks.begin(), piece->marks.end());
      continue;
    }
    if (!pieces.empty()) {
      const std::string note = gap_note(pieces.back().end(), piece->first_offset);
      if (note.empty()) end_last_line(pieces);
      piece->text.insert(0, note);
      piece->first_offset -= note.size();
    }
    pieces.push_back(std::move(*piece));
  }
  return pieces;
}

// Which life of the logs this is: "3 running", and "3 stopped" once all of it is on disk. Each one
// after a worker that was killed counts one more.
struct Life {
  uint64_t number = 0;
  bool follows_kill = false;
};

std::string path_of_life(const std::string& folder) { return folder + "/life"; }

Life next_life(const std::string& folder) {
  constexpr size_t kMostText = 64;
  const auto bytes = read_file(path_of_life(folder), kMostText);
  if (!bytes.ok()) return {};
  std::string_view text = *bytes;
  Life life;
  if (!take_number(text, life.number, " ")) life.number = 0;
  life.follows_kill = text != kStopped;
  life.number = std::min(life.number + (life.follows_kill ? 1 : 0), kMostLives);
  return life;
}

Result<void> write_life(const std::string& folder, uint64_t number, std::string_view state) {
  const std::string text = std::to_string(number) + " " + std::string(state);
  return write_file_atomically(path_of_life(folder), text, false);
}

// Where the text of this life begins, behind all that earlier ones gave to clients, on disk or not.
// Where offsets have come to their last step, it goes on from the end.
uint64_t begin_of(const Life& life, uint64_t end) {
  const uint64_t step = life.follows_kill ? (end / kLifeStep + 1) * kLifeStep : end;
  return std::max(life.number * kLifeStep, step > kMostLives * kLifeStep ? end : step);
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
  bool has_failed() const { return has_failed_; }

  void adopt(const LogFile& file) {
    files_[file.function].push_back(
        {file.path, file.offset, file.end(), file.size + file.size_of_times});
  }

  // `may_grow`: else the oldest text goes for it. What is larger than all that there is has no
  // room.
  Result<void> append(FunctionId function, const Text& added, bool may_grow) {
    if (!may_grow && !make_room(function, added)) {
      has_failed_ = true;
      return {};
    }
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
      has_failed_ = has_failed_ || !appended.ok();
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

  Size size_of(FunctionId function) const {
    Size size{function};
    const auto found = files_.find(function);
    if (found == files_.end()) return size;
    for (const File& file : found->second) size.bytes += file.size;
    return size;
  }

  // What is left of those that it changed.
  std::vector<Size> remove_older_than(Duration instant) {
    const std::vector<LogFile> found = log_files_in(folder_);
    std::set<FunctionId> changed;
    for (size_t i = 0; i < found.size(); ++i) {
      const LogFile& file = found[i];
      if (file.written_at >= instant) continue;
      const bool is_last = is_last_of_its(found, i);
      if (!is_last) unlink_both(file.path);
      std::erase_if(files_[file.function],
                    [&](const File& each) { return each.path == file.path; });
      if (is_last) adopt(empty_at_end(file));
      changed.insert(file.function);
    }
    std::vector<Size> sizes;
    for (const FunctionId function : changed) sizes.push_back(size_of(function));
    return sizes;
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

  // So that what the function has does not grow.
  bool make_room(FunctionId function, const Text& added) {
    const uint64_t needed = room_for(added.bytes.size(), added.marks.size());
    const uint64_t most = size_of(function).bytes;
    if (needed > most) return false;
    std::vector<File>& files = files_[function];
    for (uint64_t kept = most; !files.empty() && kept + needed > most; files.erase(files.begin())) {
      kept -= files.front().size;
      unlink_both(files.front().path);
    }
    return true;
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
  bool has_failed_ = false;  // text is not on disk
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
  ending_ = true;
  if (!waiting_.empty()) write();
  if (!life_ || has_dropped_) return;
  thread_.run(
      [writer = writer_, life = *life_] {
        if (!writer->has_failed()) (void)write_life(writer->folder(), life, kStopped);
      },
      [] {});
}

void LogFiles::restore(const std::vector<FunctionId>& functions, LogStore& logs) {
  std::map<FunctionId, std::vector<LogFile>> kept;
  const Duration oldest = loop_.clock().wall_now() - options_.age;
  const std::vector<LogFile> found = log_files_in(options_.folder);
  for (size_t i = 0; i < found.size(); ++i) {
    const FunctionId function = found[i].function;
    const bool known = std::binary_search(functions.begin(), functions.end(), function);
    if (known && found[i].written_at >= oldest) {
      kept[function].push_back(found[i]);
    } else if (known && is_last_of_its(found, i)) {
      kept[function].push_back(empty_at_end(found[i]));
    } else {
      unlink_both(found[i].path);
    }
  }
  remove_times_without_logs(options_.folder);
  std::vector<const std::vector<LogFile>*> newest_first;
  for (const auto& [function, files] : kept) {
    for (const LogFile& file : files) writer_->adopt(file);
    owned(function);
    note({writer_->size_of(function)});
    newest_first.push_back(&files);
  }
  std::sort(newest_first.begin(), newest_first.end(), [](const auto* a, const auto* b) {
    return a->back().written_at > b->back().written_at;
  });
  const Life life = next_life(options_.folder);
  begin_life(life.number);
  if (life.number > 0) {
    for (const FunctionId function : functions) {
      if (!kept.contains(function)) logs.restore(function, {LogPiece()}, begin_of(life, 0));
    }
  }
  Bytes restored;
  for (const auto* files : newest_first) {
    uint64_t most = 0;
    for (const LogFile& file : *files) most += file.size;
    most = std::min(most, options_.per_function.count);
    if (restored + Bytes(most) > options_.most_restored) most = 0;
    restored += Bytes(most);
    // Its offsets go on in any case.
    const uint64_t end = files->back().end();
    const uint64_t begin = begin_of(life, end);
    std::vector<LogPiece> pieces = kept_in(*files, most);
    if (begin != end) end_last_line(pieces);
    logs.restore(files->front().function, std::move(pieces), begin);
  }
}

LogFiles::Owned& LogFiles::owned(FunctionId function) {
  const auto [entry, is_new] = owned_.try_emplace(function);
  if (is_new && options_.tenant_of) entry->second.tenant = options_.tenant_of(function);
  return entry->second;
}

void LogFiles::note(const std::vector<Size>& sizes) {
  for (const Size& size : sizes) {
    const auto found = owned_.find(size.function);
    if (found == owned_.end()) continue;
    uint64_t& used = used_[found->second.tenant];
    used = used - found->second.bytes + size.bytes;
    found->second.bytes = size.bytes;
    if (used == 0) used_.erase(found->second.tenant);
  }
}

Bytes LogFiles::used(TenantId tenant) const {
  const auto found = used_.find(tenant);
  return found == used_.end() ? Bytes() : Bytes(found->second);
}

// What is printed from now on is lost if the worker is killed.
void LogFiles::begin_life(uint64_t number) {
  life_ = number;
  const auto written = write_life(options_.folder, number, kRunning);
  if (!written.ok()) {
    log_.warning("logs_not_kept",
                 {{"folder", options_.folder}, {"error", to_string(written.error())}});
  }
}

void LogFiles::append(FunctionId function, uint64_t offset, std::string_view text,
                      const std::optional<LogMark>& mark) {
  const Bytes size(text.size() + (mark ? sizeof(LogMark) : 0));
  if (size > options_.most_waiting) {
    dropped_bytes_ += text.size();
    has_dropped_ = true;
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
  has_dropped_ = true;
  waiting_bytes_ = waiting_bytes_ - Bytes(most->second.size);
  waiting_.erase(most);
}

void LogFiles::remove(FunctionId function) {
  if (const auto waiting = waiting_.find(function); waiting != waiting_.end()) {
    waiting_bytes_ = waiting_bytes_ - Bytes(waiting->second.size);
    waiting_.erase(waiting);
  }
  note({Size{function}});
  owned_.erase(function);
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
    std::vector<Size> sizes;
  };
  auto work = std::make_shared<Work>();
  work->waiting.swap(waiting_);
  std::map<TenantId, Bytes> granted;  // in this call
  for (auto& [function, waiting] : work->waiting) {
    if (ending_) break;
    const TenantId tenant = owned(function).tenant;
    Bytes most;
    for (const Text& text : waiting.texts) {
      most += Bytes(room_for(text.bytes.size(), text.marks.size()));
    }
    const Bytes sum = granted[tenant] + most;
    waiting.may_grow = !options_.may_grow || options_.may_grow(tenant, sum);
    if (waiting.may_grow) granted[tenant] = sum;
  }
  waiting_bytes_ = Bytes();
  writing_ = thread_.run(
      [writer = writer_, work] {
        for (const auto& [function, waiting] : work->waiting) {
          for (const Text& text : waiting.texts) {
            const auto appended = writer->append(function, text, waiting.may_grow);
            if (!appended.ok()) work->error = appended.error();
          }
          work->sizes.push_back(writer->size_of(function));
        }
      },
      [this, work] {
        writing_ = false;
        note(work->sizes);
        if (work->error) log_.warning("logs_not_kept", {{"error", to_string(*work->error)}});
        if (const uint64_t dropped = std::exchange(dropped_bytes_, 0); dropped > 0) {
          log_.warning("logs_not_kept", {{"bytes", static_cast<int64_t>(dropped)},
                                         {"error", "the disk is slower than what is printed"}});
        }
        if (!waiting_.empty()) wake();
      });
  if (!writing_) has_dropped_ = true;
}

void LogFiles::clean() {
  const Duration oldest = loop_.clock().wall_now() - options_.age;
  const auto sizes = std::make_shared<std::vector<Size>>();
  thread_.run([writer = writer_, oldest, sizes] { *sizes = writer->remove_older_than(oldest); },
              [this, sizes] { note(*sizes); });
  cleaning_ = loop_.call_after(kCleaningPeriod, [this] { clean(); });
}

}  // namespace lambent::worker
