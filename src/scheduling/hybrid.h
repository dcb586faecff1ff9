// Hybrid: whether an invocation of a function that also runs on the host's processors (its CPU
// variant) goes there instead of waiting for a GPU. Pure; asked by dispatch, the simulator's
// included, after the GPUs' policy has had its say.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/state_archive.h"
#include "scheduling/flow_set.h"
#include "scheduling/policy.h"

namespace lambent::scheduling {

enum class HybridRule {
  kOff,       // variants are not used
  kTopShare,  // the functions with the greatest GPU speed-up use GPUs alone, the others the host
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
};
std::string_view name_of(HostReason reason);

// What is expected of a run on either processor, set-up not counted; nullopt where nothing tells:
// neither learnt there, nor learnt on the other one with a speed-up that was declared.
std::optional<Duration> expected_gpu_time(const Flow& flow);
std::optional<Duration> expected_host_time(const Flow& flow);
// Learnt where both times were, else as declared.
std::optional<double> speedup_of(const Flow& flow);

// Whether its runs are expected to end on the host before its timeout ends them; an unknown time
// is taken to.
bool host_is_in_time(const Flow& flow);

// kTopShare: of each flow, whether the host serves it. Functions are ranked by speed-up, of equals
// the smaller id first; those without variant, with an unknown speed-up or too slow a variant for
// their timeout are not ranked and keep the GPUs.
std::vector<bool> outside_top_share(const Flows& flows, double gpu_share);

// What dispatch tells beside the flows and the fleets.
struct HybridView {
  const View& gpu;
  const Fleet& host;
  // The flows with something waiting in the GPUs' lane, and those of them with a variant.
  const FlowSet& waiting;
  const FlowSet& waiting_variants;
  // What is left, by expectation, of all that runs and starts on the GPUs, added up.
  Duration under_way{};
  // Tokens of the host that variants leave to functions without GPU.
  unsigned reserved = 0;
  // The memory of the largest healthy GPU, since when that is so, and that of the largest which was
  // not lost.
  Bytes largest_healthy, largest_present;
  Instant health_changed{};
};

struct HostChoice {
  FunctionId function;
  Place place;  // in the host's fleet
  HostReason reason = HostReason::kNone;
  // Until its end, from now: by waiting for a GPU, and there. Zero where nothing is known.
  Duration with_gpu{}, with_host{};
};

// The flow whose first invocation goes to the host now, if any does. Costs a look at each flow that
// waits, and nothing where none of them has a variant.
//
// kQueueing takes whoever saves most time for each second that it has a core of the host. Expected
// waits are those of all that waits and runs, whatever the policy's order: a head's place in the
// order by virtual time foretells no more (measured), and this is right for every policy.
std::optional<HostChoice> choose_for_host(const HybridOptions& options, const HybridView& view,
                                          Instant now);

}  // namespace lambent::scheduling
