// Launcher: starts, watches and kills sandboxes. Used by the worker on its loop thread, never
// blocking it; the real one speaks to the helper process lambent-launcher.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <sys/types.h>

#include "core/base/fd.h"
#include "core/base/ids.h"
#include "core/base/log.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/base/units.h"
#include "core/loop/event_loop.h"
#include "node/sandbox/capabilities.h"
#include "node/sandbox/exit.h"
#include "node/sandbox/limits.h"
#include "node/sandbox/memory_meter.h"
#include "node/sandbox/plan.h"
#include "node/sandbox/zygote_event.h"
#include "node/sandbox/zygote_limits.h"

namespace lambent::sandbox {

// A sandbox whose program was executed.
struct Started {
  // The sandbox's first process as the host numbers it (its init; the program is its child).
  pid_t pid = 0;
  OwnedFd pidfd;
  // Listens at 127.0.0.1:9001 inside the sandbox's own network; accept on it from outside.
  // Non-blocking.
  OwnedFd runtime_api_listener;
  // Standard output and error of all that runs inside; non-blocking. A full pipe stops only the
  // writer: a slow reader slows only this one sandbox down.
  OwnedFd output;
  // What it was refused, as node/network/refusals.h writes it; non-blocking. Invalid: it has no
  // network.
  OwnedFd refusals;
  // Of all that runs inside.
  MemoryMeter memory;
  // From the launcher's taking up the plan until the program was executed.
  Duration elapsed{};
  bool forked = false;  // from a zygote
};

// A lambent-launcher with what it keeps, for the program that this process becomes.
struct HandedOverLauncher {
  OwnedFd channel;
  pid_t pid = 0;  // a child of this process
  struct Kept {
    SandboxId sandbox;  // as this launcher's user knows it
    SandboxId number;   // as lambent-launcher does
  };
  std::vector<Kept> kept;
};

class Launcher {
 public:
  using OnStarted = std::function<void(Result<Started>)>;
  using OnExit = std::function<void(SandboxId, Exit)>;
  using OnUsage = std::function<void(Result<Bytes>)>;
  using OnSockets = std::function<void(Result<std::vector<OwnedFd>>)>;

  virtual ~Launcher() = default;

  // Called once for every sandbox that was started, after its OnStarted; never for one that could
  // not be. If lambent-launcher itself dies, it is called for all (as killed by signal 9), and the
  // next launch starts another one, at most one a second; launches wait for it.
  virtual void on_exit(OnExit callback) = 0;

  // What becomes of zygotes, for counts: the key of their plans (of kForked: empty), what happened,
  // why.
  using OnZygote = std::function<void(const std::string& key, ZygoteEvent, const std::string& why)>;
  virtual void on_zygote(OnZygote) {}

  // Starts a sandbox. `callback` is called exactly once, later, from the loop: with
  // INVALID_ARGUMENT (a broken plan), NOT_FOUND or PERMISSION_DENIED (the program cannot be
  // executed), ALREADY_EXISTS (the id is in use), RESOURCE_EXHAUSTED (too many sandboxes),
  // DEADLINE_EXCEEDED (it took longer than the launch time-out; nothing is left of it) or
  // UNAVAILABLE (no lambent-launcher).
  virtual void launch(LaunchPlan plan, OnStarted callback) = 0;

  // Ends everything inside, at once. on_exit follows, or OnStarted with CANCELLED if it was still
  // being started. Unknown and ended ids are ignored.
  virtual void kill(SandboxId sandbox) = 0;

  // Asks the program to end by SIGTERM, which goes to it and not to what it started. on_exit
  // follows if it does; nothing ends it that does not, until kill(). One that is still being
  // started is killed. Unknown and ended ids are ignored.
  virtual void terminate(SandboxId sandbox) = 0;

  // Memory in use now; NOT_FOUND for an unknown sandbox, UNIMPLEMENTED where it cannot be measured.
  virtual void usage(SandboxId sandbox, OnUsage callback) = 0;

  // TCP sockets of the sandbox's own network, which are not connected: connect() on them reaches
  // what listens inside. At most limits::kSandboxSockets. `callback` is called exactly once, later,
  // from the loop: NOT_FOUND for an unknown sandbox, RESOURCE_EXHAUSTED if none could be made.
  virtual void sockets(SandboxId sandbox, uint32_t count, OnSockets callback) = 0;

  // Ends all sandboxes but these, waits until they are gone (at most some seconds), and gives up
  // those that stay; calls nothing back from then on. Those of `kept` that have ended are not among
  // the answers. If not all others end in time, or it keeps none, its destruction ends everything.
  virtual std::vector<HandedOverLauncher> hand_over(const std::vector<SandboxId>&) { return {}; }
  // This sandbox is the one that the `former`-th launcher which start_launcher() was given knows by
  // `number`. False: that one has it no more.
  virtual bool adopt(SandboxId, size_t /*former*/, SandboxId /*number*/) { return false; }
  // Ends what was handed over and not adopted.
  virtual void end_unadopted() {}

  // What this machine allows, as lambent-launcher found at its start.
  virtual const Capabilities& capabilities() const = 0;

  // Its program is ready to work. Until this is said, and for at most limits::kSandboxGivesWay, a
  // sandbox gives way to those that are: it runs where they leave a processor free. Unknown and
  // ended ids are ignored.
  virtual void ready(SandboxId) {}
};

struct LauncherOptions {
  std::string program;                 // path of lambent-launcher
  unsigned pool = 4;                   // sandboxes kept ready; 0: each is made when asked for
  std::string cgroup_parent;           // cgroup folder to work in; empty: our own cgroup
  bool require_strong_limits = false;  // refuse to start where a limit would be weaker
  unsigned most_sandboxes = limits::kSandboxes;
  unsigned zygotes = limits::kZygotes;  // at one time; 0: none
  Duration launch_timeout = limits::kSandboxLaunchTimeout;
};

// Starts lambent-launcher and waits (at most some hundred ms: call it before the loop runs) for its
// hello. Destroying the Launcher ends all its sandboxes, waits until they are gone, and drops the
// callbacks that were still to come.
// `former`: launchers that were handed over; each ends when it has no sandbox left.
Result<std::unique_ptr<Launcher>> start_launcher(loop::EventLoop& loop, LogSink& log,
                                                 LauncherOptions options,
                                                 std::vector<HandedOverLauncher> former = {});

}  // namespace lambent::sandbox
