// lambent-launcher: makes sandboxes for the worker that started it. Not for use by hand, but for
// --probe, which tells what this machine allows.
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "node/sandbox/server.h"

namespace {

using namespace lambent;

constexpr char kUsage[] =
    "usage: lambent-launcher --probe [--cgroup-parent PATH]\n"
    "       lambent-launcher --channel FD [--pool N] [--most N] [--zygotes N] [--cgroup-parent "
    "PATH] [--strict]\n"
    "The first form prints what sandboxes can do on this machine. The second is for the worker.\n";

struct Flags {
  sandbox::ServerOptions server;
  int channel = -1;
  bool probe = false;
};

bool parse(int argc, char** argv, Flags& flags) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : nullptr;
    if (flag == "--probe") {
      flags.probe = true;
    } else if (flag == "--strict") {
      flags.server.require_strong_limits = true;
    } else if (value == nullptr) {
      return false;
    } else if (flag == "--channel") {
      flags.channel = atoi(argv[++i]);
    } else if (flag == "--pool") {
      flags.server.pool = static_cast<unsigned>(atoi(argv[++i]));
    } else if (flag == "--most") {
      flags.server.most_sandboxes = static_cast<unsigned>(atoi(argv[++i]));
    } else if (flag == "--zygotes") {
      flags.server.zygotes = static_cast<unsigned>(atoi(argv[++i]));
    } else if (flag == "--cgroup-parent") {
      flags.server.cgroup_parent = argv[++i];
    } else {
      return false;
    }
  }
  return flags.probe != (flags.channel >= 3);
}

// Signals meant for the worker's process group are the worker's business: we end when it does.
void leave_signals_to_worker() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) ::signal(signal, SIG_IGN);
}

// Each sandbox is some descriptors of ours, whatever the worker may open when it starts us.
void allow_many_files() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  if (!parse(argc, argv, flags)) {
    fputs(kUsage, stderr);
    return 2;
  }
  if (flags.probe) {
    const auto capabilities = sandbox::probe_capabilities(flags.server.cgroup_parent);
    fputs(sandbox::to_string(capabilities).c_str(), stdout);
    return capabilities.impossible.empty() ? 0 : 1;
  }
  leave_signals_to_worker();
  allow_many_files();
  sandbox::Channel worker{OwnedFd(flags.channel)};
  const SystemClock clock;
  auto server = sandbox::Server::create(clock, flags.server);
  if (!server.ok()) {
    (void)worker.send(sandbox::FailedReply{SandboxId(), server.error()});
    return 1;
  }
  (*server)->run(std::move(worker));
  return 0;
}
