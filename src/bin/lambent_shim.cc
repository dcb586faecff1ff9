// lambent-shim: runs a program under the CUDA shim as a worker would, and moves its GPU memory to
// the host and back every so often, while it runs. To see whether a program bears it.
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "bin/flag_checks.h"
#include "bin/host_memory.h"
#include "bin/installation.h"
#include "bin/nvidia_facts.h"
#include "bin/shim_session.h"
#include "bin/usage.h"
#include "core/base/process.h"

extern char** environ;

namespace {

using namespace lambent;

struct Options {
  std::string memory = "0";
  std::string mode = "vmm";
  std::string working_set = "whole";
  std::string managed_memory = "prefetch";
  std::string host_memory;
  std::string driver;
  double move_every_ms = 0;
  bool emulated = false;
  std::vector<std::string> program;
};

// The driver that the loader would take.
std::string usual_driver() {
  const std::string folder = bin::find_nvidia_folder();
  return folder.empty() ? "" : folder + "/libcuda.so.1";
}

// Absolute, for the program may go elsewhere.
Result<std::string> driver_of(const Options& options, const Installation& installation) {
  if (options.emulated) return installation.emulated_driver() + "/libcuda.so.1";
  const std::string path =
      options.driver.empty()
          ? usual_driver()
          : std::filesystem::absolute(options.driver).lexically_normal().string();
  if (path.empty()) {
    return Error{ErrorCode::kNotFound,
                 "no libcuda.so.1 was found; name it with --driver, or use --emulated"};
  }
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored) || access(path.c_str(), R_OK) != 0) {
    return Error{ErrorCode::kNotFound, "--driver: there is no file " + path + " to be read"};
  }
  return path;
}

Result<ShimSessionOptions> session_options(const Options& options) {
  ASSIGN_OR_RETURN(const Installation installation, find_installation());
  ShimSessionOptions session;
  session.shim_folder = installation.shim();
  session.emulated = options.emulated;
  ASSIGN_OR_RETURN(session.driver, driver_of(options, installation));
  ASSIGN_OR_RETURN(session.limit, parse_bytes(options.memory));
  session.mode = *memory_mode_from(options.mode);
  session.working_set = *working_set_from(options.working_set);
  session.managed_memory = options.managed_memory;
  session.host_memory = Bytes(available_host_memory().count / 2);
  if (!options.host_memory.empty()) {
    ASSIGN_OR_RETURN(session.host_memory, parse_bytes(options.host_memory));
  }
  return session;
}

// The variables take the place of those of the same names.
std::vector<std::string> environment_with(const std::vector<std::string>& variables,
                                          const ShimSessionOptions& options) {
  std::vector<std::string> all = variables;
  if (options.emulated) {
    const std::string folder = options.driver.substr(0, options.driver.rfind('/'));
    const char* path = getenv("LD_LIBRARY_PATH");
    all.push_back("LD_LIBRARY_PATH=" + folder + (path == nullptr ? "" : ":" + std::string(path)));
  }
  const size_t ours = all.size();
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text(*variable);
    const std::string_view name = text.substr(0, text.find('=') + 1);
    bool is_ours = false;
    for (size_t i = 0; i < ours; ++i) is_ours = is_ours || all[i].starts_with(name);
    if (!is_ours) all.emplace_back(text);
  }
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

struct Sum {
  unsigned moves = 0;
  unsigned refused = 0;
  Bytes bytes;
  Duration time{};

  void add(const worker::MemoryMove& move) {
    if (!move.done) {
      ++refused;
      return;
    }
    ++moves;
    bytes += move.moved;
    time += move.duration;
  }
  std::string text() const {
    const double rate =
        time.count() > 0 ? static_cast<double>(bytes.count) / 1e9 / to_seconds(time) : 0;
    char words[160];
    std::snprintf(words, sizeof(words), "%u times, %s at %.1f GB/s%s", moves,
                  to_string(bytes).c_str(), rate,
                  refused == 0 ? "" : (", " + std::to_string(refused) + " times refused").c_str());
    return words;
  }
};

// Out and in again, and so on until the program ends.
class Mover {
 public:
  Mover(loop::EventLoop& loop, ShimSession& session, Duration period)
      : loop_(loop), session_(session), period_(period) {
    session_.on_moved = [this](const worker::MemoryMove& move) { moved(move); };
    if (period_ > Duration(0)) arm();
  }
  const Sum& out() const { return out_; }
  const Sum& in() const { return in_; }

 private:
  void arm() {
    loop_.call_after(period_, [this] {
      if (session_.processes() == 0) return arm();
      session_.move_out();
    });
  }
  void moved(const worker::MemoryMove& move) {
    (move.out ? out_ : in_).add(move);
    if (move.out && move.done) return session_.move_in();
    if (!move.out && !move.done && !refusal_is_told_) tell_of_refusal();
    arm();
  }
  // The program waits for its memory meanwhile.
  void tell_of_refusal() {
    refusal_is_told_ = true;
    std::cerr << "lambent shim: its memory cannot come back: the GPU has no room for it; tried "
                 "again every "
              << to_seconds(period_) << " s" << std::endl;
  }

  loop::EventLoop& loop_;
  ShimSession& session_;
  Duration period_;
  Sum out_;
  Sum in_;
  bool refusal_is_told_ = false;
};

Result<int> run(Options& options) {
  ASSIGN_OR_RETURN(const ShimSessionOptions chosen, session_options(options));
  SystemClock clock;
  loop::EventLoop loop(clock);
  ASSIGN_OR_RETURN(const auto session, ShimSession::open(loop, chosen));
  std::vector<std::string> environment = environment_with(session->variables(), chosen);
  pid_t id = -1;
  if (const int error =
          posix_spawnp(&id, options.program[0].c_str(), nullptr, nullptr,
                       pointers_to(options.program).data(), pointers_to(environment).data())) {
    return error_from_errno("start " + options.program[0], error);
  }
  const OwnedFd end = open_process(id);
  const auto watch = loop.watch(end.get(), true, false, [&](loop::Readiness) { loop.stop(); });
  const Mover mover(loop, *session, from_seconds(options.move_every_ms / 1000));
  loop.run();
  int status = 0;
  waitpid(id, &status, 0);

  std::cerr << session->log_text();
  if (const auto readings = session->readings(); readings.ok()) {
    std::cerr << "lambent shim: GPU memory at most " << to_string(readings->peak) << "; "
              << readings->allocations << " allocations, " << readings->denied << " denied\n";
  }
  if (options.move_every_ms > 0) {
    std::cerr << "lambent shim: moved out " << mover.out().text() << "; in " << mover.in().text()
              << "\n";
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

int main(int count, char** words) {
  Options options;
  CLI::App app(
      "Runs a program under the CUDA shim as a worker would, moving its GPU memory to the host and "
      "back.\n\nExample: lambent shim --memory 8G --move-every 500 -- python3 train.py",
      "lambent shim");
  app.add_option("--memory", options.memory, "the program's limit of GPU memory; 0: none")
      ->capture_default_str();
  app.add_option("--mode", options.mode, "how its memory moves: vmm, uvm or off")
      ->check(CLI::IsMember({"vmm", "uvm", "off"}))
      ->capture_default_str();
  app.add_option("--working-set", options.working_set,
                 "what of its memory comes in again, in mode vmm: whole, or touched: what was used "
                 "recently")
      ->check(CLI::IsMember({"whole", "touched"}))
      ->capture_default_str();
  app.add_option("--managed-memory", options.managed_memory,
                 "how its memory comes in again, in mode uvm: prefetch, advise or faults")
      ->check(CLI::IsMember({"prefetch", "advise", "faults"}))
      ->capture_default_str();
  app.add_option("--move-every", options.move_every_ms,
                 "milliseconds between two moves to the host and back; 0: it stays")
      ->check(bin::within(0.0, 3.6e6))
      ->capture_default_str();
  app.add_option("--host-memory", options.host_memory,
                 "host memory for what is moved (default: half of what is available)");
  app.add_option("--driver", options.driver, "path of the real libcuda.so.1, if not a usual one");
  app.add_flag("--emulated", options.emulated, "use the emulated GPU (EMULATED_CUDA_NODE, ...)");
  app.add_option("program", options.program, "the program and its arguments, after --")->required();
  app.positionals_at_end();
  if (const auto exit_code = bin::parse(app, count, words)) return *exit_code;
  const auto status = run(options);
  if (status.ok()) return *status;
  std::cerr << "lambent shim: " << to_string(status.error()) << "\n";
  return exit_code_of(status.error().code);
}
