// Hybrid: whether an invocation of a function that also runs on the host's processors (its CPU
// variant) goes there instead of waiting for a GPU. Pure; asked by dispatch, the simulator's
// included, after the GPUs' policy has had its say.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "core/base/state_archive.h"
#include "decide/scheduling/flow_set.h"
#include "decide/scheduling/policy.h"

namespace lambent::scheduling {

enum class HybridRule {
  kOff,       // variants are not used
  kTopShare,  // the functions with the greatest GPU speed-up use only GPUs, the others the host
  kQueueing,  // to the host when waiting for a GPU and running there is expected to cost more
};
std::string_view name_of(HybridRule rule);  // "off", "top-share", "queueing"
std::optional<HybridRule> hybrid_rule_from(std::string_view name);

struct HybridOptions {
  HybridRule rule = HybridRule::kQueueing;
  // kTopShare: the share of the functions with a variant and a known speed-up that has the GPUs.
  double gpu_share = 0.5;
  // kQueueing: how much the time counts that others wait less if this one leaves the GPUs' queue,
  // beside its own. Zero: each goes where it is served soonest itself.
  double others = 0.5;
};

// So that a journal can say under which options it was recorded.
void archive(StateArchive& archive, HybridOptions& options);

// Why an invocation went to the host.
enum class HostReason {
  kNone,          // it did not
  kTooLarge,      // no GPU here is large enough
  kNoDevice,      // no GPU that is large enough is healthy
  kSmallSpeedup,  // its function is not among those that gain most from a GPU
  kQueue,         // it costs less than the wait for a GPU, to it and to those behind it
  kTrial,         // to learn how long it takes there
  kTenantQuota,   // a quota of its tenant keeps it from GPUs
};
std::string_view name_of(HostReason reason);

// What is expected of a run on either processor, set-up not counted; nullopt where nothing tells:
// neither learnt there, nor learnt on the other one with a speed-up that was declared.
std::optional<Duration> expected_gpu_time(const Flow& flow);
std::optional<Duration> expected_host_time(const Flow& flow);
// Learnt where both times were, else as declared.
std::optional<double> speedup_of(const Flow& flow);

// How long a new sandbox is expected to take there.
Duration expected_host_cold_start(const Flow& flow);

// Whether its next run is expected to end on the host before its timeout ends it; an unknown time
// is taken to. A time that was not checked for long is doubted, and with it this.
bool host_is_in_time(const Flow& flow, Instant now);

// kTopShare: of each flow, whether the host serves it. Functions are ranked by speed-up, of equals
// the smaller id first; those without variant, with an unknown speed-up or too slow a variant for
// their timeout are not ranked and keep the GPUs.
std::vector<bool> outside_top_share(const Flows& flows, double gpu_share, Instant now);

// What runs or starts on a GPU, and when it is expected to end; that may be past.
struct GpuRun {
  FunctionId function;
  Instant end{};
};

// What dispatch tells beside the flows and the fleets.
struct HybridView {
  const View& gpu;
  const Fleet& host;
  // The flows with something waiting in the GPUs' pool, and those of them with a variant.
  const FlowSet& waiting;
  const FlowSet& waiting_variants;
  const std::vector<GpuRun>& runs;
  // Tokens of the host that variants leave to functions without GPU.
  unsigned reserved = 0;
  // Since when each of the GPUs that are not healthy is not; meaningless for the others.
  const std::vector<Instant>& away_since;
};

struct HostChoice {
  FunctionId function;
  Place place;  // in the host's fleet
  HostReason reason = HostReason::kNone;
  // Until its end, from now: by waiting for a GPU, and there. Zero where nothing is known.
  Duration with_gpu{}, with_host{};
};

struct HostAdvice {
  std::optional<HostChoice> choice;
  // If there is none: when time by itself may have made one, always later than now.
  Instant ask_again = kNever;
};

// The flow whose first invocation goes to the host now, if any does. Costs a look at each flow that
// waits, and nothing where none of them has a variant.
//
// kQueueing takes what saves most time for each second that it has a core of the host. Expected
// waits are those of all that waits and runs, whatever the policy's order: a head's place in the
// order by virtual time foretells no more (measured), and this is right for every policy. What is
// overdue is expected to take as long again as it is overdue.
HostAdvice choose_for_host(const HybridOptions& options, const HybridView& view, Instant now);

}  // namespace lambent::scheduling
