#include "decide/workflow/outlook.h"

#include <algorithm>

namespace lambent::workflow {

// What a component needs stands before it or behind it in the list; `ends` is filled in as it is
// asked for, so each is looked at once. Workflows have no cycles, and at most limits::kComponents.
namespace {

class Ends {
 public:
  // `guesses`: whether guessed durations count, or count as none.
  Ends(const Workflow& workflow, const std::vector<Prospect>& prospects, bool guesses)
      : workflow_(workflow),
        prospects_(prospects),
        guesses_(guesses),
        known_(prospects.size(), kUnknown) {}

  // When all that the component needs has ended, from now.
  Duration begin_of(uint32_t component) {
    Duration begin{};
    for (const uint32_t needed : workflow_.components[component].needs) {
      begin = std::max(begin, end_of(needed));
    }
    return begin;
  }

 private:
  static constexpr Duration kUnknown = Duration(-1);

  Duration end_of(uint32_t component) {
    Duration& end = known_[component];
    if (end != kUnknown) return end;
    const Prospect& prospect = prospects_[component];
    const Duration takes = prospect.is_guess && !guesses_ ? Duration(0) : prospect.takes;
    switch (prospect.state) {
      case Prospect::State::kEnded:
        return end = Duration(0);
      case Prospect::State::kBegun:
        return end = std::max(Duration(0), takes - prospect.since);
      case Prospect::State::kWaiting:
        break;
    }
    // Its sandbox is started ahead, too: only what is left of that delays it.
    const Duration begin = begin_of(component);
    const Duration ready = prospect.needs_start ? prospect.start : Duration(0);
    return known_[component] = std::max(begin, ready) + takes;
  }

  const Workflow& workflow_;
  const std::vector<Prospect>& prospects_;
  const bool guesses_;
  std::vector<Duration> known_;
};

}  // namespace

std::vector<ForeseenCall> foresee_calls(const Workflow& workflow,
                                        const std::vector<Prospect>& prospects) {
  std::vector<ForeseenCall> calls;
  Ends expected(workflow, prospects, true);
  Ends soonest(workflow, prospects, false);
  for (uint32_t i = 0; i < prospects.size(); ++i) {
    const Prospect& prospect = prospects[i];
    if (prospect.state != Prospect::State::kWaiting || !prospect.needs_start) continue;
    calls.push_back({.component = i,
                     .within = expected.begin_of(i),
                     .delay = std::max(Duration(0), soonest.begin_of(i) - prospect.start),
                     .chance = chance_of(workflow.components[i])});
  }
  return calls;
}

}  // namespace lambent::workflow
