// The policies that are compared, each with what is its own: options, eviction rule, and what it
// does with memory. Values.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"
#include "decide/scheduling/fleet.h"
#include "decide/scheduling/make_policy.h"

namespace lambent::paper_mqfq {

struct System {
  std::string name;
  std::string policy;  // as make_policy() calls it
  scheduling::PolicyOptions options;
  scheduling::EvictionRule eviction = scheduling::EvictionRule::kLeastRecentlyUsed;
  // Whether a function that runs may get a second container beside it, up to D at once.
  bool second_containers = false;
  // When: FleetOptions::second_grace_period.
  double second_grace_period = 0;
  // FleetOptions::starts_outside_tokens.
  unsigned starts_outside_tokens = 0;
  bool prefetches = true;    // FleetOptions::prefetch
  bool moves_early = false;  // MemoryRule::kMoveEarly
  bool foresees = false;     // FleetOptions::foresees
  bool clairvoyant = false;  // it knows all calls (scheduling::Foresight::ask)
  // FCFS: the memory's way off the device after a run holds the token.
  bool move_off_holds_token = false;
};
// All that distinguishes it, as text: "T 10 s, alpha 1.5, ...".
std::string settings_of(const System& system);

// What ships: the default of `lambent serve`, the one of systems() that is judged.
inline constexpr const char* kShipped = "ours-ahead";

// The paper's systems as it has them, their stronger variants, and ours:
//   mqfq         the faithful MQFQ-Sticky: T 10 s, alpha 1.5, least recently used goes first, in
//                flight before length, second containers allowed; mqfq-nodup: without those
//   fcfs         memory moves off after each run in the background; fcfs-stays: it stays;
//                fcfs-holds: the token is held until it is off; fcfs-text and fcfs-text-holds: the
//                same two as the text has them, one queue without prefetch
//   batch, naive, uniform (faithful, but each invocation is charged one second)
//   mqfq+, fcfs+, batch+   with our eviction rule
//   mqfq-starts  the faithful one, but two cold starts hold no token, as with ours
//   mqfq-pool, fcfs-pool, batch-pool   with all that our pool has: our eviction and two cold starts
//                that hold no token, and the stronger of their readings: T 20 s, memory that stays
//                (FCFS), no second containers
//   ours         Density, its defaults, our eviction, two cold starts that hold no token: what
//                ships, but for starts ahead. It adapts: second containers, runs beside others and
//                T by what is gained
//   ours-ahead   ours, and sandboxes are started ahead of calls: what ships; ours-gaps: eviction by
//                the gaps between calls instead; ours-foreseen: both
//   clairvoyant  ours, which knows all calls: starts ahead of each, eviction of what is called last
//                for what its start costs, shortest work first. No bound: a schedule to compare
//                with
//   mqfq-early, ours-early   memory leaves as soon as its flow is throttled or inactive;
//   ours-grace   ours-ahead, where a function in its grace period is evicted after all others;
//   ours-worth   ours-ahead, where what is worth least leaves, of memory and of sandboxes
//   ours-unweighed, ours-no-returns   ours-ahead without DensityOptions::weighs_queue, and without
//                weighs_returns alone
//   ours-tokens  every cold start holds a token, as with all the others
//   ours-one     no second containers
//   ours-fixed   what shipped before: it does not adapt, a second container after a cold start's
//                time of waiting; ours-fixed-second: at once; ours-fixed-one: none
const std::vector<System>& systems();
// One of systems(), by its name. CHECKed.
const System& system_named(const std::string& name);

// What the sweep tries for that system; of ours only when it starts second containers, for its
// other settings are the product's.
std::vector<System> candidates_of(const std::string& name);
// The systems that have a sweep.
const std::vector<std::string>& swept();

// For each of swept() its best candidate on the training workloads, named "NAME-best", as a file
// of rows `system;settings` has it. INVALID_ARGUMENT if a row is of no candidate.
Result<std::vector<System>> open_best(const std::string& path);

}  // namespace lambent::paper_mqfq
