// NativeFrontend: our own /v1 API, the probes and /metrics; what Lambda's API lacks and the CLI
// needs. On the loop thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/random.h"
#include "core/base/units.h"
#include "core/domain/cancelled_invocation.h"
#include "core/domain/invocation_service.h"
#include "core/http/server.h"
#include "core/loop/event_loop.h"
#include "edge/frontend/log_followers.h"
#include "edge/frontend/log_reader.h"
#include "edge/frontend/native_call.h"

namespace lambent::frontend {

// What the worker says of itself; results measured on it carry this.
struct WorkerFacts {
  std::string policy;
  double time_scale = 1;  // modelled seconds per second
  unsigned devices = 0;
  bool emulated = false;
  std::string gpu;            // name of the first device
  unsigned concurrency = 0;   // D: invocations at once on a device
  Bytes device_memory;        // of the first device
  Bytes context_memory;       // that admission counts for each sandbox beside the function's own
  std::string object_socket;  // a path; clients on this machine get objects there without a copy
  // What it was told to do, in an order for reading.
  struct Setting {
    std::string name;  // as its flag
    std::string value;
    std::string meaning;
  };
  std::vector<Setting> settings = {};
  std::vector<std::string> policies = {};  // that there are
};

// Something that has to be well, such as "state_disk", and why it is not.
struct ReadyCheck {
  std::string name;
  std::optional<std::string> failure;
  bool is_needed = true;  // false: without it the worker still takes most requests, and is ready
};

struct NativeOptions {
  std::string version;  // of the worker
  // Prometheus text; for a tenant at least what has its label, and what has none may be left out.
  std::function<std::string(std::optional<TenantId>)> metrics;
  // False while the worker starts or drains.
  std::function<bool()> ready;
  // What else has to be well for it to take requests; may be empty.
  std::function<std::vector<ReadyCheck>()> checks;
  // Whether the token of this id is still good; empty: there are none.
  std::function<bool(const std::string&)> token_is_good;
  WorkerFacts about;
  // What the run of a workflow did, as JSON; may be empty.
  std::function<Result<std::string>(TenantId, InvocationId)> trace;
  // What an invocation that has no outcome waits for, as JSON; NOT_FOUND; may be empty.
  std::function<Result<std::string>(TenantId, InvocationId)> explain;
  // Ends one that has no outcome; as worker::Cancellation has it; may be empty.
  std::function<Result<CancelledInvocation>(TenantId, InvocationId)> cancel;
  // All devices, as JSON; takes one that is named out of service, and back. Any may be empty.
  std::function<std::string()> devices;
  using Done = std::function<void(Result<void>)>;
  std::function<void(const std::string& gpu, const std::string& reason, Done)> drain_devices;
  std::function<void(const std::string& gpu, Done)> undrain_devices;
  // The devices that serve pipelines; a pipeline function. JSON; either may be empty.
  std::function<std::string(TenantId)> slices;
  // When functions are invoked by themselves, as JSON; may be empty.
  std::function<void(TenantId, std::function<void(std::string)>)> schedules;
  std::function<Result<std::string>(const FunctionName&)> pipeline;
  // Measures one; JSON; may be empty.
  std::function<void(const FunctionName&, std::string event, unsigned repeat,
                     std::function<void(Result<std::string>)>)>
      measure;
  // Where the function may have run too.
  OtherNodes other_nodes = {};
};

class NativeFrontend {
 public:
  // The service and the loop outlive the frontend.
  NativeFrontend(InvocationService& service, loop::EventLoop& loop, Random& random,
                 NativeOptions options);

  void handle(const Caller& caller, http::Request request, http::Responder responder);

 private:
  InvocationService& service_;
  Random& random_;
  const NativeOptions options_;
  LogReader logs_;
  LogFollowers followers_;
};

}  // namespace lambent::frontend
