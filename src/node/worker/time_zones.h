// Time zones of this machine: the files of its time zone database. Free functions that block; on
// the file thread, or before the loop runs.
#pragma once

#include <map>
#include <string>

#include "core/base/result.h"
#include "core/domain/schedule.h"
#include "core/domain/time_zone.h"

namespace lambent::worker {

using TimeZones = std::map<std::string, TimeZone>;

// Those that the schedules name; UTC needs no file. INVALID_ARGUMENT: this machine has none of that
// name. DATA_LOSS: its file is none of a time zone.
Result<TimeZones> read_time_zones(const Schedules& schedules);

// Of a name that validate() took; UTC of an empty one.
Result<TimeZone> read_time_zone(const std::string& name);

}  // namespace lambent::worker
