#include "node/sandbox/server.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "node/sandbox/network_device.h"
#include "node/sandbox/root_filesystem.h"
#include "node/sandbox/start_limits.h"

namespace lambent::sandbox {
namespace {

constexpr uint64_t kWorkerKey = 0;
// The descriptors of each box: its control channel, its pidfd and that of its way out.
constexpr uint64_t kKeys = 4;
constexpr uint64_t control_key(uint64_t number) { return number * kKeys; }
constexpr uint64_t pidfd_key(uint64_t number) { return number * kKeys + 1; }
constexpr uint64_t way_out_key(uint64_t number) { return number * kKeys + 2; }

// Above this much unsent news we stop listening to the worker until it takes some.
constexpr size_t kMostOutgoing = 4096;
constexpr int kEvents = 64;

Duration cpu_of(const rusage& usage) {
  auto sum = [](const timeval& time) { return seconds(time.tv_sec) + microseconds(time.tv_usec); };
  return sum(usage.ru_utime) + sum(usage.ru_stime);
}

// As we number it; 0 if it is gone.
pid_t pid_of(int pidfd) {
  const auto text = read_file("/proc/self/fdinfo/" + std::to_string(pidfd), 4096);
  const size_t at = text.ok() ? text->find("Pid:\t") : std::string::npos;
  return at == std::string::npos ? 0 : std::max(0, atoi(text->c_str() + at + 5));
}

void send_signal(int pidfd, int signal) {
  syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0);
}

void send_kill(int pidfd) { send_signal(pidfd, SIGKILL); }

}  // namespace

Server::Server(const Clock& clock, ServerOptions options, CgroupTree cgroups)
    : clock_(clock),
      options_(std::move(options)),
      cgroups_(std::move(cgroups)),
      zygotes_(zygotes_use(), options_.zygotes) {}

Zygotes::Dependencies Server::zygotes_use() {
  return {clock_,
          cgroups_,
          confinement_,
          [this](const InitProcess& process, BoxNumber number) {
            watch(process.control.fd(), control_key(number));
            watch(process.pidfd.get(), pidfd_key(number));
          },
          [this](const ZygoteNews& news) { tell(news); },
          [this](BoxNumber number, OwnedFd pidfd) { take_forked_box(number, std::move(pidfd)); }};
}

Result<std::unique_ptr<Server>> Server::create(const Clock& clock, ServerOptions options) {
  Capabilities capabilities = probe_namespaces();
  // Before we leave for a user namespace of our own: there the cgroups' files would not be ours.
  CgroupTree cgroups = CgroupTree::open(options.cgroup_parent);
  cgroups.describe(capabilities);
  if (!capabilities.impossible.empty()) {
    return Error{ErrorCode::kFailedPrecondition,
                 "sandboxes are not possible here: " + capabilities.impossible};
  }
  const auto weaker = weaker_limits(capabilities);
  if (options.require_strong_limits && !weaker.empty()) {
    return Error{ErrorCode::kFailedPrecondition, "strong limits are required, but " + weaker[0]};
  }
  // A zygote's memory has to be bounded, and its rights need a namespace to end with.
  if (!capabilities.memory_cgroup || !capabilities.user_namespaces) options.zygotes = 0;
  std::unique_ptr<Server> server(new Server(clock, std::move(options), std::move(cgroups)));
  server->capabilities_ = capabilities;
  Confinement& confinement = server->confinement_;
  confinement.change_user = capabilities.root;
  confinement.own_user_namespace = capabilities.user_namespaces;
  confinement.limit_by_rlimit = !capabilities.pids_cgroup;
  confinement.watch_memory = !capabilities.memory_cgroup;
  ASSIGN_OR_RETURN(confinement.filter, compile_seccomp_filter());
  ASSIGN_OR_RETURN(confinement.zygote_filter, compile_seccomp_filter(SeccompException::kSetns));
  RETURN_IF_ERROR(enter_launcher_namespaces(capabilities.root));
  server->epoll_ = OwnedFd(epoll_create1(EPOLL_CLOEXEC));
  if (!server->epoll_.valid()) return error_from_errno("epoll_create1", errno);
  return server;
}

void Server::run(Channel worker) {
  worker_ = std::move(worker);
  worker_.set_blocking(false);
  watch(worker_.fd(), kWorkerKey);
  tell(Hello{capabilities_});
  refill();
  bool worker_there = true;
  while (worker_there) {
    epoll_event events[kEvents];
    // Cgroups that were busy are tried again soon.
    const auto rest = patience();
    const int rest_ms = rest ? static_cast<int>(to_milliseconds(*rest)) + 1 : -1;
    const int timeout_ms = lingering_.empty() ? rest_ms : 20;
    const int got = epoll_wait(epoll_.get(), events, kEvents, timeout_ms);
    for (int i = 0; i < got; ++i) {
      const uint64_t key = events[i].data.u64;
      if (key == kWorkerKey) {
        worker_there = hear_worker() && worker_there;
      } else if (key == control_key(key / kKeys)) {
        hear_box(key / kKeys);
      } else if (key == pidfd_key(key / kKeys)) {
        bury(key / kKeys);
      } else {
        bury_way_out(key / kKeys);
      }
    }
    end_what_gave_way_long();
    tend_zygotes();
    match();
    refill();
    std::erase_if(lingering_, [](SandboxCgroup& cgroup) { return cgroup.remove(); });
  }
  shut_down();
}

// --- the worker ---

// False: the worker is gone.
bool Server::hear_worker() {
  flush();
  while (outgoing_.size() < kMostOutgoing) {
    auto word = worker_.receive();
    if (!word.ok()) {
      if (word.error().code == ErrorCode::kInvalidArgument) continue;  // not one of our messages
      return false;
    }
    if (!*word) return true;
    Message& message = (*word)->message;
    if (auto* launch = std::get_if<LaunchRequest>(&message)) handle(std::move(*launch));
    if (auto* kill = std::get_if<KillRequest>(&message)) handle(*kill);
    if (auto* end = std::get_if<TerminateRequest>(&message)) handle(*end);
    if (auto* ready = std::get_if<ProgramReady>(&message)) handle(*ready);
    if (auto* usage = std::get_if<UsageRequest>(&message)) handle(*usage);
    if (auto* sockets = std::get_if<SocketsRequest>(&message)) handle(*sockets);
  }
  return true;
}

void Server::handle(LaunchRequest request) {
  const SandboxId sandbox = request.plan.sandbox;
  auto refuse = [&](Error error) { tell(FailedReply{sandbox, std::move(error)}); };
  if (auto valid = validate(request.plan); !valid.ok()) return refuse(valid.error());
  const bool waits = std::any_of(waiting_.begin(), waiting_.end(),
                                 [&](const Waiting& each) { return each.plan.sandbox == sandbox; });
  if (waits || by_sandbox_.contains(sandbox)) {
    return refuse(Error{ErrorCode::kAlreadyExists,
                        "sandbox " + std::to_string(sandbox.value) + " is there already"});
  }
  if (by_sandbox_.size() + waiting_.size() >= options_.most_sandboxes) {
    return refuse(Error{
        ErrorCode::kResourceExhausted,
        "all " + std::to_string(options_.most_sandboxes) + " sandboxes of this node are in use"});
  }
  preparing_failed_ = false;
  zygotes_.want(request.plan, next_number_++);
  waiting_.push_back(Waiting{std::move(request.plan), clock_.now()});
  match();
}

void Server::handle(const KillRequest& request) {
  if (const auto found = by_sandbox_.find(request.sandbox); found != by_sandbox_.end()) {
    Box& box = boxes_.at(found->second);
    box.killed = true;
    send_kill(box.init.pidfd.get());
    return;
  }
  const auto waits = std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& each) {
    return each.plan.sandbox == request.sandbox;
  });
  if (waits == waiting_.end()) return;
  waiting_.erase(waits);
  tell(FailedReply{request.sandbox, Error{ErrorCode::kCancelled, "killed before it started"}});
}

// Its init has no right to signal a program of another user; we have.
void Server::handle(const TerminateRequest& request) {
  const auto found = by_sandbox_.find(request.sandbox);
  if (found != by_sandbox_.end() && boxes_.at(found->second).stage == Stage::kRunning) {
    return send_signal(boxes_.at(found->second).program.get(), SIGTERM);
  }
  handle(KillRequest{request.sandbox});
}

void Server::handle(const ProgramReady& ready) {
  const auto found = by_sandbox_.find(ready.sandbox);
  if (found != by_sandbox_.end()) end_giving_way(boxes_.at(found->second));
}

void Server::handle(const UsageRequest& request) {
  const auto found = by_sandbox_.find(request.sandbox);
  if (found == by_sandbox_.end()) {
    return tell(UsageReply{request.sandbox, std::nullopt, false});
  }
  Box& box = boxes_.at(found->second);
  const auto usage = box.cgroup.memory_usage();
  if (usage || box.stage != Stage::kRunning) {
    return tell(UsageReply{request.sandbox, usage, true});
  }
  // Its init counts, and answers in hear_box().
  if (!box.init.control.send(request).ok()) tell(UsageReply{request.sandbox, std::nullopt, true});
}

// Its init makes them, and answers in hear_box().
void Server::handle(const SocketsRequest& request) {
  const auto found = by_sandbox_.find(request.sandbox);
  const bool runs = found != by_sandbox_.end() && boxes_.at(found->second).stage == Stage::kRunning;
  if (!runs || !boxes_.at(found->second).init.control.send(request).ok()) {
    tell(SocketsReply{request.sandbox});
  }
}

// --- the boxes ---

void Server::hear_box(BoxNumber number) {
  if (zygotes_.has(number)) return zygotes_.hear(number);
  while (true) {
    const auto found = boxes_.find(number);
    if (found == boxes_.end()) return;
    auto word = found->second.init.control.receive();
    if (!word.ok()) {
      // Its end follows on the pidfd.
      epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, found->second.init.control.fd(), nullptr);
      return;
    }
    if (!*word) return;
    hear_box(number, std::move(**word));
  }
}

void Server::hear_box(BoxNumber number, Envelope envelope) {
  Box& box = boxes_.at(number);
  if (std::holds_alternative<Ready>(envelope.message)) {
    if (envelope.fds.size() != 1) return give_up(box, EMFILE);
    box.listener = std::move(envelope.fds[0]);
    return settle(box);
  }
  if (std::holds_alternative<NetworkReady>(envelope.message) && box.stage == Stage::kStarting) {
    return connect(number, std::move(envelope.fds));
  }
  if (std::holds_alternative<StartedReply>(envelope.message) && box.stage == Stage::kStarting) {
    if (envelope.fds.size() != 1) return give_up(box, EMFILE);
    box.program = std::move(envelope.fds[0]);
    OwnedFd pidfd(fcntl(box.init.pidfd.get(), F_DUPFD_CLOEXEC, 0));
    if (!pidfd.valid()) return give_up(box, errno);
    box.stage = Stage::kRunning;
    box.retry.reset();
    std::vector<OwnedFd> fds;
    fds.push_back(std::move(pidfd));
    fds.push_back(std::move(box.listener));
    fds.push_back(std::move(box.output));
    const bool has_network = box.way_out.refusals.valid();
    if (has_network) fds.push_back(std::move(box.way_out.refusals));
    for (OwnedFd& each : std::move(box.memory).release()) fds.push_back(std::move(each));
    return tell(StartedReply{box.sandbox, box.init.pid, clock_.now() - box.asked, box.zygote != 0,
                             has_network},
                std::move(fds));
  }
  if (auto* failed = std::get_if<FailedReply>(&envelope.message)) box.error = failed->error;
  if (auto* failed = std::get_if<ForkFailed>(&envelope.message)) {
    box.error = failed->error;
    box.fork_failed = true;
  }
  if (auto* exited = std::get_if<ExitedReply>(&envelope.message)) box.exit = exited->exit;
  if (auto* usage = std::get_if<UsageReply>(&envelope.message)) {
    tell(UsageReply{box.sandbox, usage->memory, true});
  }
  if (std::holds_alternative<SocketsReply>(envelope.message)) {
    tell(SocketsReply{box.sandbox}, std::move(envelope.fds));
  }
}

// The packets of its program wait for it in the device.
void Server::connect(BoxNumber number, std::vector<OwnedFd> sockets) {
  Box& box = boxes_.at(number);
  if (!box.network || box.way_out.pidfd.valid()) return;
  auto way_out =
      start_way_out(*box.network, std::move(sockets), box.cgroup, confinement_.change_user);
  if (!way_out.ok()) {
    box.error = way_out.error().with_context("give the sandbox a network");
    return send_kill(box.init.pidfd.get());
  }
  box.way_out = std::move(*way_out);
  watch(box.way_out.pidfd.get(), way_out_key(number));
}

// It never ends by itself while its sandbox is there. Without it the program would wait for
// answers for ever.
void Server::bury_way_out(BoxNumber number) {
  const auto found = boxes_.find(number);
  if (found == boxes_.end() || !found->second.way_out.pidfd.valid()) return;
  Box& box = found->second;
  end_way_out(box.way_out);
  box.error = Error{ErrorCode::kInternal, "the process of the sandbox's network ended"};
  send_kill(box.init.pidfd.get());
}

void Server::end_way_out(WayOut& way_out) {
  if (!way_out.pidfd.valid()) return;
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, way_out.pidfd.get(), nullptr);
  send_kill(way_out.pidfd.get());
  siginfo_t status{};
  waitid(P_PIDFD, static_cast<id_t>(way_out.pidfd.get()), &status, WEXITED);
  way_out.pidfd.reset();
}

// Its init's pidfd, which a zygote's root sends, and what the init says come by different ways.
void Server::settle(Box& box) {
  if (box.init.pidfd.valid() && box.listener.valid()) box.stage = Stage::kReady;
}

// For want of descriptors: its end, and with it the answer to who waits for it, follows.
void Server::give_up(Box& box, int error_number) {
  box.error = error_from_errno("take the descriptors of a sandbox", error_number);
  send_kill(box.init.pidfd.get());
}

// The init is dead, and with it all that was in its pid namespace.
void Server::bury(BoxNumber number) {
  if (zygotes_.has(number)) return bury_zygote(number);
  if (!boxes_.contains(number)) return;
  hear_box(number);  // its last words
  Box box = std::move(boxes_.at(number));
  boxes_.erase(number);
  // Closing would not be enough: the worker holds the same pidfd, and epoll watches what is open
  // anywhere.
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, box.init.pidfd.get(), nullptr);
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, box.init.control.fd(), nullptr);
  siginfo_t status{};
  rusage usage{};
  syscall(SYS_waitid, P_PIDFD, box.init.pidfd.get(), &status, WEXITED, &usage);

  end_way_out(box.way_out);
  if (box.zygote != 0) zygotes_.box_ended(box.zygote);
  if (box.stage == Stage::kPreparing) bury_preparing(box);
  if (box.stage == Stage::kStarting) bury_starting(box);
  if (box.stage == Stage::kRunning) {
    by_sandbox_.erase(box.sandbox);
    Exit killed;
    killed.signal = SIGKILL;
    Exit exit = box.exit.value_or(killed);
    exit.killed = box.killed;
    // Of one below a zygote we are not the parent: its init has told.
    exit.cpu = std::max(exit.cpu, cpu_of(usage));
    exit.memory_peak = std::max(exit.memory_peak, box.cgroup.memory_peak());
    const bool failed = exit.signal != 0 || exit.exit_code != 0;
    exit.out_of_memory = exit.out_of_memory || (failed && box.cgroup.oom_kills() > 0);
    tell(ExitedReply{box.sandbox, exit});
  }
  if (!box.cgroup.remove()) lingering_.push_back(std::move(box.cgroup));
}

// The kernel ends its boxes, and their pidfds say so; of those that have none yet we hear no more.
void Server::bury_zygote(BoxNumber number) {
  zygotes_.bury(number);
  std::vector<BoxNumber> unmade;
  for (const auto& [box_number, box] : boxes_) {
    if (box.zygote == number && !box.init.pidfd.valid()) unmade.push_back(box_number);
  }
  for (const BoxNumber box : unmade) bury(box);
}

// Those that wait for a fork of a zygote that is none any more start without.
void Server::bury_preparing(const Box& box) {
  const Error error = box.error.value_or(
      Error{ErrorCode::kInternal, "a sandbox ended while it was being prepared"});
  if (box.zygote != 0) return zygotes_.fail(box.zygote, error.message);
  preparing_failed_ = true;
  const auto first = std::ranges::find_if(
      waiting_, [this](const Waiting& waiting) { return zygotes_.serving(waiting.plan) == 0; });
  if (first == waiting_.end()) return;
  tell(FailedReply{first->plan.sandbox, error});
  waiting_.erase(first);
}

// A fork that does not take its plan costs the sandbox some time, and its zygote its place. What a
// plan asks for and cannot have (a mount, a network, more memory) says nothing of the zygote, which
// others use.
void Server::bury_starting(Box& box) {
  by_sandbox_.erase(box.sandbox);
  if (box.retry && !box.killed) {
    const bool silent = !box.error && box.cgroup.oom_kills() == 0;
    if (box.fork_failed || silent) {
      zygotes_.fail(box.zygote, box.error ? box.error->message : "a fork ended before it ran");
    }
    waiting_.push_back(Waiting{std::move(*box.retry), box.asked});
    return;
  }
  const Error died{ErrorCode::kInternal, box.cgroup.oom_kills() > 0
                                             ? "out of memory before the program started"
                                             : "the sandbox ended before its program started"};
  const Error cancelled{ErrorCode::kCancelled, "killed while it was being started"};
  tell(FailedReply{box.sandbox, box.killed ? cancelled : box.error.value_or(died)});
}

// --- making and starting ---

Result<void> Server::make_box() {
  const BoxNumber number = next_number_++;
  ASSIGN_OR_RETURN(SandboxCgroup cgroup, cgroups_.create(number));
  ASSIGN_OR_RETURN(InitProcess init, spawn_init(cgroup, confinement_));
  init.control.set_blocking(false);
  watch(init.control.fd(), control_key(number));
  watch(init.pidfd.get(), pidfd_key(number));
  Box& box = boxes_[number];
  box.init = std::move(init);
  box.cgroup = std::move(cgroup);
  let_give_way(box);
  return {};
}

// Its init is made by the root of the zygote, and take_forked_box() follows.
Result<void> Server::make_forked_box(BoxNumber zygote) {
  const BoxNumber number = next_number_++;
  ASSIGN_OR_RETURN(SandboxCgroup cgroup, cgroups_.create(number));
  ASSIGN_OR_RETURN(auto ends, Channel::make_pair());
  RETURN_IF_ERROR(zygotes_.order_box(zygote, number, ends.second, cgroup));
  ends.first.set_blocking(false);
  watch(ends.first.fd(), control_key(number));
  Box& box = boxes_[number];
  box.init.control = std::move(ends.first);
  box.cgroup = std::move(cgroup);
  box.zygote = zygote;
  box.made = clock_.now();
  let_give_way(box);
  return {};
}

// Starts take the processors from calls that others wait for, and wait for nothing themselves.
void Server::let_give_way(Box& box) {
  if (!box.gives_way_until) box.cgroup.give_way(true);
  box.gives_way_until = clock_.now() + limits::kSandboxGivesWay;
}

void Server::end_giving_way(Box& box) {
  if (!box.gives_way_until) return;
  box.gives_way_until.reset();
  box.cgroup.give_way(false);
}

// Where those that work leave no processor free for so long, a start would take for ever.
void Server::end_what_gave_way_long() {
  for (auto& [number, box] : boxes_) {
    if (box.gives_way_until && clock_.now() >= *box.gives_way_until) end_giving_way(box);
  }
}

// The longest wait until something is due by time; none: nothing is.
std::optional<Duration> Server::patience() const {
  std::optional<Duration> longest = zygotes_.patience();
  for (const auto& [number, box] : boxes_) {
    if (!box.gives_way_until) continue;
    const Duration rest = std::max(Duration(0), *box.gives_way_until - clock_.now());
    longest = longest ? std::min(*longest, rest) : rest;
  }
  return longest;
}

void Server::take_forked_box(BoxNumber number, OwnedFd pidfd) {
  const auto found = boxes_.find(number);
  if (found == boxes_.end()) return;
  if (!pidfd.valid()) return bury(number);
  Box& box = found->second;
  box.init.pid = pid_of(pidfd.get());
  box.init.pidfd = std::move(pidfd);
  watch(box.init.pidfd.get(), pidfd_key(number));
  settle(box);
}

// Boxes that a zygote does not get done are given up, and it with them; those that stand ready for
// one that serves no more go.
void Server::tend_zygotes() {
  zygotes_.tend();
  const std::vector<BoxNumber> serving = zygotes_.all_serving();
  std::vector<BoxNumber> lost;
  for (const auto& [number, box] : boxes_) {
    if (box.zygote == 0 || (box.stage != Stage::kPreparing && box.stage != Stage::kReady)) continue;
    const bool serves = std::ranges::find(serving, box.zygote) != serving.end();
    const bool hangs =
        box.stage == Stage::kPreparing && clock_.now() - box.made > 2 * limits::kZygoteForkTimeout;
    if (hangs) zygotes_.fail(box.zygote, "a sandbox was not forked in time");
    if (hangs || !serves) lost.push_back(number);
  }
  for (const BoxNumber number : lost) {
    Box& box = boxes_.at(number);
    if (!box.init.pidfd.valid()) continue;  // its root sends one, or ends
    send_kill(box.init.pidfd.get());
  }
}

// Gives waiting plans to prepared sandboxes, and makes more where too few are on the way.
void Server::match() {
  for (auto next = waiting_.begin(); next != waiting_.end();) {
    const BoxNumber zygote = zygotes_.serving(next->plan);
    const auto ready = std::ranges::find_if(boxes_, [zygote](const auto& entry) {
      return entry.second.stage == Stage::kReady && entry.second.zygote == zygote;
    });
    if (ready == boxes_.end()) {
      ++next;
      continue;
    }
    Waiting waiting = std::move(*next);
    next = waiting_.erase(next);
    start(ready->first, std::move(waiting));
  }
  make_wanted();
}

void Server::make_wanted() {
  std::map<BoxNumber, size_t> wanted;
  for (const Waiting& waiting : waiting_) ++wanted[zygotes_.serving(waiting.plan)];
  for (auto [zygote, number] : wanted) {
    while (count(Stage::kPreparing, zygote) < number) {
      const auto made = zygote == 0 ? make_box() : make_forked_box(zygote);
      if (made.ok()) continue;
      if (zygote != 0) {
        zygotes_.fail(zygote, made.error().message);
        return make_wanted();
      }
      const auto first = std::ranges::find_if(
          waiting_, [this](const Waiting& waiting) { return zygotes_.serving(waiting.plan) == 0; });
      tell(FailedReply{first->plan.sandbox, made.error()});
      waiting_.erase(first);
      --number;
    }
  }
}

void Server::start(BoxNumber number, Waiting waiting) {
  Box& box = boxes_.at(number);
  box.stage = Stage::kStarting;
  let_give_way(box);
  box.sandbox = waiting.plan.sandbox;
  box.asked = waiting.asked;
  if (box.zygote != 0) {
    box.retry = waiting.plan;
    box.retry->zygote.reset();
  }
  by_sandbox_[box.sandbox] = number;
  box.network = waiting.plan.network;
  auto go = [&]() -> Result<void> {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return error_from_errno("pipe", errno);
    box.output = OwnedFd(ends[0]);
    const OwnedFd write_end(ends[1]);
    fcntl(box.output.get(), F_SETFL, O_NONBLOCK);
    ASSIGN_OR_RETURN(const std::vector<OwnedFd> sources, open_sources(waiting.plan));
    RETURN_IF_ERROR(box.cgroup.set_limits(waiting.plan.limits));
    std::vector<int> fds = {write_end.get()};
    if (confinement_.watch_memory) {
      ASSIGN_OR_RETURN(box.memory, MemoryMeter::make());
      fds.push_back(box.memory.file().get());
    } else {
      box.memory = box.cgroup.memory_meter();
    }
    OwnedFd device_file;
    if (waiting.plan.network) {
      ASSIGN_OR_RETURN(device_file, find_network_device(box.listener, confinement_.change_user));
      fds.push_back(device_file.get());
    }
    for (const OwnedFd& source : sources) fds.push_back(source.get());
    return box.init.control.send(LaunchRequest{std::move(waiting.plan)}, fds);
  };
  if (auto gone = go(); !gone.ok()) {
    box.retry.reset();
    box.error = gone.error();
    send_kill(box.init.pidfd.get());
  }
}

// Only in quiet moments: a start in progress shall not share its cores with our preparations.
void Server::refill() {
  if (preparing_failed_ || !waiting_.empty() || count(Stage::kStarting) > 0) return;
  while (count(Stage::kPreparing, 0) + count(Stage::kReady, 0) < options_.pool) {
    if (!make_box().ok()) {
      preparing_failed_ = true;
      return;
    }
  }
  if (options_.pool == 0) return;
  for (const BoxNumber zygote : zygotes_.all_serving()) {
    if (count(Stage::kPreparing, zygote) + count(Stage::kReady, zygote) > 0) continue;
    if (auto made = make_forked_box(zygote); !made.ok())
      zygotes_.fail(zygote, made.error().message);
  }
}

void Server::shut_down() {
  for (auto& [number, box] : boxes_) send_kill(box.init.pidfd.get());
  for (const int pidfd : zygotes_.pidfds()) send_kill(pidfd);
  for (const int pidfd : zygotes_.pidfds()) {
    siginfo_t status{};
    waitid(P_PIDFD, static_cast<id_t>(pidfd), &status, WEXITED);
  }
  for (auto& [number, box] : boxes_) {
    if (box.zygote != 0) continue;  // gone with its zygote's root
    siginfo_t status{};
    waitid(P_PIDFD, static_cast<id_t>(box.init.pidfd.get()), &status, WEXITED);
  }
  for (auto& [number, box] : boxes_) end_way_out(box.way_out);
  boxes_.clear();
  by_sandbox_.clear();
  waiting_.clear();
}

// --- news to the worker ---

void Server::tell(const Message& message, std::vector<OwnedFd> fds) {
  outgoing_.push_back(Outgoing{message, std::move(fds)});
  flush();
}

void Server::flush() {
  while (!outgoing_.empty()) {
    std::vector<int> fds;
    for (const OwnedFd& fd : outgoing_.front().fds) fds.push_back(fd.get());
    const auto sent = worker_.send(outgoing_.front().message, fds);
    // No room: EPOLLOUT brings us back. Gone: hear_worker() finds out.
    if (!sent.ok() && sent.error().code == ErrorCode::kResourceExhausted) break;
    outgoing_.pop_front();
  }
  const bool writable = outgoing_.empty();
  if (writable == worker_writable_) return;
  worker_writable_ = writable;
  epoll_event event{};
  event.events = EPOLLIN | (writable ? 0U : static_cast<unsigned>(EPOLLOUT));
  event.data.u64 = kWorkerKey;
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, worker_.fd(), &event);
}

size_t Server::count(Stage stage) const {
  return static_cast<size_t>(std::count_if(
      boxes_.begin(), boxes_.end(), [&](const auto& each) { return each.second.stage == stage; }));
}

size_t Server::count(Stage stage, BoxNumber zygote) const {
  return static_cast<size_t>(std::ranges::count_if(boxes_, [&](const auto& each) {
    return each.second.stage == stage && each.second.zygote == zygote;
  }));
}

void Server::watch(int fd, uint64_t key) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = key;
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
}

}  // namespace lambent::sandbox
