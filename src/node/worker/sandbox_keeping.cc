#include "node/worker/sandbox_keeping.h"

#include <memory>
#include <utility>

#include "node/worker/hosted_sandbox.h"

namespace lambent::worker {
namespace {

// How long one may be in the middle of something before it ends.
constexpr Duration kComesToRest = seconds(2);

std::string why_not(const HostedSandbox& sandbox) {
  if (!sandbox.plan_digest.empty()) return "it is at work";
  if (sandbox.spec.gpu.memory > Bytes(0) && sandbox.spec.gpu.runtime == GpuRuntime::kShared) {
    return "it shares a GPU's runtime, which ends";
  }
  return "it is a part of something that ends";
}

bool may_stay(const HostedSandbox& sandbox) {
  return sandbox.initialised && !sandbox.end_words && sandbox.in_flight.empty() &&
         !sandbox.plan_digest.empty();
}

// If not, the call that says so, or the end of a move, is still to come.
bool rests(const HostedSandbox& sandbox) {
  const bool asks = sandbox.session == nullptr || sandbox.session->is_idle();
  return asks && (sandbox.memory == nullptr || sandbox.memory->rests());
}

KeptGpu hand_over_gpu(HostedSandbox& sandbox, SandboxHandOver& next) {
  KeptGpu gpu;
  gpu.devices = {sandbox.device};
  gpu.devices.insert(gpu.devices.end(), sandbox.beside.begin(), sandbox.beside.end());
  std::vector<OwnedFd> ledgers;
  ledgers.push_back(std::move(*std::exchange(sandbox.ledger, std::nullopt)).release());
  for (ledger::LedgerReader& each : sandbox.ledgers_beside) {
    ledgers.push_back(std::move(each).release());
  }
  sandbox.ledgers_beside.clear();
  gpu.ledgers = next.add(std::move(ledgers));
  if (sandbox.memory == nullptr) return gpu;
  HandedOverMemory memory = sandbox.memory->hand_over();
  gpu.memory = KeptMemory{.listener = next.add(std::move(memory.listener)).value_or(0),
                          .processes = next.add(std::move(memory.processes)),
                          .sequence = memory.sequence,
                          .is_out = memory.place.is_out,
                          .deep = memory.place.deep,
                          .left = memory.place.left,
                          .offloaded = memory.place.offloaded,
                          .link = next.add(std::move(sandbox.link_listener))};
  return gpu;
}

}  // namespace

bool SandboxKeeping::keep(HostedSandbox& sandbox, Duration grace, const EndWords& words) {
  const bool may = may_stay(sandbox);
  if (may && sandbox.memory != nullptr) sandbox.memory->refuse_wishes();
  if (may && !rests(sandbox)) {
    keep_later(sandbox, grace, words);
    return true;
  }
  if (may && keep_now(sandbox, words)) return true;
  tell_not_kept(sandbox, why_not(sandbox));
  return false;
}

void SandboxKeeping::tell_not_kept(const HostedSandbox& sandbox, const std::string& why) {
  host_.log.info("sandbox_not_kept", {{"sandbox", static_cast<int64_t>(sandbox.id.value)},
                                      {"tenant", int64_t{sandbox.spec.name.tenant.value}},
                                      {"function", sandbox.spec.name.name},
                                      {"why", why}});
}

void SandboxKeeping::keep_later(HostedSandbox& sandbox, Duration grace, const EndWords& words) {
  sandbox.kept_later = {words, grace};
  sandbox.grace = host_.loop.call_after(kComesToRest, [this, id = sandbox.id] {
    HostedSandbox* const found = host_.find(id);
    if (found == nullptr || !found->kept_later) return;
    tell_not_kept(*found, "it did not come to rest");
    give_up(*found);
  });
}

void SandboxKeeping::give_up(HostedSandbox& sandbox) {
  const auto [words, grace] = *std::exchange(sandbox.kept_later, std::nullopt);
  sandbox.cannot_be_kept = true;
  host_.end(sandbox.id, grace, words);
}

// In the next turn: the caller is in the middle of what has just ended.
void SandboxKeeping::look_again(SandboxId id) {
  host_.loop.call_after(Duration(0), [this, id] {
    HostedSandbox* const found = host_.find(id);
    if (found == nullptr || !found->kept_later || !rests(*found)) return;
    host_.loop.cancel(found->grace);
    if (may_stay(*found) && keep_now(*found, found->kept_later->words)) {
      found->kept_later.reset();
      return;
    }
    tell_not_kept(*found, why_not(*found));
    give_up(*found);
  });
}

bool SandboxKeeping::keep_now(HostedSandbox& sandbox, const EndWords& words) {
  std::optional<runtime_api::HandedOverRuntime> runtime;
  if (sandbox.session) runtime = sandbox.session->hand_over();
  if (!runtime && !(sandbox.relay && sandbox.relay->rests())) return false;
  host_.read_output(sandbox);
  SandboxHandOver& next = *host_.hand_over;
  KeptSandbox kept{.function = sandbox.spec.id,
                   .plan = sandbox.plan_digest,
                   .pid = sandbox.pid,
                   .age = host_.loop.clock().now() - sandbox.requested_at,
                   .sandbox_time = sandbox.sandbox_time,
                   .init_time = sandbox.init_time,
                   .invocations = sandbox.invocations};
  if (runtime) {
    kept.listener = next.add(std::move(runtime->listener));
    kept.waiting = next.add(std::move(runtime->waiting));
    kept.resting = next.add(std::move(runtime->resting));
  }
  sandbox.output_watch.reset();
  kept.output = next.add(std::move(sandbox.output));
  if (sandbox.refusals) kept.refusals = next.add(sandbox.refusals->release());
  sandbox.refusals.reset();
  kept.memory = next.add(std::move(sandbox.host_memory).release());
  if (sandbox.ledger) kept.gpu = hand_over_gpu(sandbox, next);
  next.keep(sandbox.id, std::move(kept));
  sandbox.end_words = words;
  sandbox.relay.reset();
  // The caller is in the middle of handling an event, perhaps of the channel's.
  const std::shared_ptr<MemoryChannel> over = std::move(sandbox.memory);
  host_.loop.call_after(Duration(0),
                        [this, id = sandbox.id, words, over] { host_.finish(id, words); });
  return true;
}

}  // namespace lambent::worker
