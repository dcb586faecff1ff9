#include "node/sandbox/spawn.h"

#include <spawn.h>

#include <csignal>

namespace lambent::sandbox {

Result<pid_t> spawn(std::vector<std::string> arguments, const PassedDescriptors& descriptors) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (const auto& [ours, theirs] : descriptors) {
    // Also when both are the same number: then it clears close-on-exec.
    posix_spawn_file_actions_adddup2(&actions, ours, theirs);
  }
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  char* no_environment[] = {nullptr};
  pid_t pid = -1;
  const int result =
      posix_spawn(&pid, argv.front(), &actions, &attributes, argv.data(), no_environment);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (result != 0) return error_from_errno("start " + arguments.front(), result);
  return pid;
}

}  // namespace lambent::sandbox
