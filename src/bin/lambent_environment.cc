// lambent-environment: installs the Python packages of functions for the worker that started it.
// Not for use by hand. Reads one order as JSON from its standard input, and writes lines:
// "tell WHAT HAPPENS", and last "done REPORT" or "failed CODE MESSAGE".
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <iostream>
#include <iterator>
#include <string>

#include "core/base/fd.h"
#include "node/environments/builder.h"

namespace {

using namespace lambent;

void say(std::string_view kind, std::string_view text) {
  std::string line(kind);
  line += ' ';
  for (const char c : text) line += c == '\n' ? ' ' : c;
  line += '\n';
  (void)write_all(STDOUT_FILENO, line);
}

Result<environments::BuildReport> build() {
  const std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  // The order may hold credentials: what is started reads none of it.
  const int nothing = open("/dev/null", O_RDONLY);
  if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0) return error_from_errno("dup2", errno);
  close(nothing);
  ASSIGN_OR_RETURN(const environments::BuildOrder order, environments::parse_build_order(text));
  ASSIGN_OR_RETURN(const environments::Walls walls, environments::prepare_to_confine());
  return environments::build_environment(walls, order,
                                         [](std::string_view what) { say("tell", what); });
}

}  // namespace

int main() {
  // With the worker ends what it started.
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  signal(SIGPIPE, SIG_IGN);
  setpriority(PRIO_PROCESS, 0, 10);
  umask(0022);
  const auto report = build();
  if (!report.ok()) {
    say("failed " + std::string(name_of(report.error().code)), report.error().message);
    return 1;
  }
  say("done", environments::to_json(*report));
  return 0;
}
