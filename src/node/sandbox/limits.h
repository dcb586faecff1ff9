// The limits of sandboxes and of their launcher by name.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/time.h"
#include "core/base/units.h"

namespace lambent::limits {

constexpr unsigned kSandboxOpenFiles = 1024;
constexpr Bytes kSandboxFileSize = Bytes::mib(512);
constexpr unsigned kSandboxes = 4'000;   // at one time on a node
constexpr size_t kSandboxBinds = 128;    // and as many device files, but
constexpr size_t kSandboxSources = 155;  // of both together: they are opened and sent at once
constexpr size_t kSandboxArguments = 256;
constexpr Duration kSandboxLaunchTimeout = seconds(10);
constexpr uint32_t kSandboxSockets = 16;  // of its network, that are asked for at once
// One message between worker and lambent-launcher: a whole plan.
constexpr Bytes kLauncherMessage = Bytes::kib(128);

}  // namespace lambent::limits
