// What is expected to be gained by one more run beside others, or by one more sandbox of a function
// that is at work, against what it costs those. Pure; used by Density.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/time.h"

namespace lambent::scheduling {

// A run that may begin, or is at work: what is left of its time by itself, and by how much one more
// beside it slows it (contention.h).
struct Share {
  Duration left{};
  double slowdown = 0;
};

// Whether to begin a run beside those at work, of which there is one at least, or to wait until the
// first of them ends. To begin saves the newcomer that wait; it costs it, and each of the others,
// the slow-down while they are at work together. Of two runs: where contexts take turns
// (slow-down 1), if the newcomer takes less than half of what is left of the other; up to a
// slow-down of a half, always.
bool gains_beside(const Share& newcomer, std::span<const Share> at_work);

// The same question, with the runs followed to their ends instead: if the newcomer begins now, and
// if it begins when the first of them ends. Of one run at work that is the same; of several,
// gains_beside() counts as a cost what the newcomer would cost them later too. And what waits
// behind all these, `waiting` invocations, gains what the device is done sooner; half of them,
// because a queue shrinks meanwhile. So more runs at once in a backlog, where runs together do
// more.
bool gains_now(const Share& newcomer, std::span<const Share> at_work, double waiting);

// By how much the newcomer and those at work slow each other down while it runs: an estimate of how
// much more one of them has to have left for another answer.
Duration slowed_by(const Share& newcomer, std::span<const Share> at_work);

// How far gains_beside() is from yes, in what the run with least left would have to have left: 0 if
// it is yes. A run that takes longer than it was expected to has more left with time, as far as one
// knows.
Duration least_left_that_gains(const Share& newcomer, std::span<const Share> at_work);

// What is expected to be left of a run that has done so much of what its function takes: one that
// has done more will go on for as long again as it is late; in any case a quarter, for no two runs
// are the same.
Duration left_of(Duration takes, Duration done);

// One more sandbox of a function whose sandboxes are all at work.
struct SecondSandbox {
  double slowdown = 0;
  size_t at_work = 0;         // on the device where it would start
  unsigned most_at_once = 1;  // there
  uint32_t pending = 0;       // of the function
  Duration takes{};           // a run, by itself
  Duration cold_start{};
  // The cold starts to which it is expected to lead for those that are evicted for it.
  Duration drives_out{};
};

// Whether it is worth its start. It is ready after a cold start; what then still waits is served
// faster by as much as the device does more with one more at work, which saves each that waits half
// of that on average. This has to be kGainMargin times what the start costs: the queue may shrink
// by itself, and others may come.
constexpr double kGainMargin = 4;
bool gains_by_second(const SecondSandbox& second);

}  // namespace lambent::scheduling
