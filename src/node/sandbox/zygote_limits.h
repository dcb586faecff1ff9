// Limits of zygotes: processes that have loaded what sandboxes need and are forked into them.
#pragma once

#include "core/base/time.h"
#include "core/base/units.h"

namespace lambent::limits {

constexpr unsigned kZygotes = 8;  // on a node, unless the operator says otherwise
constexpr Bytes kZygoteMemory = Bytes::gib(4);
constexpr unsigned kZygoteProcesses = 128;
constexpr Bytes kZygoteScratch = Bytes::mib(64);
constexpr Duration kZygoteLoadTimeout = std::chrono::minutes(3);
constexpr Duration kZygoteForkTimeout = seconds(5);
constexpr Duration kZygoteRest = std::chrono::minutes(10);  // unused for so long, it goes
constexpr Duration kZygoteTenure = seconds(60);             // used since then, it keeps its place
constexpr Duration kZygoteRetry = std::chrono::minutes(5);  // after one of its key failed
constexpr size_t kZygoteKeyLength = 4'096;
constexpr size_t kZygoteWords = 2'000;  // of why it failed

}  // namespace lambent::limits
