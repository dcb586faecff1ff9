// lambent-environment: installs the Python packages of functions for the worker that started it, or
// pulls an image ("lambent-environment image"). Not for use by hand. Reads one order as JSON from
// its standard input, and writes lines: "tell WHAT HAPPENS", and last "done REPORT" or
// "failed CODE MESSAGE".
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
#include "node/images/puller.h"

namespace {

using namespace lambent;

// A third of the time of what serves requests, where they want the same processor.
constexpr int kNiceness = 5;

void say(std::string_view kind, std::string_view text) {
  std::string line(kind);
  line += ' ';
  for (const char c : text) line += c == '\n' ? ' ' : c;
  line += '\n';
  (void)write_all(STDOUT_FILENO, line);
}

// The report, as JSON.
Result<std::string> build(bool is_image) {
  const std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  // The order may hold credentials: what is started reads none of it.
  const int nothing = open("/dev/null", O_RDONLY);
  if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0) return error_from_errno("dup2", errno);
  close(nothing);
  ASSIGN_OR_RETURN(const environments::Walls walls, environments::prepare_to_confine());
  const auto tell = [](std::string_view what) { say("tell", what); };
  if (is_image) {
    ASSIGN_OR_RETURN(const images::PullOrder order, images::parse_pull_order(text));
    ASSIGN_OR_RETURN(const images::PulledImage image, images::pull_image(walls, order, tell));
    return images::to_json(image);
  }
  ASSIGN_OR_RETURN(const environments::BuildOrder order, environments::parse_build_order(text));
  ASSIGN_OR_RETURN(const environments::BuildReport report,
                   environments::build_environment(walls, order, tell));
  return environments::to_json(report);
}

}  // namespace

int main(int argc, char** argv) {
  // With the worker ends what it started.
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  signal(SIGPIPE, SIG_IGN);
  setpriority(PRIO_PROCESS, 0, kNiceness);
  umask(0022);
  const auto report = build(argc > 1 && std::string_view(argv[1]) == "image");
  if (!report.ok()) {
    say("failed " + std::string(name_of(report.error().code)), report.error().message);
    return 1;
  }
  say("done", *report);
  return 0;
}
