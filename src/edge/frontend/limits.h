// The limits of requests to the frontends by name.
#pragma once

#include <cstddef>

#include "core/base/units.h"
#include "core/domain/limits.h"

namespace lambent::limits {

constexpr size_t kTags = 50;
constexpr size_t kTagKeyLength = 128;

// Requests that become events of handlers: their bodies, and what all bodies that arrive have.
constexpr Bytes kEventBody = kSyncPayload;
constexpr Bytes kArrivingEventBodies = Bytes::mib(512);
constexpr Bytes kStreamPrelude = Bytes::kib(64);  // the JSON with status and headers before it

constexpr size_t kClientContextLength = 3583;
constexpr size_t kFunctionsPerPage = 50;
constexpr size_t kLogFollowers = 64;
constexpr size_t kObjectsPerPage = 1'000;
constexpr Bytes kObjectCopies = Bytes::mib(512);  // under way between HTTP and objects

}  // namespace lambent::limits
