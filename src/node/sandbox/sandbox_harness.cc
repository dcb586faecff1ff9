#include "node/sandbox/sandbox_harness.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

namespace lambent::sandbox {

Harness::Harness(LauncherOptions options) {
  auto launcher = start_launcher(loop_, log_, std::move(options));
  if (!launcher.ok()) fprintf(stderr, "%s\n", lambent::to_string(launcher.error()).c_str());
  CHECK(launcher.ok(), "no lambent-launcher");
  launcher_ = std::move(launcher).value();
  launcher_->on_exit([this](SandboxId sandbox, Exit exit) { outcomes_[sandbox].exit = exit; });
}

void Harness::launch(LaunchPlan plan) {
  const SandboxId sandbox = plan.sandbox;
  outcomes_[sandbox] = Outcome();
  asked_[sandbox] = clock_.now();
  launcher_->launch(std::move(plan), [this, sandbox](Result<Started> result) {
    Outcome& outcome = outcomes_[sandbox];
    outcome.started = clock_.now() - asked_[sandbox];
    if (!result.ok()) {
      outcome.error = result.error();
      return;
    }
    started_[sandbox] = std::move(result).value();
    watches_[sandbox] = loop_.watch(started_[sandbox].output.get(), true, false,
                                    [this, sandbox](loop::Readiness) { drain(sandbox); });
  });
}

void Harness::read_output(SandboxId sandbox, bool wanted) {
  reading_[sandbox] = wanted;
  if (const auto watch = watches_.find(sandbox); watch != watches_.end()) {
    watch->second.update(wanted, false);
  }
}

void Harness::drain(SandboxId sandbox) {
  const auto wanted = reading_.find(sandbox);
  if (wanted != reading_.end() && !wanted->second) {
    watches_[sandbox].update(false, false);
    return;
  }
  Outcome& outcome = outcomes_[sandbox];
  char buffer[65536];
  const ssize_t got = read(started_[sandbox].output.get(), buffer, sizeof(buffer));
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    watches_[sandbox].reset();
    return;
  }
  if (outcome.output.empty()) outcome.first_byte = clock_.now() - asked_[sandbox];
  outcome.output.append(buffer, static_cast<size_t>(got));
}

const Started* Harness::started(SandboxId sandbox) const {
  const auto found = started_.find(sandbox);
  return found == started_.end() ? nullptr : &found->second;
}

bool Harness::finished(SandboxId sandbox) {
  const Outcome& outcome = outcomes_[sandbox];
  if (outcome.error) return true;
  return outcome.exit && !watches_[sandbox].active();
}

void Harness::forget_ended() {
  for (const auto& [sandbox, outcome] : outcomes_) {
    if (!finished(sandbox)) continue;
    watches_.erase(sandbox);
    started_.erase(sandbox);
  }
}

bool Harness::wait(const std::function<bool()>& done, Duration most) {
  const Instant end = clock_.now() + most;
  while (!done()) {
    if (clock_.now() >= end) return false;
    loop_.run_once(milliseconds(20));
  }
  return true;
}

Outcome Harness::run(LaunchPlan plan) {
  const SandboxId sandbox = plan.sandbox;
  launch(std::move(plan));
  wait([&] { return finished(sandbox); }, seconds(60));
  return std::move(outcomes_[sandbox]);
}

}  // namespace lambent::sandbox
