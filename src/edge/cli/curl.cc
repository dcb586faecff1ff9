#include "edge/cli/curl.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "core/base/fd.h"

extern char** environ;

namespace lambent::cli {
namespace {

constexpr size_t kPiece = 256 * 1024;
constexpr size_t kMostHeads = 1 << 20;
constexpr size_t kMostComplaint = 4096;
// Where the child finds them.
constexpr int kHeadsFd = 3;

// In the quotes of curl's own configuration.
std::string in_curl_quotes(std::string_view text) {
  std::string made = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') made += '\\';
    made += c == '\n' ? ' ' : c;
  }
  return made + "\"";
}

int64_t whole_seconds(Duration duration) {
  return std::max<int64_t>(1, std::chrono::duration_cast<std::chrono::seconds>(duration).count());
}

// What it is to do. Not in its arguments, which every user of the machine can see.
std::string curl_configuration(const CurlRequest& request) {
  const int64_t stall = whole_seconds(request.stall);
  std::string text = "url = " + in_curl_quotes(request.url) + "\n";
  text += "silent\nshow-error\nglobbing = false\n";
  text += "proto = \"=http,https\"\n";
  if (!request.resolve.empty()) text += "resolve = " + in_curl_quotes(request.resolve) + "\n";
  // What was looked at is what holds, and no rule of curl's own.
  text += request.proxy.empty() ? "noproxy = \"*\"\n"
                                : "proxy = " + in_curl_quotes(request.proxy) + "\nnoproxy = \"\"\n";
  text += "connect-timeout = " + std::to_string(stall) + "\n";
  text += "speed-limit = 1\nspeed-time = " + std::to_string(stall) + "\n";
  if (request.most > Bytes()) {
    text += "max-filesize = " + std::to_string(request.most.count) + "\n";
  }
  text += "dump-header = \"/dev/fd/" + std::to_string(kHeadsFd) + "\"\n";
  for (const std::string& header : request.headers)
    text += "header = " + in_curl_quotes(header) + "\n";
  // For the hosts that it names, whatever their port.
  if (request.user.empty() && request.reads_netrc) text += "netrc-optional\n";
  if (!request.user.empty()) text += "user = " + in_curl_quotes(request.user) + "\n";
  if (!request.signature.empty()) text += "aws-sigv4 = " + in_curl_quotes(request.signature) + "\n";
  return text;
}

Result<OwnedFd> memory_file(const char* name) {
  OwnedFd file(memfd_create(name, MFD_CLOEXEC));
  if (!file.valid()) return error_from_errno("memfd_create", errno);
  return file;
}

std::string content_of(const OwnedFd& file, size_t most) {
  std::string text(most, '\0');
  const ssize_t got = pread(file.get(), text.data(), most, 0);
  text.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  return text;
}

class Child {
 public:
  ~Child() {
    if (id_ <= 0) return;
    kill(id_, SIGKILL);
    (void)wait();
  }
  Child() = default;
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  Result<void> start(int input, int output, int complaints, int heads) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, complaints, STDERR_FILENO);
    posix_spawn_file_actions_adddup2(&actions, heads, kHeadsFd);
    posix_spawn_file_actions_addclosefrom_np(&actions, kHeadsFd + 1);
    // First, so that the user's own configuration does not count.
    std::string words[] = {"curl", "--disable", "--config", "-"};
    char* arguments[] = {words[0].data(), words[1].data(), words[2].data(), words[3].data(),
                         nullptr};
    const int status = posix_spawnp(&id_, "curl", &actions, nullptr, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (status == 0) return {};
    id_ = 0;
    if (status != ENOENT) return error_from_errno("start curl", status);
    return Error{ErrorCode::kFailedPrecondition,
                 "models are fetched with the program curl, which is not there; install it"};
  }

  // Its exit status; that of a signal is 128 and more.
  int wait() {
    int status = 0;
    while (waitpid(id_, &status, 0) < 0 && errno == EINTR) {
    }
    id_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t id_ = 0;
};

// "curl: (56) Recv failure: ..." without its beginning.
std::string complaint_in(const OwnedFd& file) {
  std::string text = content_of(file, kMostComplaint);
  text.erase(text.find_last_not_of('\n') + 1);
  if (text.starts_with("curl: (")) {
    const size_t end = text.find(") ");
    if (end != std::string::npos) text.erase(0, end + 2);
  }
  return text;
}

// libcurl's numbers, which never change.
Error error_of_exit(int exit_code, const std::string& complaint, const CurlRequest& request) {
  const auto with = [&](ErrorCode code, const std::string& what) {
    return Error{code, what + (complaint.empty() ? "" : ": " + complaint)};
  };
  switch (exit_code) {
    case 7:
      return with(ErrorCode::kUnavailable, "no server answers");
    case 18:
      return with(ErrorCode::kAborted, "it was cut off");
    case 28:
      return Error{ErrorCode::kDeadlineExceeded, "nothing came for " +
                                                     std::to_string(whole_seconds(request.stall)) +
                                                     " s (--fetch-timeout)"};
    case 35:
    case 52:
    case 56:
    case 92:
      return with(ErrorCode::kUnavailable, "the connection broke");
    case 63:
      return too_large(request.most);
    default:
      return with(ErrorCode::kFailedPrecondition,
                  "curl gave up (" + std::to_string(exit_code) + ")");
  }
}

}  // namespace

Error too_large(Bytes most) {
  return {ErrorCode::kResourceExhausted,
          "it is larger than the " + to_string(most) + " that there is room for"};
}

CurlHead last_head(std::string_view text) {
  CurlHead head;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.starts_with("HTTP/")) {
      head = {};
      const size_t space = line.find(' ');
      if (space == std::string_view::npos) continue;
      line.remove_prefix(space + 1);
      std::from_chars(line.data(), line.data() + line.size(), head.status);
      continue;
    }
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    std::string_view value = line.substr(colon + 1);
    value.remove_prefix(std::min(value.find_first_not_of(" \t"), value.size()));
    head.headers.add(std::string(line.substr(0, colon)), std::string(value));
  }
  return head;
}

Result<CurlHead> run_curl(const CurlRequest& request, const CurlSink& sink) {
  ASSIGN_OR_RETURN(const OwnedFd configuration, memory_file("curl-configuration"));
  ASSIGN_OR_RETURN(const OwnedFd heads, memory_file("curl-heads"));
  ASSIGN_OR_RETURN(const OwnedFd complaints, memory_file("curl-complaints"));
  RETURN_IF_ERROR(write_all(configuration.get(), curl_configuration(request)));
  lseek(configuration.get(), 0, SEEK_SET);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return error_from_errno("pipe", errno);
  const OwnedFd output(ends[0]);
  Child child;
  {
    const OwnedFd into(ends[1]);
    RETURN_IF_ERROR(child.start(configuration.get(), into.get(), complaints.get(), heads.get()));
  }
  CurlHead head;
  std::string piece(kPiece, '\0');
  for (;;) {
    const ssize_t got = read(output.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return error_from_errno("read from curl", errno);
    if (got == 0) break;
    if (head.status == 0) head = last_head(content_of(heads, kMostHeads));
    RETURN_IF_ERROR(sink(head, std::string_view(piece).substr(0, static_cast<size_t>(got))));
  }
  const int exit_code = child.wait();
  if (exit_code != 0) return error_of_exit(exit_code, complaint_in(complaints), request);
  return last_head(content_of(heads, kMostHeads));
}

}  // namespace lambent::cli
