// The limits by name that several modules know. What one function may ask for is in
// function_limits.h, and what only one module bounds in that module's own limits.h, so that a
// change of one is not a change for all. Each has a test that reaches it.
#pragma once

#include <cstddef>

#include "core/base/time.h"
#include "core/base/units.h"

namespace lambent::limits {

// Payloads, as AWS Lambda has them.
constexpr Bytes kSyncPayload = Bytes(6 * 1024 * 1024);
constexpr Bytes kAsyncPayload = Bytes(1024 * 1024);
constexpr Bytes kResponsePayload = Bytes(6 * 1024 * 1024);
constexpr Bytes kLogTail = Bytes(4 * 1024);
// Over HTTP; through the object socket they may be as large as the quota.
constexpr Bytes kHttpObject = Bytes::mib(64);

// Function packages.
constexpr Bytes kZippedCode = Bytes::mib(50);
constexpr Bytes kUnzippedCode = Bytes::mib(250);
constexpr size_t kZipEntries = 20'000;
constexpr size_t kFunctionNameLength = 64;
constexpr size_t kFunctions = 200'000;  // versions and kept graphs included
constexpr Bytes kEnvironment = Bytes(4 * 1024);
constexpr size_t kDescriptionLength = 256;
constexpr size_t kTagValueLength = 256;

// Tenants, and what each may have whatever its quotas are.
constexpr size_t kTenantNameLength = 64;
constexpr Duration kMostTokenLife = std::chrono::hours(24 * 366 * 10);
constexpr size_t kSecretNameLength = 64;
constexpr Bytes kSecretValue = Bytes::kib(64);

// Volumes and mounts.
constexpr size_t kMountsPerFunction = 16;
constexpr size_t kVolumeNameLength = 64;
constexpr size_t kVolumePathLength = 1'024;
constexpr size_t kVolumePathDepth = 32;
constexpr size_t kVolumePartLength = 255;  // a name's of the file system
constexpr size_t kFilesPerVolume = 100'000;
constexpr size_t kVolumeFilesPerPage = 1'000;
constexpr Bytes kVolumePiece = Bytes::mib(1);  // that is read or written at once

// The network of functions: entries of a list.
constexpr size_t kNetworkRules = 32;

// What a new sandbox is sent before its first call, and settings that are lists.
constexpr size_t kWarmUpLength = 4'096;
constexpr size_t kSchedulesPerFunction = 32;
constexpr size_t kScheduleNameLength = 64;
constexpr Bytes kSchedulePayload = Bytes::kib(4);
constexpr size_t kCorsEntries = 100;            // of one list in it, as Lambda has it
constexpr size_t kCorsEntryLength = 256;        // an origin, a method or the name of a header
constexpr double kMostCorsAge = 86'400;         // seconds that a browser may keep an answer
constexpr Bytes kSettingTag = Bytes::kib(256);  // the value of a tag that is a setting

// A sandbox must ask for its first invocation within this time after it was started.
constexpr Duration kInitTimeout = seconds(10);
// While others wait for what it holds, a sandbox takes further requests for so long.
constexpr Duration kLongestSharedTurn = seconds(1);
constexpr unsigned kSandboxProcesses = 256;  // unless the operator says otherwise
constexpr size_t kSandboxPathLength = 1'024;

// HTTP functions. In every sandbox the Lambda Runtime API has this port.
constexpr unsigned kRuntimeApiPort = 9001;
constexpr size_t kReadinessPathLength = 1'024;
constexpr size_t kCommandWords = 128;

// Queues.
constexpr size_t kQueuedPerFunction = 10'000;
constexpr size_t kQueuedInvocations = 100'000;

// Requests to the frontends.
constexpr size_t kJsonDepth = 32;
constexpr size_t kIdempotencyKeyLength = 128;
// What one invocation waits for, and what it makes.
constexpr size_t kNeeds = 64;
constexpr size_t kOutputs = 16;

}  // namespace lambent::limits
