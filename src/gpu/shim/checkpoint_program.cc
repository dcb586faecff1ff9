// lambent-checkpoint out|in PID: asks the driver to take a process off its devices, or to bring it
// back. Lies beside the shim, which starts it inside the sandbox, where the id means the process.
// Needs only libc.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/shim/checkpoint_steps.h"

using namespace lambent::shim;

namespace {

constexpr int kOutOfMemory = 2;
constexpr unsigned kGracePeriod_ms = 5000;

// CUcheckpointLockArgs; the arguments of the other steps are as long, and all zero.
struct Arguments {
  unsigned timeout_ms = 0;
  unsigned reserved0 = 0;
  unsigned long long reserved[7] = {};
};
static_assert(sizeof(Arguments) == 64);

struct Steps {
  void* driver;
  int process;

  int operator()(const char* step, unsigned timeout_ms = 0) const {
    char name[64];
    snprintf(name, sizeof(name), "cuCheckpointProcess%s", step);
    const auto function = reinterpret_cast<int (*)(int, Arguments*)>(dlsym(driver, name));
    Arguments arguments;
    arguments.timeout_ms = timeout_ms;
    const int status = function == nullptr ? -1 : function(process, &arguments);
    if (status != 0) fprintf(stderr, "lambent-checkpoint: %s: %d\n", name, status);
    return status;
  }
};

int take_out(const Steps& step) {
  if (step("Lock", kGracePeriod_ms) != 0) return kCheckpointRefused;
  if (step("Checkpoint") == 0) return kCheckpointDone;
  return step("Unlock") == 0 ? kCheckpointRefused : kCheckpointHalfWay;
}

int bring_in(const Steps& step) {
  const int status = step("Restore");
  if (status == kOutOfMemory) return kCheckpointNoMemory;
  if (status != 0) return kCheckpointHalfWay;
  return step("Unlock") == 0 ? kCheckpointDone : kCheckpointHalfWay;
}

}  // namespace

int main(int count, char** words) {
  const int process = count == 3 ? atoi(words[2]) : 0;
  const char* path = getenv("LAMBENT_SHIM_DRIVER");
  if (process <= 0 || (strcmp(words[1], "out") != 0 && strcmp(words[1], "in") != 0)) {
    fprintf(stderr, "usage: lambent-checkpoint out|in PID\n");
    return kCheckpointRefused;
  }
  void* driver = dlopen(path == nullptr ? "libcuda.so.1" : path, RTLD_NOW);
  const bool out = strcmp(words[1], "out") == 0;
  const auto init =
      driver == nullptr ? nullptr : reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  // A restore that cannot even begin leaves the process where it was, as if there were no room.
  if (init == nullptr || init(0) != 0) return out ? kCheckpointRefused : kCheckpointNoMemory;
  const Steps step{driver, process};
  return out ? take_out(step) : bring_in(step);
}
