// The limits of objects by name.
#pragma once

#include <cstddef>

#include "core/base/time.h"
#include "core/base/units.h"

namespace lambent::limits {

constexpr Bytes kObjectSize = Bytes::gib(64);  // the quotas are usually less
constexpr size_t kObjects = 100'000;           // on a node, with those expected and failed
constexpr size_t kObjectsOfTenant = 50'000;    // of one tenant
constexpr size_t kObjectWaits = 20'000;
constexpr size_t kForgottenObjects = 10'000;  // whose expiry is remembered
constexpr Duration kObjectTimeToLive = std::chrono::hours(1);
constexpr Duration kFailedObjectTimeToLive = std::chrono::minutes(5);  // at most
constexpr Duration kLeastObjectTimeToLive = seconds(1);
constexpr Duration kMostObjectTimeToLive = std::chrono::hours(24 * 7);
constexpr Duration kMostObjectWait = seconds(900);  // of one request
constexpr size_t kObjectConnections = 1'024;        // at the object socket
constexpr size_t kObjectGets = 256;                 // that wait, of one of them

}  // namespace lambent::limits
