#include "emulator/emulated_cuda/ptx_compiler.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

#include "emulator/emulated_cuda/code_cache.h"
#include "emulator/emulated_cuda/compilations.h"
#include "emulator/emulated_cuda/own_file.h"
#include "gpu/cuda_abi/host_compilers.h"
#include "gpu/cuda_abi/ptx_job.h"

namespace lambent::emulated_cuda {

namespace {

namespace fs = std::filesystem;
using cuda_abi::PtxJobOutcome;
using emulated_node::CodeSettings;

// lambent-bundle ends its compilers a little earlier, and says so.
constexpr int kMostCompile_s = cuda_abi::kPtxJobMost_s + 10;
constexpr auto kMostExit = std::chrono::seconds(5);  // once it has closed its output
constexpr size_t kMostAnswerBytes = 256 * 1024;
constexpr uint64_t kMostCodeBytes = uint64_t{1} << 30;

// PREFIX/bin/lambent-bundle beside PREFIX/lib/emulated/libcuda.so.1, where the settings name none.
std::string program_of(const CodeSettings& settings) {
  if (!settings.ptx_compiler.empty()) return settings.ptx_compiler;
  Dl_info self;
  if (dladdr(reinterpret_cast<const void*>(&program_of), &self) == 0) return "";
  std::error_code none;
  const fs::path library = fs::canonical(self.dli_fname, none);
  if (none) return "";
  return (library.parent_path().parent_path().parent_path() / "bin/lambent-bundle").string();
}

// Where the C++ compiler is; empty if there is none.
fs::path host_compiler_of(const CodeSettings& settings) {
  std::vector<std::string> names = {settings.host_compiler};
  if (names[0].empty()) {
    names.assign(std::begin(cuda_abi::kHostCompilers), std::end(cuda_abi::kHostCompilers));
  }
  std::error_code none;
  for (const std::string& name : names) {
    if (name.find('/') != std::string::npos) return fs::canonical(name, none);
    for (size_t begin = 0; begin <= settings.search_path.size();) {
      const size_t end =
          std::min(settings.search_path.find(':', begin), settings.search_path.size());
      const fs::path path = fs::path(settings.search_path.substr(begin, end - begin)) / name;
      begin = end + 1;
      if (access(path.c_str(), X_OK) == 0) return fs::canonical(path, none);
    }
  }
  return {};
}

// What the code depends on beside its PTX: the program, the headers and the compiler, by their
// places, sizes and times.
std::string version_of(const CodeSettings& settings, const std::string& program) {
  std::error_code none;
  std::vector<std::string> rows;
  const auto add = [&](const fs::path& path) {
    struct stat status {};
    if (stat(path.c_str(), &status) != 0) return;
    rows.push_back(path.string() + " " + std::to_string(status.st_size) + " " +
                   std::to_string(status.st_mtim.tv_sec) + "." +
                   std::to_string(status.st_mtim.tv_nsec));
  };
  add(program);
  add(host_compiler_of(settings));
  const fs::path headers =
      fs::path(program).parent_path().parent_path() / "share/lambent/include/lambent/host";
  for (fs::recursive_directory_iterator each(headers, none), end; !none && each != end;
       each.increment(none)) {
    if (each->is_regular_file(none)) add(each->path());
  }
  std::sort(rows.begin(), rows.end());
  std::string version;
  for (const std::string& row : rows) version += row + "\n";
  return version;
}

// A folder for one compilation, which goes with it.
class WorkFolder {
 public:
  explicit WorkFolder(const std::string& parent) : path_(parent + "/work-XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr) path_.clear();
  }
  ~WorkFolder() {
    std::error_code none;
    if (!path_.empty()) fs::remove_all(path_, none);
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct Child {
  pid_t pid = -1;
  int output = -1;
};

// Not by fork: this process may be large and has threads. Nothing of the program's environment goes
// along but where programs are found: what it preloads is not for compilers.
Child start(const std::vector<std::string>& command, const std::vector<std::string>& environment,
            std::string* error) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    *error = std::string("pipe: ") + strerror(errno);
    return {};
  }
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, ends[1], STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  std::vector<char*> arguments, variables;
  for (const auto& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  for (const auto& each : environment) variables.push_back(const_cast<char*>(each.c_str()));
  arguments.push_back(nullptr);
  variables.push_back(nullptr);
  Child child;
  const int failed = posix_spawn(&child.pid, command[0].c_str(), &files, &attributes,
                                 arguments.data(), variables.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  close(ends[1]);
  if (failed != 0) {
    *error = strerror(failed);
    close(ends[0]);
    return {};
  }
  child.output = ends[0];
  return child;
}

// Ends the child's group: compilers that it has left are of no use. As long as the child is not
// waited for, its number is no other group's. Its exit status is not asked for: a program may wait
// for all children, or have none told.
void finish(pid_t child) {
  const auto end = std::chrono::steady_clock::now() + kMostExit;
  siginfo_t ended{};
  while (waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         ended.si_pid == 0 && std::chrono::steady_clock::now() < end) {
    poll(nullptr, 0, 1);
  }
  if (waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOHANG | WNOWAIT) != 0) return;
  kill(-child, SIGKILL);
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
}

// What the child writes until it closes its output; none if it takes too long. The child has ended
// then.
std::optional<std::string> output_of(const Child& child) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(kMostCompile_s);
  std::string written;
  bool in_time = true;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    in_time = left.count() > 0;
    if (!in_time) break;
    pollfd stream = {child.output, POLLIN, 0};
    if (poll(&stream, 1, static_cast<int>(left.count())) < 0 && errno != EINTR) break;
    if (stream.revents == 0) continue;
    char buffer[4096];
    const ssize_t got = read(child.output, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    if (written.size() < kMostAnswerBytes) written.append(buffer, static_cast<size_t>(got));
  }
  close(child.output);
  if (!in_time) kill(-child.pid, SIGKILL);
  finish(child.pid);
  if (!in_time) return std::nullopt;
  return written;
}

PtxCode failure(CUresult result, const std::string& message) {
  return {result, message, nullptr, false, ""};
}

CUresult result_of(PtxJobOutcome outcome) {
  switch (outcome) {
    case PtxJobOutcome::kMade:
      return CUDA_SUCCESS;
    case PtxJobOutcome::kInvalid:
      return CUDA_ERROR_INVALID_PTX;
    case PtxJobOutcome::kUnsupported:
      return CUDA_ERROR_NOT_SUPPORTED;
    case PtxJobOutcome::kNoCompiler:
      return CUDA_ERROR_NO_BINARY_FOR_GPU;
    case PtxJobOutcome::kTooMuch:
      return CUDA_ERROR_OUT_OF_MEMORY;
    case PtxJobOutcome::kFailed:
      break;
  }
  return CUDA_ERROR_OPERATING_SYSTEM;
}

PtxCode run_job(const CodeSettings& settings, const std::string& program, const std::string& parent,
                const std::vector<std::string>& modules, unsigned optimisation) {
  const WorkFolder work(parent);
  if (work.path().empty()) {
    return failure(CUDA_ERROR_OPERATING_SYSTEM,
                   "there is no room to compile PTX: cannot make a folder in " + parent +
                       "; CUDA_CACHE_PATH names another place");
  }
  for (size_t i = 0; i < modules.size(); i++) {
    std::ofstream file(work.path() + "/" + cuda_abi::ptx_job_input(i), std::ios::binary);
    file.write(modules[i].data(), static_cast<std::streamsize>(modules[i].size()));
    file.flush();
    if (!file) {
      return failure(CUDA_ERROR_OPERATING_SYSTEM, "cannot write the PTX into " + work.path());
    }
  }
  std::vector<std::string> command = {program, "compile-ptx", work.path(), "--optimisation",
                                      std::to_string(optimisation)};
  if (!settings.host_compiler.empty()) {
    command.insert(command.end(), {"--host-compiler", settings.host_compiler});
  }
  std::string error;
  const Child child =
      start(command, {"PATH=" + settings.search_path, "TMPDIR=" + work.path(), "LANG=C"}, &error);
  if (child.pid < 0) {
    return failure(CUDA_ERROR_NO_BINARY_FOR_GPU,
                   "PTX is compiled for the host by lambent-bundle, which cannot be started: " +
                       program + ": " + error + "; EMULATED_CUDA_PTX_COMPILER names another");
  }
  const auto written = output_of(child);
  if (!written) return failure(CUDA_ERROR_OUT_OF_MEMORY, "compiling the PTX took too long");
  const auto answer = cuda_abi::read_ptx_job_answer(*written);
  if (!answer) {
    return failure(CUDA_ERROR_OPERATING_SYSTEM,
                   "compiling the PTX ended without an answer: " + written->substr(0, 500));
  }
  if (answer->outcome != PtxJobOutcome::kMade) {
    return failure(result_of(answer->outcome), answer->message);
  }
  const auto bytes =
      read_own_file(work.path() + "/" + cuda_abi::kPtxJobOutput, kMostCodeBytes, Reach::kOwner);
  if (!bytes) return failure(CUDA_ERROR_OPERATING_SYSTEM, "the compiled PTX cannot be read");
  auto code = HostCode::copy(bytes->data(), bytes->size(), &error);
  if (!code) return failure(CUDA_ERROR_INVALID_IMAGE, error);
  return {CUDA_SUCCESS, "", std::move(code), false, ""};
}

}  // namespace

PtxCode compile_ptx(const CodeSettings& settings, const std::vector<std::string>& modules,
                    unsigned optimisation) {
  if (settings.is_disabled) {
    return failure(CUDA_ERROR_JIT_COMPILATION_DISABLED, "CUDA_DISABLE_PTX_JIT is set");
  }
  const std::string program = program_of(settings);
  // More than -O2 makes kernels that wait to be run no better (decision 0173).
  const unsigned level = optimisation <= 1 ? 1 : 2;
  std::string key =
      version_of(settings, program) + settings.host_compiler + "\n" + std::to_string(level);
  size_t bytes = 0;
  for (const std::string& module : modules) {
    key += "\n" + std::to_string(module.size()) + "\n" + module;
    bytes += module.size();
  }
  if (bytes > cuda_abi::kMostPtxBytes) {
    return failure(CUDA_ERROR_OUT_OF_MEMORY, "the PTX is too large for host kernels");
  }
  static auto* compilations = new Compilations;  // threads may outlive static objects
  const CodeCache cache(settings.cache, settings.cache_bytes);
  const auto kept = [&]() -> std::optional<PtxCode> {
    const auto found = cache.find(key);
    if (!found) return std::nullopt;
    std::string reason;
    auto code = HostCode::copy(found->data(), found->size(), &reason);
    if (!code) return std::nullopt;
    return PtxCode{CUDA_SUCCESS, "", std::move(code), true, ""};
  };
  if (auto found = kept()) return std::move(*found);
  PtxCode made = compilations->once(key, [&] {
    // Another process may be at it.
    const CodeCache::Turn turn(cache, key, kMostCompile_s);
    if (auto found = kept()) return std::move(*found);
    const Compilations::Compiler compiler(*compilations);
    PtxCode compiled = run_job(
        settings, program, cache.is_usable() ? cache.folder() : settings.temporary, modules, level);
    if (compiled.result == CUDA_SUCCESS) cache.keep(key, compiled.code->bytes());
    return compiled;
  });
  made.note = cache.why_not();
  return made;
}

std::string ptx_text(const void* image, size_t available) {
  const char* text = static_cast<const char*>(image);
  const size_t most = available == 0 ? cuda_abi::kMostPtxBytes + 1 : available;
  return std::string(text, strnlen(text, most));
}

std::vector<std::string> ptx_kernels(std::string_view text) {
  constexpr std::string_view kEntry = ".entry";
  const auto is_space = [](char c) { return isspace(static_cast<unsigned char>(c)) != 0; };
  const auto in_name = [](char c) {
    return isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '%';
  };
  std::vector<std::string> names;
  for (size_t at = text.find(kEntry); at != text.npos; at = text.find(kEntry, at + 1)) {
    size_t begin = at + kEntry.size();
    if (begin >= text.size() || !is_space(text[begin])) continue;
    while (begin < text.size() && is_space(text[begin])) begin++;
    size_t end = begin;
    while (end < text.size() && in_name(text[end])) end++;
    if (end > begin) names.emplace_back(text.substr(begin, end - begin));
  }
  return names;
}

}  // namespace lambent::emulated_cuda
