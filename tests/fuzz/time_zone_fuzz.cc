// Files of time zones: what is read gives periods that lie side by side.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/check.h"
#include "core/domain/time_zone.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent;
  const auto zone = TimeZone::parse({reinterpret_cast<const char*>(data), size});
  if (!zone.ok()) return 0;
  seconds instant(1'700'000'000);
  for (int i = 0; i < 20; ++i) {
    const ZonePeriod period = zone->period_at(instant);
    CHECK(period.begin <= instant, "an instant lies in its period");
    CHECK(instant < period.end, "an instant lies in its period");
    if (period.end == seconds::max()) break;
    instant = period.end;
  }
  return 0;
}
