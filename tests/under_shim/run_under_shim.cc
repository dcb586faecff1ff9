// run_under_shim [--limit-mib N] [--mode off|vmm|uvm] COMMAND...: runs a program with the
// shims preloaded, a ledger of its own and a generous limit, and answers with its exit status;
// afterwards the ledger must be empty and the shim must have had nothing to say. The real driver is
// the one that lies in LD_LIBRARY_PATH.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "gpu/ledger/ledger.h"

namespace {

using std::filesystem::path;

constexpr int kWrongUse = 3;
constexpr int kShimComplained = 4;

path found_library(const std::string& name) {
  const char* folders = std::getenv("LD_LIBRARY_PATH");
  std::istringstream list(folders == nullptr ? "" : folders);
  for (std::string folder; std::getline(list, folder, ':');) {
    if (std::filesystem::exists(path(folder) / name)) return path(folder) / name;
  }
  return {};
}

// The lines in which the shim tells of something that went wrong. That a program asked for a
// function which the real library does not have is no such thing.
std::string complaints_in(const path& file) {
  std::ifstream in(file);
  std::string text;
  for (std::string line; std::getline(in, line);) {
    if (line.find("the real library has no ") == std::string::npos) text += line + "\n";
  }
  return text;
}

int run(char** words) {
  const pid_t child = fork();
  if (child == 0) {
    execvp(words[0], words);
    std::perror(words[0]);
    _exit(127);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return 127;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

int main(int count, char** words) {
  int next = 1;
  long long limit_mib = 1 << 20;
  std::string mode = "off";
  for (; next + 1 < count && words[next][0] == '-'; next += 2) {
    const std::string flag = words[next];
    if (flag == "--limit-mib") limit_mib = std::atoll(words[next + 1]);
    if (flag == "--mode") mode = words[next + 1];
    if (flag != "--limit-mib" && flag != "--mode") return kWrongUse;
  }
  const path driver = found_library("libcuda.so.1");
  const path nvml = found_library("libnvidia-ml.so.1");
  if (next >= count || driver.empty()) {
    std::fprintf(stderr,
                 "usage: run_under_shim [--limit-mib N] [--mode off|vmm|uvm] COMMAND..., with a "
                 "libcuda.so.1 in LD_LIBRARY_PATH\n");
    return kWrongUse;
  }
  char name[] = "/tmp/run_under_shim_XXXXXX";
  const path folder = mkdtemp(name);
  auto ledger = lambent::ledger::create_ledger(folder / "ledger", lambent::Bytes::mib(limit_mib));
  if (!ledger.ok()) return std::fprintf(stderr, "%s\n", to_string(ledger.error()).c_str()), 127;

  setenv("LAMBENT_SHIM_DRIVER", driver.c_str(), 1);
  if (!nvml.empty()) setenv("LAMBENT_SHIM_NVML", nvml.c_str(), 1);
  setenv("LAMBENT_SHIM_LEDGER", (folder / "ledger").c_str(), 1);
  setenv("LAMBENT_SHIM_LOG", (folder / "log").c_str(), 1);
  setenv("LAMBENT_SHIM_MEMORY_MODE", mode.c_str(), 1);
  setenv("LD_PRELOAD", SHIM_LIBRARY ":" SHIM_NVML_LIBRARY, 1);
  int status = run(words + next);
  unsetenv("LD_PRELOAD");

  const auto readings = ledger->read();
  const std::string log = complaints_in(folder / "log");
  std::filesystem::remove_all(folder);
  std::fprintf(
      stderr, "run_under_shim: status %d, %llu allocations counted, peak %llu bytes, %llu denied\n",
      status, static_cast<unsigned long long>(readings.ok() ? readings->allocations : 0),
      static_cast<unsigned long long>(readings.ok() ? readings->peak.count : 0),
      static_cast<unsigned long long>(readings.ok() ? readings->denied : 0));
  if (!log.empty()) std::fprintf(stderr, "run_under_shim: the shim says:\n%s", log.c_str());
  const bool is_clean = readings.ok() && !readings->tampered && readings->used.count == 0;
  if (!is_clean) std::fprintf(stderr, "run_under_shim: the ledger was not left empty\n");
  if (status == 0 && (!is_clean || !log.empty())) status = kShimComplained;
  return status;
}
