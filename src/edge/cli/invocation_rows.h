// Invocations as rows of tables: what 'lambent invocations', 'describe' and 'top' show alike. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "core/base/time.h"

namespace lambent::cli {

// Of /v1/activity/live and /v1/activity/invocations. `now`: since the Unix epoch.
std::string table_of_live(const nlohmann::ordered_json& live);
std::string table_of_ended(const nlohmann::ordered_json& ended, Duration now);

}  // namespace lambent::cli
