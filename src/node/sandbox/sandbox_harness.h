// Harness: runs whole sandboxes for tests and benchmarks, with a loop of its own on the calling
// thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "core/loop/event_loop.h"
#include "node/sandbox/launcher.h"

namespace lambent::sandbox {

// What became of one sandbox.
struct Outcome {
  std::optional<Error> error;  // it did not start
  std::optional<Exit> exit;    // it started and ended
  std::string output;
  Duration first_byte{};  // from launch() until the first byte of output was read
  Duration started{};     // from launch() until OnStarted
};

class Harness {
 public:
  // CHECKs that the launcher starts.
  explicit Harness(LauncherOptions options);

  // Starts a sandbox and waits until it ended and all its output was read.
  Outcome run(LaunchPlan plan);

  // For tests that do more than one thing at a time: launch() collects in outcome().
  void launch(LaunchPlan plan);
  Outcome& outcome(SandboxId sandbox) { return outcomes_[sandbox]; }
  const Started* started(SandboxId sandbox) const;
  // Whether to read what it prints; told before launch() or changed later.
  void read_output(SandboxId sandbox, bool wanted);
  bool finished(SandboxId sandbox);
  // Closes what is still held of sandboxes that ended.
  void forget_ended();

  // Turns the loop until `done` holds or `most` has passed; whether it holds.
  bool wait(const std::function<bool()>& done, Duration most = seconds(20));

  Launcher& launcher() { return *launcher_; }
  loop::EventLoop& loop() { return loop_; }
  const Clock& clock() const { return clock_; }

 private:
  void drain(SandboxId sandbox);

  SystemClock clock_;
  NullLogSink log_;
  loop::EventLoop loop_{clock_};
  std::map<SandboxId, Started> started_;
  std::map<SandboxId, loop::Watch> watches_;
  std::map<SandboxId, Outcome> outcomes_;
  std::map<SandboxId, Instant> asked_;
  std::map<SandboxId, bool> reading_;
  std::unique_ptr<Launcher> launcher_;
};

}  // namespace lambent::sandbox
