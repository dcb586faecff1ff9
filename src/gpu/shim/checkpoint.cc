#include "gpu/shim/checkpoint.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu/shim/checkpoint_steps.h"
#include "gpu/shim/log.h"

extern char** environ;

namespace lambent::shim {
namespace {

using Status = protocol::MemoryMoveStatus;

constexpr size_t kStackBytes = 64 * 1024;
constexpr size_t kMostVariables = 1024;
constexpr int kCannotStart = 126;

struct Start {
  const char* program;
  char** arguments;
  char** environment;
};

// In a process between us and the program, which shares our memory while the agent's thread stands
// still. Its own exit status is the program's.
int start_and_wait(void* start) {
  const auto* what = static_cast<const Start*>(start);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t child = 0;
  const int error =
      posix_spawn(&child, what->program, nullptr, &attributes, what->arguments, what->environment);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) _exit(kCannotStart);
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) _exit(kCannotStart);
  }
  _exit(WIFEXITED(status) ? WEXITSTATUS(status) : kCannotStart);
}

// Beside this library.
bool find_program(char (&path)[512]) {
  Dl_info self = {};
  if (dladdr(reinterpret_cast<const void*>(&find_program), &self) == 0) return false;
  const char* slash = strrchr(self.dli_fname, '/');
  if (slash == nullptr) return false;
  const int length = static_cast<int>(slash - self.dli_fname);
  const int written =
      snprintf(path, sizeof(path), "%.*s/lambent-checkpoint", length, self.dli_fname);
  return written > 0 && static_cast<size_t>(written) < sizeof(path);
}

// The exit status of one step, or -1. The process in between sends no signal at its end and is met
// only by a wait for it by __WCLONE; the program that it starts is not our child. So a
// user's code that waits for its own children never meets either.
int run_step(const char* direction) {
  char program[512];
  if (!find_program(program)) return -1;
  char process[16];
  snprintf(process, sizeof(process), "%d", static_cast<int>(getpid()));
  char* arguments[] = {program, const_cast<char*>(direction), process, nullptr};
  // Without the preloads: it speaks with the driver itself.
  static char* environment[kMostVariables + 1];
  size_t count = 0;
  for (char** variable = environ; *variable != nullptr && count < kMostVariables; ++variable) {
    if (strncmp(*variable, "LD_PRELOAD=", 11) != 0) environment[count++] = *variable;
  }
  environment[count] = nullptr;
  static char stack[kStackBytes] __attribute__((aligned(16)));
  Start start = {program, arguments, environment};
  const int child = clone(start_and_wait, stack + kStackBytes, CLONE_VM | CLONE_VFORK, &start);
  if (child < 0) {
    log_line("no process for a checkpoint: %s", strerror(errno));
    return -1;
  }
  int status = 0;
  pid_t ended = -1;
  do {
    ended = waitpid(child, &status, __WCLONE);
  } while (ended < 0 && errno == EINTR);
  if (ended != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

}  // namespace

Status checkpoint_this_process() {
  const int exit = run_step("out");
  if (exit == kCheckpointDone) return Status::kDone;
  log_line("the checkpoint of this process ended with %d", exit);
  return exit == kCheckpointHalfWay ? Status::kFailed : Status::kNotSupported;
}

Status restore_this_process() {
  const int exit = run_step("in");
  if (exit == kCheckpointDone) return Status::kDone;
  log_line("the return from a checkpoint ended with %d", exit);
  return exit == kCheckpointNoMemory ? Status::kNoDeviceMemory : Status::kFailed;
}

}  // namespace lambent::shim
