// FunctionSpec: what a user deployed. A value; made by the frontend, kept by the catalog, read by
// all.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/base/units.h"
#include "core/domain/function_limits.h"
#include "core/domain/mount.h"
#include "core/domain/network_access.h"
#include "core/domain/schedule.h"
#include "core/domain/tenant.h"

namespace lambent {

// How a function finds it: tenants never see each other's names.
struct FunctionName {
  TenantId tenant;
  std::string name;

  auto operator<=>(const FunctionName&) const = default;
};

enum class FunctionKind {
  kHandler,   // black-box code in a sandbox, spoken to by the Lambda Runtime API
  kKernel,    // a graph of kernels without host code, run by lambent-executor
  kWorkflow,  // a graph of other functions, which the worker calls
  kPipeline,  // a graph of components in one package, cut into stages over slices
  kHttp,      // a program in a sandbox that listens and answers HTTP requests itself
};
std::string_view name_of(FunctionKind kind);  // "handler", "kernel", "workflow", "pipeline", "http"
std::optional<FunctionKind> function_kind_from(std::string_view name);

enum class Runtime {
  kProvided,  // the package's own executable 'bootstrap'
  kPython,    // the package's module.function, run by our Python runtime client
};

// How a function's device memory is moved to the host while the function rests and others need the
// memory (docs/reference/shim.md): never, mapped by the shim and copied, or as managed memory.
enum class MemoryMode { kOff, kVmm, kUvm };
std::string_view name_of(MemoryMode mode);  // "off", "vmm", "uvm"
std::optional<MemoryMode> memory_mode_from(std::string_view name);

// What of its device memory comes in before it runs (docs/reference/shim.md): what the worker's
// --working-set says, all of it, or what its calls have named recently.
enum class WorkingSet { kWorker, kWhole, kTouched };
std::string_view name_of(WorkingSet set);  // "worker", "whole", "touched"
std::optional<WorkingSet> working_set_from(std::string_view name);

// Whose CUDA context a handler's driver calls run in: one of its sandbox's own, or, forwarded, that
// of the executor which the functions of its tenant and domain share (docs/guides/workflows.md).
enum class GpuRuntime { kOwn, kShared };
std::string_view name_of(GpuRuntime runtime);  // "own", "shared"

// That each sandbox of a function may take together.
constexpr unsigned kMostGpusOfFunction = 64;

// What the function needs from a GPU. `memory` zero means: the function uses no GPU.
struct GpuNeeds {
  Bytes memory;  // of each GPU
  // How many GPUs each sandbox takes, all together or none; it sees all of them.
  unsigned count = 1;
  MemoryMode memory_mode = MemoryMode::kVmm;
  WorkingSet working_set = WorkingSet::kWorker;
  // Whether the driver may checkpoint its processes while they rest, context and all.
  bool checkpoint = false;
  // How the emulated driver runs this function's kernels; ignored by a real one.
  enum class LaunchMode { kCompute, kModel } launch_mode = LaunchMode::kCompute;
  GpuRuntime runtime = GpuRuntime::kOwn;
  // Which functions of the tenant share an executor: those of the same domain. Empty: all that name
  // none.
  std::string domain;
  // Of the device's multiprocessors, per cent, that what runs in an executor may use at once.
  unsigned share = 100;

  bool operator==(const GpuNeeds&) const = default;
};

// A function that uses a GPU may also run without one, on the host's processors, in a sandbox that
// sees no GPU: the same package, perhaps by another handler. Where an invocation runs is decided
// when its turn comes (decide/scheduling/hybrid.h).
struct CpuVariant {
  std::string handler;  // empty: the function's own
  // How many times as long a run takes there as on the GPU; zero: not known, it is learnt.
  double gpu_speedup = 0;

  bool operator==(const CpuVariant&) const = default;
};

// Who may send HTTP requests to a function by its open URL, /t/TENANT/f/NAME/: who has a token with
// the scope invoke, or anyone.
enum class UrlAuth { kToken, kNone };
std::string_view name_of(UrlAuth auth);  // "token", "none"

// How a handler's answers to HTTP requests leave: once they are whole, or as they come.
enum class InvokeMode { kBuffered, kStream };
std::string_view name_of(InvokeMode mode);  // "buffered", "response_stream"

// What HTTP requests to a function, if they differ, are told (docs/guides/function-urls.md).
struct FunctionUrl {
  UrlAuth auth = UrlAuth::kToken;
  InvokeMode invoke_mode = InvokeMode::kBuffered;
  std::string cors;  // which pages may call it, as JSON (cors.h); empty: none of another origin

  bool operator==(const FunctionUrl&) const = default;
};

// How the program of an HTTP function is reached (docs/guides/http-functions.md).
struct HttpContract {
  unsigned port = 8080;   // of its own loopback, where it listens; it is told as PORT
  std::string readiness;  // a path that is answered with 2xx or 3xx once it is ready; empty: it is
                          // ready once it listens
  // How many requests may be in one sandbox at once. 1: it serves one after the other.
  unsigned concurrency = 1;

  bool operator==(const HttpContract&) const = default;
};

// What follows an asynchronous invocation (docs/guides/events.md): how often one that failed is
// tried again, and which functions are told of its outcome.
struct AsyncSettings {
  double retries = -1;          // 0, 1 or 2; -1: as the worker says
  double max_age_s = 0;         // an event that is older is not run any more; 0: retries of 6 hours
  std::string on_success = {};  // a function of the same tenant, or a version or alias; empty: none
  std::string on_failure = {};

  bool operator==(const AsyncSettings&) const = default;
};

struct FunctionSpec {
  FunctionId id;
  FunctionName name;
  FunctionKind kind = FunctionKind::kHandler;
  // Counts up from 1 with every change of code or configuration; warm sandboxes of older
  // revisions are retired, unless the change can do without (keeps_sandboxes).
  uint64_t revision = 1;

  Runtime runtime = Runtime::kProvided;
  std::string runtime_name = "provided.al2023";  // as the client wrote it
  // "module.function" for Python; for a kernel function or a workflow, which file of the package is
  // its graph; for an HTTP function, the command that starts its program (command_line.h).
  std::string handler;
  std::string description;
  std::string role;
  std::map<std::string, std::string> environment;
  std::map<std::string, std::string> tags;

  Duration timeout = limits::kDefaultTimeout;
  Bytes memory = limits::kDefaultMemory;  // host memory limit of one sandbox
  // How many processors one sandbox may keep at work: 0.5 is half of one; 0: without such a quota.
  double cpus = 0;
  // The sizes of a sandbox's /tmp and /dev/shm; what lies there is memory and counts as such.
  Bytes scratch = limits::kSandboxScratch;
  Bytes shared_memory = limits::kSandboxSharedMemory;
  Mounts mounts;
  NetworkAccess network;  // beside its own loopback
  GpuNeeds gpu;
  std::optional<CpuVariant> cpu_variant;
  HttpContract http;
  FunctionUrl url;
  double weight = 1;
  // How many sandboxes the function may have at work at once. 1: its calls never overlap.
  unsigned max_concurrency = limits::kDefaultConcurrency;
  // How long a synchronous invocation may wait in its queue; 0: without this bound; -1: as the
  // worker says.
  double max_queue_time_s = -1;
  // How many sandboxes are started before any call, and stay (docs/guides/warm.md).
  unsigned min_instances = 0;
  // Within how many milliseconds of its submission an invocation is to be answered, which is
  // counted (docs/guides/warm.md); 0: it has no SLO. That of a pipeline is in its description.
  unsigned slo_ms = 0;
  // How long a sandbox beyond these may rest; 0: it ends once nothing waits for it; -1: as the
  // worker says.
  double keep_alive_s = -1;
  // What each new sandbox gets before its first call: the path of a request to an HTTP function,
  // the event of a handler as JSON. Empty: nothing.
  std::string warm_up;
  // When it is invoked by itself.
  Schedules schedules;
  // Of the function and all its versions.
  AsyncSettings asynchronous;

  std::string code_sha256;   // base64, as Lambda's CodeSha256
  Bytes code_size;           // of the zip
  Duration last_modified{};  // since the Unix epoch

  bool operator==(const FunctionSpec&) const = default;
};

// INVALID_ARGUMENT, naming the field, if a limit is broken.
Result<void> validate(const FunctionSpec& spec);

// Whether warm sandboxes of `before` serve `after` as well: nothing differs that they were made
// from. What is decided only outside of them (weight, concurrency, tags) may, and the share of a
// kernel function, which its executor changes between two requests.
bool keeps_sandboxes(const FunctionSpec& before, const FunctionSpec& after);

}  // namespace lambent
