// Server: the heart of lambent-launcher. Single-threaded: takes plans from the worker over one
// channel, keeps prepared sandboxes ready, and ends everything when the worker goes away.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/time.h"
#include "node/sandbox/cgroup.h"
#include "node/sandbox/channel.h"
#include "node/sandbox/init.h"
#include "node/sandbox/limits.h"
#include "node/sandbox/way_out.h"
#include "node/sandbox/zygote_limits.h"
#include "node/sandbox/zygotes.h"

namespace lambent::sandbox {

struct ServerOptions {
  unsigned pool = 4;
  unsigned most_sandboxes = limits::kSandboxes;
  std::string cgroup_parent;
  bool require_strong_limits = false;
  unsigned zygotes = limits::kZygotes;  // at one time; 0: none
};

class Server {
 public:
  // Sets up this process: namespaces of its own, cgroups, the filter. FAILED_PRECONDITION, saying
  // what is missing, if sandboxes are impossible here (or weaker than required).
  static Result<std::unique_ptr<Server>> create(const Clock& clock, ServerOptions options);

  // Serves until the worker's end of the channel is closed; then everything is gone.
  void run(Channel worker);

  const Capabilities& capabilities() const { return capabilities_; }

 private:
  enum class Stage { kPreparing, kReady, kStarting, kRunning };
  // One init process and what is known of it. Its number is its key in boxes_ and in epoll.
  struct Box {
    Stage stage = Stage::kPreparing;
    InitProcess init;
    OwnedFd program;  // its pidfd, once it was executed
    std::optional<NetworkPlan> network;
    WayOut way_out;  // of one with a network
    OwnedFd listener;
    OwnedFd output;
    SandboxCgroup cgroup;
    MemoryMeter memory;
    SandboxId sandbox;
    Instant asked{};
    bool killed = false;
    std::optional<Exit> exit;
    std::optional<Error> error;
    bool fork_failed = false;  // and `error` says how
    BoxNumber zygote = 0;      // that it is forked from; 0: its program is executed
    Instant made{};
    std::optional<Instant> gives_way_until;  // to sandboxes that work
    std::optional<LaunchPlan> retry;         // its plan without the zygote, until the program runs
  };
  struct Waiting {
    LaunchPlan plan;
    Instant asked{};
  };

  Server(const Clock& clock, ServerOptions options, CgroupTree cgroups);

  bool hear_worker();
  void handle(LaunchRequest request);
  void handle(const KillRequest& request);
  void handle(const TerminateRequest& request);
  void handle(const ProgramReady& ready);
  void handle(const UsageRequest& request);
  void handle(const SocketsRequest& request);

  void hear_box(BoxNumber number);
  void hear_box(BoxNumber number, Envelope envelope);
  void connect(BoxNumber number, std::vector<OwnedFd> sockets);
  static void settle(Box& box);
  static void give_up(Box& box, int error_number);
  void bury(BoxNumber number);
  void bury_zygote(BoxNumber number);
  void bury_way_out(BoxNumber number);
  void end_way_out(WayOut& way_out);
  void bury_preparing(const Box& box);
  void bury_starting(Box& box);

  Result<void> make_box();
  Result<void> make_forked_box(BoxNumber zygote);
  void take_forked_box(BoxNumber number, OwnedFd pidfd);
  Zygotes::Dependencies zygotes_use();
  void let_give_way(Box& box);
  static void end_giving_way(Box& box);
  void end_what_gave_way_long();
  std::optional<Duration> patience() const;
  void tend_zygotes();
  void match();
  void make_wanted();
  void start(BoxNumber number, Waiting waiting);
  void refill();
  void shut_down();

  void tell(const Message& message, std::vector<OwnedFd> fds = {});
  void flush();
  size_t count(Stage stage) const;
  size_t count(Stage stage, BoxNumber zygote) const;
  void watch(int fd, uint64_t key);

  const Clock& clock_;
  const ServerOptions options_;
  CgroupTree cgroups_;
  Capabilities capabilities_;
  Confinement confinement_;
  OwnedFd epoll_;
  Channel worker_;
  bool worker_writable_ = true;

  std::map<BoxNumber, Box> boxes_;
  Zygotes zygotes_;
  std::map<SandboxId, BoxNumber> by_sandbox_;
  std::deque<Waiting> waiting_;  // plans without a prepared sandbox; bounded by most_sandboxes
  struct Outgoing {
    Message message;
    std::vector<OwnedFd> fds;
  };
  std::deque<Outgoing> outgoing_;         // what the worker has not taken yet
  std::vector<SandboxCgroup> lingering_;  // could not be removed at once
  BoxNumber next_number_ = 1;
  bool preparing_failed_ = false;  // do not refill until it is asked again
};

}  // namespace lambent::sandbox
