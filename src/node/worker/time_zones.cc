#include "node/worker/time_zones.h"

#include "core/base/fd.h"
#include "core/base/units.h"

namespace lambent::worker {
namespace {

constexpr const char* kFolder = "/usr/share/zoneinfo/";
constexpr Bytes kMostFile = Bytes::kib(256);

}  // namespace

Result<TimeZone> read_time_zone(const std::string& name) {
  if (name.empty() || name == "UTC") return TimeZone();
  const std::string path = kFolder + name;
  const auto file = TimeZone::is_name(name)
                        ? read_file(path, kMostFile.count)
                        : Result<std::string>(Error{ErrorCode::kNotFound, "no name"});
  if (!file.ok()) {
    return Error{ErrorCode::kInvalidArgument,
                 "this machine has no time zone '" + name + "' (" + path +
                     "); names are such as Europe/Zurich, and Debian's package is tzdata"};
  }
  auto zone = TimeZone::parse(*file);
  if (!zone.ok()) return Error{ErrorCode::kDataLoss, path + ": " + zone.error().message};
  return zone;
}

Result<TimeZones> read_time_zones(const Schedules& schedules) {
  TimeZones zones;
  for (const Schedule& schedule : schedules) {
    if (schedule.timezone.empty() || zones.contains(schedule.timezone)) continue;
    ASSIGN_OR_RETURN(zones[schedule.timezone], read_time_zone(schedule.timezone));
  }
  return zones;
}

}  // namespace lambent::worker
