#include "node/sandbox/zygotes.h"

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "node/sandbox/root_filesystem.h"
#include "node/sandbox/start_limits.h"
#include "node/sandbox/zygote.h"
#include "node/sandbox/zygote_limits.h"

namespace lambent::sandbox {
namespace {

constexpr Duration kLoadingCheck = milliseconds(250);
constexpr Duration kIdleCheck = seconds(5);
constexpr size_t kMostBarred = 1'000;

void end_root(int pidfd) { syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, nullptr, 0); }

LaunchPlan plan_of(const ZygotePlan& zygote) {
  LaunchPlan plan;
  plan.argv = zygote.argv;
  plan.environment = zygote.environment;
  plan.binds = zygote.binds;
  plan.limits.memory = limits::kZygoteMemory;
  plan.limits.processes = limits::kZygoteProcesses;
  plan.limits.scratch = limits::kZygoteScratch;
  return plan;
}

// What a log can show: foreign code said it.
std::string printable(std::string text) {
  text.resize(std::min(text.size(), limits::kZygoteWords));
  std::ranges::replace_if(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, ' ');
  return text;
}

}  // namespace

BoxNumber Zygotes::serving(const LaunchPlan& plan) const {
  if (!plan.zygote) return 0;
  const auto found = by_key_.find(plan.zygote->key);
  if (found == by_key_.end()) return 0;
  return zygotes_.at(found->second).stage == Stage::kServing ? found->second : 0;
}

void Zygotes::want(const LaunchPlan& plan, BoxNumber number) {
  if (!plan.zygote || most_ == 0) return;
  const std::string& key = plan.zygote->key;
  const Instant now = uses_.clock.now();
  if (const auto found = by_key_.find(key); found != by_key_.end()) {
    zygotes_.at(found->second).used = now;
    return;
  }
  if (const auto found = barred_.find(key); found != barred_.end()) {
    if (now < found->second) return;
    barred_.erase(found);
  }
  if (!make_place()) return;
  if (auto started = start(plan, number); !started.ok()) {
    barred_[key] = now + limits::kZygoteRetry;
    uses_.tell({key, ZygoteEvent::kFailed, started.error().message});
  }
}

// Of those that serve, one that was not used lately goes: with too many keys for our places they
// would otherwise only be started and ended.
bool Zygotes::make_place() {
  if (by_key_.size() < most_) return true;
  Zygote* oldest = nullptr;
  for (const auto& [key, number] : by_key_) {
    Zygote& zygote = zygotes_.at(number);
    if (oldest == nullptr || zygote.used < oldest->used) oldest = &zygote;
  }
  if (oldest == nullptr || uses_.clock.now() - oldest->used < limits::kZygoteTenure) return false;
  retire(*oldest);
  return true;
}

Result<void> Zygotes::start(const LaunchPlan& plan, BoxNumber number) {
  const LaunchPlan own = plan_of(*plan.zygote);
  RETURN_IF_ERROR(validate(own));
  ASSIGN_OR_RETURN(const std::vector<OwnedFd> sources, open_sources(own));
  Zygote zygote;
  zygote.key = plan.zygote->key;
  zygote.started = zygote.used = uses_.clock.now();
  ASSIGN_OR_RETURN(zygote.cgroup, uses_.cgroups.create(number));
  RETURN_IF_ERROR(zygote.cgroup.set_limits(own.limits));
  zygote.cgroup.give_way(true);
  zygote.gives_way = true;
  ASSIGN_OR_RETURN(zygote.process, spawn_zygote(zygote.cgroup, uses_.confinement));
  std::vector<int> fds;
  for (const OwnedFd& source : sources) fds.push_back(source.get());
  zygote.process.control.set_blocking(false);
  RETURN_IF_ERROR(zygote.process.control.send(ZygoteRequest{own}, fds));
  uses_.watch(zygote.process, number);
  by_key_[zygote.key] = number;
  zygotes_[number] = std::move(zygote);
  return {};
}

Result<void> Zygotes::order_box(BoxNumber zygote, BoxNumber box, const Channel& control,
                                const SandboxCgroup& cgroup) {
  Zygote& from = zygotes_.at(zygote);
  ASSIGN_OR_RETURN(const std::vector<OwnedFd> entries, cgroup.open_entries());
  std::vector<int> fds = {control.fd()};
  for (const OwnedFd& entry : entries) fds.push_back(entry.get());
  RETURN_IF_ERROR(from.process.control.send(BoxRequest{box}, fds));
  ++from.boxes;
  return {};
}

void Zygotes::box_ended(BoxNumber zygote) {
  const auto found = zygotes_.find(zygote);
  if (found != zygotes_.end() && found->second.boxes > 0) --found->second.boxes;
}

void Zygotes::fail(BoxNumber number, const std::string& why) {
  const auto found = zygotes_.find(number);
  if (found == zygotes_.end() || found->second.stage == Stage::kOver) return;
  Zygote& zygote = found->second;
  by_key_.erase(zygote.key);
  zygote.stage = Stage::kOver;
  (void)zygote.process.control.send(ZygoteRetirement{});
  if (barred_.size() >= kMostBarred) barred_.clear();
  barred_[zygote.key] = uses_.clock.now() + limits::kZygoteRetry;
  uses_.tell({zygote.key, ZygoteEvent::kFailed, printable(why)});
}

void Zygotes::retire(Zygote& zygote) {
  by_key_.erase(zygote.key);
  zygote.stage = Stage::kOver;
  (void)zygote.process.control.send(ZygoteRetirement{});
  uses_.tell({zygote.key, ZygoteEvent::kRetired, "it was not used"});
}

// No call waits for one that loads.
void Zygotes::end_giving_way(Zygote& zygote) {
  if (std::exchange(zygote.gives_way, false)) zygote.cgroup.give_way(false);
}

void Zygotes::hear(BoxNumber number) {
  while (true) {
    const auto found = zygotes_.find(number);
    if (found == zygotes_.end()) return;
    Zygote& zygote = found->second;
    auto word = zygote.process.control.receive();
    if (!word.ok() || !*word) return;  // its end follows on the pidfd
    Message& message = (*word)->message;
    if (std::holds_alternative<ZygoteReady>(message) && zygote.stage == Stage::kLoading) {
      zygote.stage = Stage::kServing;
      end_giving_way(zygote);
      uses_.tell({zygote.key, ZygoteEvent::kReady, "", uses_.clock.now() - zygote.started});
    } else if (const auto* failed = std::get_if<FailedReply>(&message)) {
      fail(number, failed->error.message);
    } else if (const auto* box = std::get_if<BoxReply>(&message)) {
      auto& fds = (*word)->fds;
      uses_.on_box(box->number, fds.empty() ? OwnedFd() : std::move(fds[0]));
    }
  }
}

void Zygotes::bury(BoxNumber number) {
  hear(number);
  fail(number, "its root ended");
  auto gone = zygotes_.extract(number);
  siginfo_t status{};
  waitid(P_PIDFD, static_cast<id_t>(gone.mapped().process.pidfd.get()), &status, WEXITED);
}

void Zygotes::tend() {
  const Instant now = uses_.clock.now();
  for (auto& [number, zygote] : zygotes_) {
    if (now - zygote.started > limits::kZygoteGivesWay) end_giving_way(zygote);
    if (zygote.stage == Stage::kLoading && now - zygote.started > limits::kZygoteLoadTimeout) {
      fail(number, "it took too long to load");
    } else if (zygote.stage == Stage::kServing && now - zygote.used > limits::kZygoteRest) {
      retire(zygote);
    }
    if (zygote.stage == Stage::kOver && zygote.boxes == 0) end_root(zygote.process.pidfd.get());
  }
}

std::optional<Duration> Zygotes::patience() const {
  if (zygotes_.empty()) return std::nullopt;
  const bool any_busy = std::ranges::any_of(
      zygotes_, [](const auto& entry) { return entry.second.stage != Stage::kServing; });
  return any_busy ? kLoadingCheck : kIdleCheck;
}

std::vector<int> Zygotes::pidfds() const {
  std::vector<int> all;
  for (const auto& [number, zygote] : zygotes_) all.push_back(zygote.process.pidfd.get());
  return all;
}

std::vector<BoxNumber> Zygotes::all_serving() const {
  std::vector<BoxNumber> all;
  for (const auto& [key, number] : by_key_) {
    if (zygotes_.at(number).stage == Stage::kServing) all.push_back(number);
  }
  return all;
}

}  // namespace lambent::sandbox
