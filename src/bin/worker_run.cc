#include "bin/worker_run.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <string_view>
#include <utility>

namespace lambent {
namespace {

// How long a connection may be idle before the worker counts on its client to send no more.
constexpr Duration kIdleGrace = milliseconds(500);
constexpr Duration kLookAgain = milliseconds(5);
// In which the installed program reads its state and serves.
constexpr Duration kStartTime = seconds(60);
// For the last answers to leave.
constexpr Duration kLastAnswers = milliseconds(50);
// This one serves meanwhile. A machine under load, or one that is emulated, needs seconds.
constexpr ChildLimits kCheckLimits{.time = seconds(60), .nice = 0};

// Why the installed program cannot go on with the sandboxes; empty: it can. It answers with a line
// for each format that it reads.
std::string why_not_kept(const Result<ChildEnd>& answer) {
  if (!answer.ok()) return to_string(answer.error());
  if (answer->exit_code != 0) return "it does not know of sandboxes that are kept";
  const std::string ours = worker::kept_record_format();
  std::string_view left = answer->output;
  while (!left.empty()) {
    const size_t end = std::min(left.find('\n'), left.size());
    if (left.substr(0, end) == ours) return "";
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  return "it does not read their format, " + ours;
}

}  // namespace

WorkerRun::End WorkerRun::run() {
  const auto watch = serving_.loop.watch(serving_.signals.get(), true, false,
                                         [this](loop::Readiness) { take_signal(); });
  serving_.loop.run();
  return end_;
}

void WorkerRun::take_signal() {
  signalfd_siginfo info{};
  if (read(serving_.signals.get(), &info, sizeof(info)) != sizeof(info)) return;
  switch (info.ssi_signo) {
    case SIGHUP:
      return reload();
    case SIGUSR2:
      return replace();
    default:
      return stop(static_cast<int>(info.ssi_signo));
  }
}

void WorkerRun::reload() {
  serving_.service.reloading(serving_.loop.now());
  if (serving_.identity != nullptr) {
    serving_.identity->reload();
  } else {
    serving_.log.info("nothing_to_reload");
  }
  return stopping_ ? serving_.service.stopping("draining")
                   : serving_.service.ready(serving_.status);
}

void WorkerRun::stop(int signal) {
  const bool gives_way = std::exchange(end_, End::kStopped) == End::kReplaced;
  const bool asked_before = std::exchange(stopping_, true) && !gives_way;
  if (asked_before) return serving_.loop.stop();  // asked twice: at once
  check_.reset();
  serving_.log.info("stopping", {{"signal", static_cast<int64_t>(signal)}});
  serving_.service.stopping("draining: what runs may end, for " +
                            std::to_string(static_cast<int64_t>(to_seconds(serving_.drain_time))) +
                            " s at most");
  // What was accepted is being answered already; no program comes after it.
  if (gives_way) return serving_.sockets->close();
  drain();
}

void WorkerRun::drain() {
  if (end_ == End::kReplaced && keeps_sandboxes_) serving_.hand_over.begin();
  serving_.loop.call_after(serving_.drain_time, [this] { serving_.loop.stop(); });
  serving_.worker.drain([this] {
    // Else connections would still be taken, and cut off in the end.
    if (end_ == End::kStopped) serving_.sockets->close();
    serving_.server.stop_accepting();
    close_connections(serving_.loop.now() + kIdleGrace);
  });
}

// A client may just be writing to a connection that looks idle: it is told to try elsewhere, and
// not cut off. The last answers leave before the loop does.
void WorkerRun::close_connections(Instant latest) {
  if (serving_.server.connection_count() > 0 && serving_.loop.now() < latest) {
    serving_.loop.call_after(kLookAgain, [this, latest] { close_connections(latest); });
    return;
  }
  serving_.server.drain();
  answer_forwards();
}

// The worker has drained of its own runs. Those of other nodes are answered by this one, too.
void WorkerRun::answer_forwards() {
  if (serving_.cluster != nullptr && serving_.cluster->has_forwards_under_way()) {
    serving_.loop.call_after(kLookAgain, [this] { answer_forwards(); });
    return;
  }
  serving_.loop.call_after(kLastAnswers, [this] { serving_.loop.stop(); });
}

// ---- Giving way to the installed program

void WorkerRun::replace() {
  if (stopping_ || check_ != nullptr) return;
  std::vector<std::string> words = serving_.program;
  words.push_back("--check");
  auto started = ChildRun::start(serving_.loop, std::move(words), kCheckLimits,
                                 [this](Result<ChildEnd> end) { checked(std::move(end)); });
  if (!started.ok()) return checked(started.error());
  check_ = std::move(*started);
}

void WorkerRun::checked(Result<ChildEnd> end) {
  check_.reset();
  if (!end.ok() || end->exit_code != 0) {
    const std::string why = !end.ok()             ? to_string(end.error())
                            : end->errors.empty() ? "exit code " + std::to_string(end->exit_code)
                                                  : in_one_line(end->errors);
    serving_.log.error("not_replaced", {{"program", serving_.program.front()}, {"error", why}});
    return;
  }
  // Whether it can go on with sandboxes. One that does not know the question cannot.
  auto asked =
      ChildRun::start(serving_.loop, {serving_.program.front(), kKeptFormatFlag}, kCheckLimits,
                      [this](const Result<ChildEnd>& answer) { give_way(why_not_kept(answer)); });
  if (!asked.ok()) return give_way(to_string(asked.error()));
  check_ = std::move(*asked);
}

void WorkerRun::give_way(const std::string& why_not) {
  check_.reset();
  if (stopping_) return;
  keeps_sandboxes_ = why_not.empty();
  stopping_ = true;
  end_ = End::kReplaced;
  if (!keeps_sandboxes_) serving_.log.warning("sandboxes_end", {{"why", why_not}});
  serving_.log.info("replacing",
                    {{"program", serving_.program.front()}, {"keeps_sandboxes", keeps_sandboxes_}});
  serving_.service.reloading(serving_.loop.now());
  if (serving_.cluster == nullptr) return accept_no_more();
  // Other nodes send it nothing more, and wait for what it has.
  serving_.cluster->give_way(serving_.drain_time + kStartTime, [this] { accept_no_more(); });
}

void WorkerRun::accept_no_more() {
  serving_.server.stop_accepting();
  // Those whose requests go on keep theirs until the whole time is up.
  serving_.loop.call_after(kIdleGrace, [this] {
    serving_.server.drain();
    finish_requests();
  });
  serving_.loop.call_after(serving_.drain_time, [this] { serving_.loop.stop(); });
}

void WorkerRun::finish_requests() {
  if (serving_.server.open_exchanges() > 0) {
    serving_.loop.call_after(kLookAgain, [this] { finish_requests(); });
    return;
  }
  drain();
}

}  // namespace lambent
