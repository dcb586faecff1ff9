// Schedules come from tenants: of what is taken, each instant lies after the one before, and the
// last that has passed is one of them. A blank in front of the list means a zone that sets clocks.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/check.h"
#include "core/domain/schedule.h"
#include "core/domain/timetable.h"
#include "tests/fuzz/accepted.h"

namespace {

using namespace lambent;

// A file as zic writes it that says one offset, and then a rule.
TimeZone zurich() {
  const std::string type(6, '\0');
  const std::string header = "TZif2" + std::string(15 + 4 * 4, '\0') + std::string("\0\0\0\1", 4) +
                             std::string("\0\0\0\4", 4) + type + std::string("UTC\0", 4);
  return TimeZone::parse(header + header + "\nCET-1CEST,M3.5.0,M10.5.0/3\n").value();
}

void follow(const Timetable& timetable) {
  seconds instant(1'774'000'000);  // some days before clocks are set
  for (int i = 0; i < 4; ++i) {
    const auto next = timetable.next(instant);
    if (!next) return;
    CHECK(*next > instant, "the next instant comes after");
    const FiringDecision decision = decide_firing(timetable, *next, *next + seconds(30), false);
    CHECK(decision.fires.has_value(), "an instant that has just passed is begun");
    CHECK(*decision.fires >= *next, "and it is due, or a later one is");
    CHECK(!decision.next || *decision.next > *decision.fires, "the one after it comes after it");
    instant = *next;
  }
}

}  // namespace

namespace {
[[maybe_unused]] const bool kTold = lambent::fuzz::tells_what_it_accepts();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const TimeZone kZurich = zurich();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto schedules = parse_schedules(text);
  if (!schedules.ok() || !validate(*schedules).ok()) return 0;
  lambent::fuzz::accepted.last = true;
  const auto again = parse_schedules(text_of(*schedules));
  CHECK(again.ok(), "what was written is read");
  CHECK(*again == *schedules, "and says the same");
  for (const Schedule& schedule : *schedules) {
    const auto timetable = Timetable::of(schedule, text.starts_with(' ') ? kZurich : TimeZone());
    CHECK(timetable.ok(), "what is valid has a timetable");
    follow(*timetable);
  }
  return 0;
}
