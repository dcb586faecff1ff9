// Every limit of the platform by name, in one place. Each has a test that reaches it.
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

// Function packages.
constexpr Bytes kZippedCode = Bytes::mib(50);
constexpr Bytes kUnzippedCode = Bytes::mib(250);
constexpr size_t kZipEntries = 20'000;
constexpr size_t kFunctionNameLength = 64;
constexpr size_t kFunctions = 200'000;           // versions and kept graphs included
constexpr size_t kFunctionsWithMetrics = 5'000;  // series of their own, of those invoked last
constexpr Bytes kEnvironment = Bytes(4 * 1024);
constexpr size_t kDescriptionLength = 256;
constexpr size_t kTags = 50;
constexpr size_t kTagKeyLength = 128;
constexpr size_t kTagValueLength = 256;

// Tenants, and what each may have whatever its quotas are.
constexpr size_t kTenants = 20'000;
constexpr size_t kTenantNameLength = 64;
constexpr size_t kTokensPerTenant = 1'000;
constexpr size_t kTokenNameLength = 64;
constexpr Duration kMostTokenLife = std::chrono::hours(24 * 366 * 10);
constexpr size_t kSecretsPerTenant = 1'000;
constexpr size_t kSecretNameLength = 64;
// Volumes and mounts.
constexpr size_t kMountsPerFunction = 16;
constexpr size_t kVolumesPerTenant = 256;
constexpr size_t kVolumeNameLength = 64;
constexpr size_t kVolumePathLength = 1'024;
constexpr size_t kVolumePathDepth = 32;
constexpr size_t kVolumePartLength = 255;  // a name's of the file system
constexpr size_t kFilesPerVolume = 100'000;
constexpr size_t kVolumeFilesPerPage = 1'000;
constexpr size_t kVolumeTransfers = 64;     // at once, of a worker
constexpr size_t kUnfinishedUploads = 256;  // of a volume
constexpr Duration kUnfinishedUploadAge = std::chrono::hours(24);
constexpr Bytes kVolumePiece = Bytes::mib(1);  // that is read or written at once
constexpr Bytes kVolumeAhead = Bytes::mib(4);  // of a transfer, that waits for the disk
constexpr Bytes kSecretValue = Bytes::kib(64);

// The network of functions: entries of a list, and what one sandbox may have at one time.
constexpr size_t kNetworkRules = 32;
constexpr size_t kNetworkConnections = 512;
constexpr size_t kNetworkKnownFlows = 4'096;  // those that ended a while ago included
constexpr size_t kNetworkQuestions = 64;      // of names, that wait for an answer
constexpr size_t kNetworkNames = 1'024;       // addresses that are open because of a name
constexpr size_t kNetworkNameAnswers = 16;    // addresses of one answer
constexpr Duration kLeastNameLife = seconds(30);
constexpr Duration kMostNameLife = seconds(3600);
constexpr Duration kNameTimeout = seconds(2);  // of one try
constexpr Duration kNetworkConnectTimeout = seconds(60);
constexpr Duration kNetworkFlowLinger = seconds(60);  // after both ends closed
constexpr Bytes kNetworkBuffer = Bytes::kib(256);     // of one direction of a connection
constexpr size_t kNetworkRefusalsTold = 16;           // different ones, in an interval
constexpr Duration kNetworkRefusalInterval = seconds(1);

// What a function may ask for.
constexpr Duration kLeastTimeout = seconds(1);
constexpr Duration kMostTimeout = seconds(5400);
constexpr Duration kDefaultTimeout = seconds(30);
constexpr Bytes kLeastMemory = Bytes::mib(64);
constexpr Bytes kMostMemory = Bytes::mib(32768);
constexpr Bytes kDefaultMemory = Bytes::mib(512);

// Sandboxes of one function that may be at work at once. As many as Lambda gives an account by
// default: how many there are, the scheduler decides.
constexpr unsigned kDefaultConcurrency = 1000;
constexpr unsigned kMostConcurrency = 10'000;
// Requests that are in one sandbox of an HTTP function at once.
constexpr unsigned kMostSandboxConcurrency = 1'000;
// What a function that serves a model has unless it says otherwise: its server reads requests side
// by side, and computes them one after the other.
constexpr unsigned kModelConcurrency = 16;
// While others wait for what it holds, a sandbox takes further requests for so long.
constexpr Duration kLongestSharedTurn = seconds(1);
constexpr double kLeastWeight = 0.01;
constexpr double kMostWeight = 1000;
constexpr double kMostGpuSpeedup = 1e6;  // of a CPU variant

// Sandboxes of a function that are kept ready, how long others may rest, and what a new one is
// sent before its first call.
constexpr unsigned kMostInstances = 1'000;
constexpr double kMostKeepAliveSeconds = 86'400;
constexpr size_t kWarmUpLength = 4'096;
constexpr size_t kSchedulesPerFunction = 32;
constexpr size_t kScheduleNameLength = 64;
constexpr size_t kScheduleLength = 256;  // of its expression, and of its time zone
constexpr Bytes kSchedulePayload = Bytes::kib(4);
constexpr size_t kCorsEntries = 100;            // of one list in it, as Lambda has it
constexpr size_t kCorsEntryLength = 256;        // an origin, a method or the name of a header
constexpr double kMostCorsAge = 86'400;         // seconds that a browser may keep an answer
constexpr Bytes kSettingTag = Bytes::kib(256);  // the value of a tag that is a setting

// A sandbox must ask for its first invocation within this time after it was started.
constexpr Duration kInitTimeout = seconds(10);

// HTTP functions. In every sandbox the Lambda Runtime API has this port.
constexpr unsigned kRuntimeApiPort = 9001;
constexpr size_t kReadinessPathLength = 1'024;
constexpr size_t kCommandWords = 128;
constexpr Bytes kRelayedHead = Bytes::kib(64);  // of an answer: its status line and headers
constexpr Bytes kRelayWindow = Bytes::kib(64);  // of one direction that the other side is behind
constexpr size_t kRelayedRequests = 4'096;      // that exist at one time
constexpr Duration kRelayReadyPeriod = milliseconds(10);  // between two looks whether it listens
// Requests that become events of handlers: their bodies, and what all bodies that arrive have.
constexpr Bytes kEventBody = kSyncPayload;
constexpr Bytes kArrivingEventBodies = Bytes::mib(512);
// What a handler streams as one answer, as Lambda has it; the worker keeps a window of it.
constexpr Bytes kStreamedResponse = Bytes::mib(200);
constexpr Bytes kStreamPrelude = Bytes::kib(64);  // the JSON with status and headers before it

// Executors of kernel functions.
constexpr size_t kExecutorInstances = 1'000;
// Objects that an executor keeps open to bring them to the device once more.
constexpr size_t kExecutorHostObjects = 128;
constexpr Bytes kExecutorHostBytes = Bytes::gib(1);

// Kernel functions: their graphs, and what the largest devices take.
constexpr Bytes kGraphJson = Bytes::mib(4);
constexpr size_t kGraphBuffers = 4'096;
constexpr size_t kGraphSteps = 4'096;  // counting those in repeats
constexpr size_t kGraphDepth = 4;      // of repeats in repeats
constexpr size_t kGraphArguments = 256;
constexpr uint64_t kGraphRounds = 1'000'000'000;
constexpr size_t kGraphNameLength = 256;
constexpr Bytes kGraphMemory = Bytes::gib(1024);
constexpr uint32_t kBlockThreads = 1'024;
constexpr Bytes kBlockSharedMemory = Bytes::kib(227);
// Graphs that come with requests and are kept.
constexpr Bytes kKeptGraphPackage = Bytes::mib(16);
constexpr size_t kKeptGraphsPerTenant = 64;
constexpr size_t kKeptGraphs = 512;
constexpr Duration kKeptGraphRest = std::chrono::minutes(30);  // without a request

// Queues.
constexpr size_t kQueuedPerFunction = 10'000;
constexpr size_t kQueuedInvocations = 100'000;
constexpr size_t kMailbox = 65'536;
constexpr size_t kCatalogQueue = 16'384;
constexpr Bytes kCatalogQueueBytes = Bytes::mib(256);
constexpr size_t kCatalogBatch = 512;

// Logs of functions, kept for `lambent logs`.
constexpr Bytes kLogPerFunction = Bytes::mib(4);

// Sandboxes, unless the operator says otherwise.
constexpr unsigned kSandboxProcesses = 256;
constexpr unsigned kSandboxOpenFiles = 1024;
constexpr Bytes kSandboxScratch = Bytes::mib(512);
constexpr Bytes kSandboxSharedMemory = Bytes::mib(64);
constexpr Bytes kLeastScratch = Bytes::mib(1);  // and shared memory
constexpr Bytes kSandboxFileSize = Bytes::mib(512);
constexpr unsigned kSandboxes = 4'000;  // at one time on a node
constexpr size_t kSandboxBinds = 64;
constexpr size_t kSandboxArguments = 256;
constexpr size_t kSandboxPathLength = 1'024;
constexpr Duration kSandboxLaunchTimeout = seconds(10);
constexpr uint32_t kSandboxSockets = 16;  // of its network, that are asked for at once
// One message between worker and lambent-launcher: a whole plan.
constexpr Bytes kLauncherMessage = Bytes::kib(128);

// Requests to the frontends.
constexpr size_t kJsonDepth = 32;
constexpr size_t kClientContextLength = 3583;
constexpr size_t kIdempotencyKeyLength = 128;
constexpr size_t kTraceIdLength = 512;
constexpr size_t kFunctionsPerPage = 50;
constexpr size_t kLogFollowers = 64;

// HTTP.
constexpr size_t kHttpConnections = 4'096;
constexpr Bytes kHttpHeaders = Bytes::kib(64);
constexpr Duration kHttpHeaderTimeout = seconds(10);
constexpr Duration kHttpBodyTimeout = seconds(60);
// What a second of a body that is kept brings at least, beyond that time.
constexpr Bytes kHttpBodyRate = Bytes::kib(64);
constexpr Duration kHttpIdleTimeout = seconds(75);
// The Runtime API may carry an X-Ray cause of up to 1 MiB in a header.
constexpr Bytes kRuntimeApiHeaders = Bytes(1024 * 1024 + 64 * 1024);

// Objects.
constexpr Bytes kObjectSize = Bytes::gib(64);  // the quotas are usually less
constexpr size_t kObjects = 100'000;           // on a node, with those expected and failed
constexpr size_t kObjectsOfTenant = 50'000;    // of one tenant
constexpr size_t kObjectWaits = 20'000;
constexpr size_t kForgottenObjects = 10'000;  // whose expiry is remembered
constexpr Duration kObjectTimeToLive = std::chrono::hours(1);
constexpr Duration kFailedObjectTimeToLive = std::chrono::minutes(5);  // at most
constexpr Duration kLeastObjectTimeToLive = seconds(1);
constexpr Duration kMostObjectTimeToLive = std::chrono::hours(24 * 7);
constexpr size_t kObjectsPerPage = 1'000;
constexpr Duration kMostObjectWait = seconds(900);  // of one request
// What one invocation waits for, how many may wait so, and for how long.
constexpr size_t kNeeds = 64;
constexpr size_t kOutputs = 16;
constexpr size_t kInvocationsWaiting = 10'000;
constexpr Duration kNeedsTimeout = std::chrono::hours(1);
constexpr size_t kObjectConnections = 1'024;      // at the object socket
constexpr size_t kObjectGets = 256;               // that wait, of one of them
constexpr Bytes kObjectCopies = Bytes::mib(512);  // under way between HTTP and objects
// Over HTTP; through the object socket they may be as large as the quota.
constexpr Bytes kHttpObject = Bytes::mib(64);

// Traces and replays.
constexpr Bytes kTraceLine = Bytes::mib(1);
constexpr size_t kTraceFunctions = 100'000;
constexpr size_t kTraceColumns = kTraceFunctions + 2;  // a function each, besides day and time
constexpr size_t kTraceMinutes = 20'160;               // two weeks
constexpr size_t kTraceArrivals = 20'000'000;          // of traces that have to be held in memory
constexpr uint64_t kGeneratedArrivals = 10'000'000'000;
constexpr uint64_t kTraceCountPerMinute = 10'000'000;
constexpr size_t kReplayOutstanding = 1'024;

// The journal of dispatch.
constexpr size_t kJournalFunctions = 1 << 20;    // ids above this are damage
constexpr Bytes kJournalBuffer = Bytes::mib(8);  // that the disk may be behind
constexpr Bytes kJournalBlock = Bytes::kib(64);
constexpr Bytes kLeastJournal = Bytes::mib(1);
constexpr size_t kJournalSegments = 8;  // that share the journal's size

// How long the outcome of an invocation answers repeats of the same request.
constexpr Duration kIdempotencyWindow = std::chrono::minutes(15);
constexpr size_t kIdempotencyEntries = 10'000;
// Of those that were refused, how many are known again when they come as they were told.
constexpr size_t kPromisedTurns = 10'000;
constexpr double kMostQueueTimeSeconds = 86'400;

}  // namespace lambent::limits
