// InvocationService: the one way into the platform. Frontends decode, authenticate and call it; the
// worker implements it, tests fake it. All calls and callbacks happen on the loop thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/domain/function.h"
#include "core/domain/function_log.h"
#include "core/domain/invocation.h"

namespace lambent {

struct FunctionChange {
  FunctionSpec spec;  // id and revision are the service's to give
  // The zip in base64, as it was sent: decoding many megabytes takes long, so the service does it
  // off the loop thread (INVALID_ARGUMENT if it cannot). Empty when only the configuration changes.
  std::string zip_base64;
  std::string zip;  // the same without base64; at most one of these is given
  // The zip told by what differs from the code that the function has, whose digest is `delta_base`
  // (core/archive/code_delta.h). The spec's digest is what it has to make. FAILED_PRECONDITION
  // where it cannot be made here: the whole zip can.
  std::string delta = {};
  std::string delta_base = {};
  // Sandboxes of before serve it no longer, although the spec says nothing of it: a secret changed.
  bool renews_sandboxes = false;
  // What takes longer is answered meanwhile and goes on: see DeploymentStatus.
  Duration answer_within = seconds(20);
  // All is checked as if it were deployed, and nothing is changed: the answer is the function as it
  // would be.
  bool dry_run = false;
  // Where neither code nor settings differ, the answer is the function as it is, and there is no
  // new revision.
  bool only_if_different = false;
  // A version of it is published once the change is done: the answer is that version.
  bool publish = false;
  // Another node took it: what that judged is not judged again.
  bool is_copy = false;

  bool has_code() const { return !zip_base64.empty() || !zip.empty() || !delta.empty(); }
};

// A change of a function that was answered before it was done, or that failed after that: its
// Python packages are installed. What the function was before serves until it is done.
struct DeploymentStatus {
  FunctionSpec spec;     // as it will be
  bool creates = false;  // there was no such function before
  std::string progress;  // what is done right now, in words; may be empty
  std::optional<Error> failure;
};

// Whether to read what memory of the host each sandbox uses, which is a system call or two for
// each: not for a list of functions or models.
enum class Metering { kNone, kMemory };

// A sandbox as `lambent ps` shows it.
struct SandboxStatus {
  SandboxId id;
  FunctionName function;
  std::string state;  // "starting", "idle", "busy", "stopping"
  int64_t pid = 0;
  DeviceId device;
  std::vector<DeviceId> beside;  // its other devices, if it takes several
  Duration age{};
  uint64_t invocations = 0;
  uint64_t in_flight = 0;  // that are in it now
  Bytes device_memory;
  Bytes host_memory;
  // Where its device memory is: "in", "moving out", "out", "moving in", or "out with context";
  // empty if it has none.
  std::string device_memory_place;
};

// The sandboxes that a function is to have ready (FunctionSpec::min_instances).
struct InstanceReport {
  unsigned wanted = 0;
  unsigned ready = 0, starting = 0;
  // Of those that ended by themselves, one after the other, and in how long the next is started.
  uint32_t failures = 0;
  Duration next_start_in{};
};

// A function as `lambent ls` shows it.
struct FunctionStatus {
  FunctionSpec spec;
  uint64_t queued = 0;
  uint64_t running = 0;
  uint64_t completed = 0;
  uint64_t sandboxes = 0;
  InstanceReport instances = {};
};

// Of all functions of a tenant.
struct FunctionTotals {
  uint64_t functions = 0;
  Bytes code;  // of their zips
};

class InvocationService {
 public:
  template <typename T>
  using Callback = std::function<void(Result<T>)>;

  virtual ~InvocationService() = default;

  // Runs a function. The callback gets exactly one InvocationResult (kRejected carries the error),
  // or an Error for what could not even become an invocation (NOT_FOUND, payload too large). For
  // kAsynchronous it is called once the invocation is durable, with an empty result; its id is that
  // of the first of its repeats.
  virtual void submit(InvocationRequest request, Callback<InvocationResult> done) = 0;
  // The client went away: a synchronous invocation may go on, but no client waits for it.
  virtual void forget(InvocationId id) = 0;
  // The stored outcome of an asynchronous invocation; nullopt while it is queued or running;
  // NOT_FOUND if there is none.
  virtual void async_result(TenantId tenant, InvocationId id,
                            Callback<std::optional<InvocationResult>> done) = 0;

  virtual void create_function(FunctionChange change, Callback<FunctionSpec> done) = 0;
  // Replaces code or configuration; the spec's name says which function.
  virtual void update_function(FunctionChange change, Callback<FunctionSpec> done) = 0;
  virtual void remove_function(FunctionName name, Callback<FunctionSpec> done) = 0;

  // The last change of it, while it goes on or if it failed after its answer.
  virtual std::optional<DeploymentStatus> deployment(const FunctionName& /*name*/) const {
    return std::nullopt;
  }
  // Also one that is being created.
  virtual Result<FunctionSpec> find_function(const FunctionName& name) const = 0;
  // In order of name, after `after` (empty: from the start), at most `limit`.
  virtual std::vector<FunctionSpec> list_functions(TenantId tenant, const std::string& after,
                                                   size_t limit) const = 0;
  // The same, with what they do.
  virtual std::vector<FunctionStatus> function_status(TenantId tenant, const std::string& after,
                                                      size_t limit) const = 0;
  virtual FunctionTotals function_totals(TenantId tenant) const = 0;
  virtual std::vector<SandboxStatus> sandbox_status(TenantId tenant, Metering metering) const = 0;

  // What it holds in memory is given back: its sandboxes end once they rest, and the next call
  // starts one. NOT_FOUND; FAILED_PRECONDITION: instances of it are kept ready.
  virtual Result<void> unload(const FunctionName& name) = 0;
  // The function's log from byte `offset` on, at most `most` bytes. Old bytes may be gone: then it
  // starts at the oldest one kept. NOT_FOUND.
  virtual Result<LogChunk> read_log(const FunctionName& name, uint64_t offset,
                                    size_t most) const = 0;
};

}  // namespace lambent
