#include "node/worker/hosted_sandbox.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <deque>
#include <filesystem>
#include <optional>
#include <tuple>
#include <utility>

#include "core/domain/image_function.h"
#include "core/domain/sandbox_concurrency.h"
#include "core/domain/version.h"
#include "node/runtime_api/error_type.h"
#include "node/worker/listening_places.h"
#include "node/worker/sandbox_socket.h"

namespace lambent::worker {
namespace {

// Between two readings of a peak that short requests share.
constexpr Duration kPeakPeriod = milliseconds(10);

EndWords words_for(const sandbox::Exit& exit, bool initialised, bool warms_up,
                   const FunctionSpec& spec) {
  if (exit.out_of_memory) {
    return {{ErrorCode::kResourceExhausted, "the function used more than its memory limit of " +
                                                to_string(spec.memory) +
                                                ", with what lies in /tmp and /dev/shm; raise "
                                                "'memory' to give it more"},
            "Runtime.OutOfMemory"};
  }
  const std::string how = exit.signal != 0 ? "signal: " + std::to_string(exit.signal)
                                           : "exit status " + std::to_string(exit.exit_code);
  const std::string when = initialised ? ""
                           : warms_up  ? " while it was warmed up"
                           : spec.kind == FunctionKind::kHttp
                               ? " before it was ready"
                               : " before it asked for its first event";
  // The function's fault, as an exception is; INTERNAL would say that it is ours.
  return {{ErrorCode::kUnknown, "Runtime exited with error: " + how + when}, "Runtime.ExitError"};
}

// By which a runtime knows its warm-up from invocations, whose ids are random.
InvocationId warm_up_id(SandboxId sandbox) { return {0x7761726d2d757000, sandbox.value}; }

// Without printf: once for each invocation.
std::string in_milliseconds(Duration duration) {
  const int64_t hundredths = (duration.count() + 5'000) / 10'000;
  const std::string fraction = std::to_string(100 + hundredths % 100);
  return std::to_string(hundredths / 100) + "." + fraction.substr(1);
}

// What Lambda prints when an invocation is over. `used`: of the memory at most; none: not known.
std::string end_lines(const std::string& id, Duration execution, Bytes memory, Bytes used) {
  const int64_t billed_ms = (execution.count() + 999'999) / 1'000'000;
  std::string lines = "END RequestId: " + id + "\nREPORT RequestId: " + id +
                      "\tDuration: " + in_milliseconds(execution) +
                      " ms\tBilled Duration: " + std::to_string(billed_ms) +
                      " ms\tMemory Size: " + std::to_string(memory.count >> 20) + " MB";
  if (used.count == 0) return lines + "\n";
  const uint64_t mebibytes = (used.count + (1 << 20) - 1) >> 20;
  return lines + "\tMax Memory Used: " + std::to_string(mebibytes) + " MB\n";
}

// Leases come in pieces, and what they hold in blocks that may be half empty: more than the limit.
constexpr Bytes kLeaseSlack = Bytes::mib(64);

// The function runs as another user than the worker.
Result<ledger::LedgerReader> create_open_ledger(const std::string& path, Bytes limit) {
  auto ledger = ledger::create_ledger(path, limit, 0666);
  if (!ledger.ok()) return ledger.error().with_context("create the memory ledger");
  if (chmod(path.c_str(), 0666) != 0) return error_from_errno("chmod " + path, errno);
  return ledger;
}

// Of one that takes several devices: for each of the others, beside that of the first.
Result<void> make_ledgers_beside(HostedSandbox& sandbox, SandboxRequest& request) {
  for (size_t i = 1; i <= sandbox.beside.size(); ++i) {
    const std::string path = sandbox.ledger_path + "." + std::to_string(i);
    ASSIGN_OR_RETURN(ledger::LedgerReader ledger,
                     create_open_ledger(path, sandbox.spec.gpu.memory));
    sandbox.ledgers_beside.push_back(std::move(ledger));
    sandbox.ledger_paths_beside.push_back(path);
  }
  request.ledgers_beside = sandbox.ledger_paths_beside;
  return {};
}

// Which of those that it had go back to their queue, and what the others are told.
// One that no program saw keeps its place, if it was the only one or all others are like it.
void tell_each(const HostedSandbox& sandbox, SandboxEnd& end) {
  if (!end.undelivered) return;
  const size_t given = sandbox.in_flight.size() + sandbox.too_late.size();
  end.undelivered = end.unseen.size() >= given;
  for (const InvocationId each : end.unseen) {
    if (!end.undelivered || each != end.invocation) end.returned.push_back(each);
  }
}

// A line of ours about one invocation.
void print_of(const HostedSandbox& sandbox, LogTail& tail, std::string_view text) {
  tail.append(text);
  sandbox.observer.on_output(sandbox.spec.id, text);
}

// Not what shares a GPU's runtime, as its device memory is in an executor, which ends. Not a stage
// process: its channel ends with the program that made it.
bool can_stay(const HostedSandbox& sandbox, const SandboxRequest& request) {
  const FunctionSpec& spec = sandbox.spec;
  const bool shares = spec.gpu.memory > Bytes(0) && spec.gpu.runtime == GpuRuntime::kShared;
  const bool has_kind = spec.kind == FunctionKind::kHandler || spec.kind == FunctionKind::kHttp;
  return has_kind && !shares && request.extras.binds.empty() && request.extras.environment.empty();
}

// Dispatch counts the time-out of a run from the same moment on.
void memory_came(HostedSandbox& sandbox) {
  sandbox.memory_is_away = false;
  if (sandbox.session != nullptr) sandbox.session->memory_came();
}

}  // namespace

size_t most_in_flight(const FunctionSpec& spec, const StageProcessExtras& extras) {
  const size_t at_once = spec.kind == FunctionKind::kHandler ? sandbox_concurrency(spec) : 1;
  return std::max(at_once, extras.in_flight);
}

SandboxHost::SandboxHost(Dependencies dependencies, SandboxSetting setting, std::string run_folder)
    : loop_(dependencies.loop),
      log_(dependencies.log),
      uses_(std::move(dependencies)),
      launcher_(uses_.launcher),
      setting_(std::move(setting)),
      run_folder_(std::move(run_folder)),
      keeping_(keeping_uses()) {
  std::error_code ignored;
  std::filesystem::remove_all(run_folder_, ignored);
  std::filesystem::create_directories(run_folder_, ignored);
}

SandboxHost::~SandboxHost() {
  for (const auto& [id, sandbox] : sandboxes_) {
    loop_.cancel(sandbox->grace);
    launcher_.kill(id);
  }
}

void SandboxHost::start(BackendStart start, BackendObserver& observer) {
  const SandboxId id = start.sandbox;
  const FunctionSpec& spec = start.spec;
  StageProcessExtras& extras = start.extras;
  auto owned = std::make_unique<Sandbox>(observer);
  Sandbox& sandbox = *owned;
  sandbox.id = id;
  sandbox.spec = spec;
  sandbox.device = start.device;
  sandbox.beside = start.beside;
  sandbox.requested_at = loop_.clock().now();
  sandbox.most_response = extras.most_response;
  sandbox.most_in_flight = most_in_flight(spec, extras);
  sandboxes_[id] = std::move(owned);

  SandboxRequest request{id, start.device, std::move(start.code_folder), ""};
  request.extras = std::move(extras);
  request.beside = sandbox.beside;
  FunctionSpec resolved = spec;
  const auto refuse = [this, id](const Error& error, const char* type) {
    // The caller is in the middle of handling an event: its answer comes in the next turn.
    loop_.call_after(Duration(0), [this, id, error, type] { finish(id, error, type, Bytes(0)); });
  };
  const auto found = resolve_environment(resolved, request);
  if (!found.ok()) return refuse(found.error(), "Runtime.MissingSecret");
  if (spec.gpu.memory > Bytes(0)) {
    const auto connected = connect_memory(sandbox, request);
    if (!connected.ok()) return refuse(connected.error(), "Sandbox.Failure");
  }
  if (const auto missing = find_folders(setting_, spec, request)) {
    return refuse(missing->error, missing->error_type);
  }
  sandbox::LaunchPlan plan = plan_sandbox(setting_, resolved, request);
  if (can_stay(sandbox, request)) {
    sandbox.plan_digest = digest_of(plan);
    // Those with GPUs are dispatch's before anything is started.
    if (spec.gpu.memory == Bytes(0) && adopt(sandbox)) {
      return observer.on_adopted(id, sandbox.sandbox_time, sandbox.init_time);
    }
  }
  launcher_.launch(std::move(plan),
                   [this, id](Result<sandbox::Started> result) { started(id, std::move(result)); });
}

Result<void> SandboxHost::resolve_environment(FunctionSpec& spec, SandboxRequest& request) {
  if (uses_.secrets == nullptr) return {};
  ASSIGN_OR_RETURN(ResolvedEnvironment resolved,
                   resolve_secrets(spec.environment, [&](const std::string& name) {
                     return uses_.secrets->find_secret(spec.name.tenant, name);
                   }));
  spec.environment = std::move(resolved.variables);
  request.secret_files = std::move(resolved.files);
  return {};
}

Result<void> SandboxHost::connect_memory(Sandbox& sandbox, SandboxRequest& request) {
  ASSIGN_OR_RETURN(request.ledger_path, make_ledger(sandbox, sandbox.spec.gpu.memory));
  RETURN_IF_ERROR(make_ledgers_beside(sandbox, request));
  if (sandbox.spec.gpu.runtime == GpuRuntime::kShared) return connect_runtime(sandbox, request);
  if (!moves_memory(setting_, sandbox.spec, sandbox.device, sandbox.beside)) return {};
  const std::string number = std::to_string(sandbox.id.value);
  sandbox.memory_path = run_folder_ + "/memory-" + number;
  ASSIGN_OR_RETURN(sandbox.memory,
                   MemoryChannel::open(loop_, log_, sandbox.memory_path, on_moved_of(sandbox),
                                       on_wanted_of(sandbox)));
  request.memory_path = sandbox.memory_path;
  if (uses_.links == nullptr) return {};
  sandbox.link_path = run_folder_ + "/link-" + number;
  ASSIGN_OR_RETURN(sandbox.link_listener, listen_to_sandbox(sandbox.link_path));
  serve_link(*uses_.links, sandbox);
  request.link_path = sandbox.link_path;
  return {};
}

std::function<void(Bytes)> on_wanted_of(HostedSandbox& sandbox) {
  return [&sandbox](Bytes bytes) { sandbox.observer.on_memory_wanted(sandbox.id, bytes); };
}

void serve_link(DeviceLinks& links, const HostedSandbox& sandbox) {
  std::vector<DeviceId> devices = {sandbox.device};
  devices.insert(devices.end(), sandbox.beside.begin(), sandbox.beside.end());
  const Bytes memory = sandbox.spec.gpu.memory * devices.size();
  links.serve(sandbox.id, devices, memory * 2 + kLeaseSlack,
              OwnedFd(fcntl(sandbox.link_listener.get(), F_DUPFD_CLOEXEC, 0)));
}

Result<void> SandboxHost::connect_runtime(Sandbox& sandbox, SandboxRequest& request) {
  if (uses_.runtimes == nullptr) {
    return Error{ErrorCode::kUnimplemented, "this worker has no shared GPU runtimes"};
  }
  OwnedFd ledger(open(request.ledger_path.c_str(), O_RDWR | O_CLOEXEC));
  if (!ledger.valid()) return error_from_errno("open " + request.ledger_path, errno);
  request.runtime_path = run_folder_ + "/runtime-" + std::to_string(sandbox.id.value);
  ASSIGN_OR_RETURN(OwnedFd listener, listen_to_sandbox(request.runtime_path));
  sandbox.runtime_path = request.runtime_path;
  uses_.runtimes->add_client(sandbox.id, sandbox.spec, sandbox.device, std::move(listener),
                             std::move(ledger),
                             [this, id = sandbox.id](const Error& error, const std::string& type) {
                               stop(id, error, type);
                             });
  return {};
}

Result<std::string> SandboxHost::make_ledger(Sandbox& sandbox, Bytes limit) {
  const std::string path = run_folder_ + "/ledger-" + std::to_string(sandbox.id.value);
  ASSIGN_OR_RETURN(ledger::LedgerReader ledger, create_open_ledger(path, limit));
  sandbox.ledger.emplace(std::move(ledger));
  sandbox.ledger_path = path;
  return path;
}

void SandboxHost::started(SandboxId id, Result<sandbox::Started> result) {
  const auto found = sandboxes_.find(id);
  if (found == sandboxes_.end()) return;
  Sandbox& sandbox = *found->second;
  if (!result.ok()) {
    const bool users_fault = result.error().code == ErrorCode::kNotFound ||
                             result.error().code == ErrorCode::kPermissionDenied;
    Error error = result.error();
    if (sandbox.end_words) error = sandbox.end_words->error;
    finish(id, error, users_fault ? "Runtime.InvalidEntrypoint" : "Sandbox.Failure", Bytes(0));
    return;
  }
  sandbox.pid = result->pid;
  sandbox.executed = true;
  sandbox.executed_at = loop_.clock().now();
  sandbox.output = std::move(result->output);
  sandbox.host_memory = std::move(result->memory);
  hear(sandbox, std::move(result->refusals));
  if (sandbox.spec.kind == FunctionKind::kHttp) return open_relay(sandbox);
  sandbox.session =
      std::make_unique<runtime_api::Session>(loop_, std::move(result->runtime_api_listener),
                                             session_options(sandbox), session_callbacks(sandbox));
}

// What it prints and what it is refused.
void SandboxHost::hear(Sandbox& sandbox, OwnedFd refusals) {
  if (sandbox.output.valid()) {
    sandbox.output_watch =
        loop_.watch(sandbox.output.get(), true, false,
                    [this, &sandbox](loop::Readiness) { read_output(sandbox, kOutputPerTurn); });
  }
  if (!refusals.valid()) return;
  sandbox.refusals = std::make_unique<network::RefusalReader>(
      loop_, std::move(refusals),
      [this, &sandbox](const network::Refusal& each) { refused(sandbox, each); });
}

void SandboxHost::open_relay(Sandbox& sandbox) {
  http_relay::Callbacks callbacks;
  callbacks.on_warm = [this, &sandbox](int status, Duration took) {
    const std::string answer = "status " + std::to_string(status);
    warmed_up(sandbox, status >= 200 && status < 400, took,
              status == 0 ? "the program gave no answer" : answer);
  };
  callbacks.on_ready = [this, &sandbox] { ready(sandbox); };
  callbacks.on_end = [this, &sandbox](InvocationId id, const http_relay::PassageEnd& how) {
    std::string json =
        how.succeeded ? std::string() : runtime_api::error_json(how.error_type, how.message);
    answered(sandbox, id, how.succeeded, std::move(json), how.error_type);
  };
  sandbox.relay = std::make_unique<http_relay::Session>(
      loop_,
      [this, id = sandbox.id](unsigned count, auto then) {
        launcher_.sockets(id, count, std::move(then));
      },
      http_relay::SessionOptions{.port = static_cast<uint16_t>(sandbox.spec.http.port),
                                 .readiness = sandbox.spec.http.readiness,
                                 .warm_up = sandbox.spec.warm_up,
                                 .concurrency = sandbox.spec.http.concurrency,
                                 .ready = sandbox.initialised},
      std::move(callbacks));
}

runtime_api::Callbacks SandboxHost::session_callbacks(Sandbox& sandbox) {
  runtime_api::Callbacks callbacks;
  callbacks.on_ready = [this, &sandbox] { ready(sandbox); };
  callbacks.on_response = [this, &sandbox](InvocationId id, std::string body, std::string) {
    answered(sandbox, id, true, std::move(body), "");
  };
  callbacks.on_error = [this, &sandbox](InvocationId id, std::string json, std::string type) {
    answered(sandbox, id, false, std::move(json), std::move(type));
  };
  callbacks.sink_of = uses_.sink_of;
  callbacks.on_init_error = [this, &sandbox](std::string json, std::string type) {
    init_failed(sandbox, std::move(json), std::move(type));
  };
  callbacks.on_stuck = [this, &sandbox] { stuck(sandbox); };
  if (uses_.on_object) {
    callbacks.on_object = [this, tenant = sandbox.spec.name.tenant](http::Request request,
                                                                    std::string_view path,
                                                                    http::Responder responder) {
      uses_.on_object(tenant, std::move(request), path, std::move(responder));
    };
  }
  return callbacks;
}

runtime_api::SessionOptions session_options(const HostedSandbox& sandbox) {
  return {.function_name = sandbox.spec.name.name,
          .handler = sandbox.spec.handler,
          .max_response = sandbox.most_response,
          .most_running = sandbox.most_in_flight};
}

void SandboxHost::ready(Sandbox& sandbox) {
  if (sandbox.kept_later) return keeping_.look_again(sandbox.id);
  if (sandbox.end_words || sandbox.initialised) return;
  const bool wants_event = sandbox.session != nullptr && !sandbox.spec.warm_up.empty();
  if (wants_event && sandbox.warm_up == Sandbox::WarmUp::kNone) return warm_up(sandbox);
  if (sandbox.warm_up == Sandbox::WarmUp::kRuns) return;
  sandbox.initialised = true;
  launcher_.ready(sandbox.id);
  sandbox.sandbox_time = sandbox.executed_at - sandbox.requested_at;
  sandbox.init_time = loop_.clock().now() - sandbox.executed_at;
  sandbox.observer.on_ready(sandbox.id, sandbox.sandbox_time, sandbox.init_time);
}

void SandboxHost::warm_up(Sandbox& sandbox) {
  sandbox.warm_up = Sandbox::WarmUp::kRuns;
  sandbox.warm_up_began = loop_.clock().now();
  runtime_api::RuntimeInvocation invocation;
  invocation.id = warm_up_id(sandbox.id);
  invocation.deadline =
      std::chrono::duration_cast<milliseconds>(loop_.clock().wall_now() + sandbox.spec.timeout);
  invocation.payload = sandbox.spec.warm_up;
  invocation.function_arn = function_arn(sandbox.spec.name);
  sandbox.session->give(std::move(invocation));
}

// Its failure keeps nothing from being served: an invocation does what it needs by itself.
void SandboxHost::warmed_up(Sandbox& sandbox, bool succeeded, Duration took,
                            const std::string& why) {
  if (sandbox.end_words) return;
  sandbox.warm_up = Sandbox::WarmUp::kDone;
  read_output(sandbox, kOutputAtEnd);
  print_of(sandbox, sandbox.idle_tail,
           succeeded ? "WARM-UP Duration: " + in_milliseconds(took) + " ms\n"
                     : "WARM-UP failed: " + why + "\tDuration: " + in_milliseconds(took) + " ms\n");
  if (!succeeded) {
    log_.info("warm_up_failed", {{"sandbox", static_cast<int64_t>(sandbox.id.value)},
                                 {"tenant", int64_t{sandbox.spec.name.tenant.value}},
                                 {"function", sandbox.spec.name.name},
                                 {"error", why}});
  }
  sandbox.observer.on_warm_up(sandbox.spec.name, succeeded, took);
}

void SandboxHost::deliver(SandboxId id, InvocationRequest& request, Duration timeout) {
  const auto found = sandboxes_.find(id);
  if (found == sandboxes_.end()) return;  // its end is on the way to the worker
  Sandbox& sandbox = *found->second;
  if (sandbox.end_words) {
    sandbox.too_late.emplace_back(request.id, std::move(request.payload));
    return;
  }
  if (sandbox.in_flight.empty()) {
    sandbox.idle_tail.clear();
    // The first one pays for the start.
    const bool begins_anew = !sandbox.relay || std::exchange(sandbox.peak_is_read, false);
    if (sandbox.invocations > 0 && begins_anew) sandbox.host_memory.reset();
    if (sandbox.ledger) (void)sandbox.ledger->reset_peak();
    for (ledger::LedgerReader& other : sandbox.ledgers_beside) (void)other.reset_peak();
  }
  Sandbox::InFlight& given = sandbox.in_flight.emplace_back();
  given.id = request.id;
  given.given_at = loop_.clock().now();
  print_of(sandbox, given.tail,
           "START RequestId: " + to_string(given.id) +
               " Version: " + version_of(sandbox.spec.name) + "\n");
  hand_over(sandbox, request, timeout);
}

void SandboxHost::hand_over(Sandbox& sandbox, InvocationRequest& request, Duration timeout) {
  if (sandbox.relay) {
    auto relayed = uses_.relayed ? uses_.relayed(request.id) : nullptr;
    if (relayed != nullptr) return sandbox.relay->give(request.id, std::move(relayed));
    // Its client has gone meanwhile.
    loop_.call_after(Duration(0), [this, sandbox_id = sandbox.id, id = request.id] {
      const auto found = sandboxes_.find(sandbox_id);
      if (found != sandboxes_.end()) answered(*found->second, id, true, "", "");
    });
    return;
  }
  runtime_api::RuntimeInvocation invocation;
  invocation.id = request.id;
  invocation.deadline =
      std::chrono::duration_cast<milliseconds>(loop_.clock().wall_now() + timeout);
  if (sandbox.memory_is_away) invocation.timeout_with_memory = timeout;
  invocation.payload = std::move(request.payload);
  invocation.content_type = request.content_type;
  invocation.trace_id = request.trace_id;
  invocation.client_context = request.client_context;
  invocation.function_arn = function_arn(sandbox.spec.name);
  sandbox.session->give(std::move(invocation));
}

// A program that listens may answer within microseconds, and the kernel's files cost some: of what
// ends within kPeakPeriod of a reading, that says the peak, and the next one what came since.
Bytes SandboxHost::host_memory_peak(Sandbox& sandbox) {
  const Instant now = loop_.clock().now();
  if (sandbox.relay && sandbox.invocations > 1 && now - sandbox.peak_read_at < kPeakPeriod) {
    return sandbox.host_memory_peak;
  }
  sandbox.peak_read_at = now;
  sandbox.peak_is_read = true;
  sandbox.host_memory_peak = sandbox.host_memory.peak();
  return sandbox.host_memory_peak;
}

void SandboxHost::answered(Sandbox& sandbox, InvocationId invocation, bool succeeded,
                           std::string payload, std::string error_type) {
  // What comes after the time-out is too late.
  if (sandbox.end_words) return;
  // The runtime asks for work next, and is ready then.
  if (sandbox.warm_up == Sandbox::WarmUp::kRuns && invocation == warm_up_id(sandbox.id)) {
    return warmed_up(sandbox, succeeded, loop_.clock().now() - sandbox.warm_up_began, error_type);
  }
  const auto found = sandbox.find(invocation);
  if (found == sandbox.in_flight.end()) return;
  HandlerAnswer answer;
  answer.invocation = invocation;
  answer.succeeded = succeeded;
  answer.payload = std::move(payload);
  answer.error_type = std::move(error_type);
  answer.execution = loop_.clock().now() - found->given_at;
  ++sandbox.invocations;
  read_output(sandbox, kOutputAtEnd);
  read_ledger(sandbox);
  answer.host_memory_peak = host_memory_peak(sandbox);
  const std::string text_id = to_string(answer.invocation);
  print_of(sandbox, found->tail,
           end_lines(text_id, answer.execution, sandbox.spec.memory, answer.host_memory_peak));
  LogTail tail = std::move(found->tail);
  sandbox.in_flight.erase(found);
  answer.device_memory_now = sandbox.device_memory;
  answer.device_memory_peak = sandbox.device_memory_peak;
  if (sandbox.context_error != 0) replace_broken(sandbox, tail);
  answer.log_tail = tail.text();
  if (sandbox.in_flight.empty()) sandbox.idle_tail = std::move(tail);
  sandbox.observer.on_answer(sandbox.id, std::move(answer));
}

// Nothing that its process asks of the device would succeed any more. What it is given before its
// end is known starts again in another one.
void SandboxHost::replace_broken(Sandbox& sandbox, LogTail& tail) {
  sandbox.replaced = true;
  const std::string code = std::to_string(sandbox.context_error);
  log_.info("cuda_context_broken", {{"sandbox", static_cast<int64_t>(sandbox.id.value)},
                                    {"function", sandbox.spec.name.name},
                                    {"cuda_error", static_cast<int64_t>(sandbox.context_error)}});
  const std::string line = "The CUDA context of this process is broken (CUDA error " + code +
                           "); the next invocation gets a new process.\n";
  print_of(sandbox, tail, line);
  stop(sandbox.id, {ErrorCode::kInternal, "its CUDA context is broken (CUDA error " + code + ")"},
       "Sandbox.Stopped");
}

void SandboxHost::init_failed(Sandbox& sandbox, std::string json, std::string type) {
  if (sandbox.end_words) return;
  sandbox.end_payload = std::move(json);
  sandbox.end_words = EndWords{
      {ErrorCode::kFailedPrecondition, "the runtime could not load the function"}, std::move(type)};
  launcher_.kill(sandbox.id);
}

// Without words of ours for its end: what it was given and never took starts again in another one.
void SandboxHost::stuck(Sandbox& sandbox) {
  if (sandbox.end_words) return;
  log_.info("runtime_stuck", {{"sandbox", static_cast<int64_t>(sandbox.id.value)},
                              {"function", sandbox.spec.name.name}});
  const std::string line =
      "The runtime did not ask for work after its answer was refused; the next invocation gets a "
      "new "
      "process.\n";
  print_of(sandbox, sandbox.idle_tail, line);
  launcher_.kill(sandbox.id);
}

void SandboxHost::move_memory_out(SandboxId id, protocol::MemoryMoveDepth depth) {
  const auto found = sandboxes_.find(id);
  if (found == sandboxes_.end()) return;  // its end is on the way to the worker
  if (found->second->memory == nullptr) {
    return found->second->observer.on_memory_moved(id, {.out = true, .done = false});
  }
  found->second->memory_is_away = true;
  found->second->memory->move_out(depth);
}

void SandboxHost::move_memory_in(SandboxId id) {
  const auto found = sandboxes_.find(id);
  if (found == sandboxes_.end()) return;
  if (found->second->memory == nullptr) {
    return found->second->observer.on_memory_moved(id, {.out = false});
  }
  found->second->memory->move_in();
}

void SandboxHost::grant_memory(SandboxId id, Bytes bytes) {
  const auto found = sandboxes_.find(id);
  if (found != sandboxes_.end() && found->second->memory != nullptr) {
    found->second->memory->grant(bytes);
  }
}

std::function<void(MemoryMove)> SandboxHost::on_moved_of(Sandbox& sandbox) {
  return [this, &sandbox](const MemoryMove& move) {
    if (move.broken) {
      return stop(
          sandbox.id,
          {ErrorCode::kInternal, "the driver failed while the function's device memory was moved"},
          "Sandbox.Failure");
    }
    // What could not go deeper stays as far out as it was.
    const bool came = move.out ? !move.done && !move.deep : move.done;
    if (came) memory_came(sandbox);
    sandbox.observer.on_memory_moved(sandbox.id, move);
    if (sandbox.kept_later) keeping_.look_again(sandbox.id);
  };
}

void SandboxHost::stop(SandboxId id, Error error, std::string error_type) {
  const auto found = sandboxes_.find(id);
  if (found == sandboxes_.end()) return;
  Sandbox& sandbox = *found->second;
  if (!sandbox.end_words) sandbox.end_words = EndWords{std::move(error), std::move(error_type)};
  launcher_.kill(id);
}

void SandboxHost::end(SandboxId id, Duration grace, Error error, std::string error_type) {
  const auto found = sandboxes_.find(id);
  if (found == sandboxes_.end()) return;
  Sandbox& sandbox = *found->second;
  const bool may_stay =
      uses_.hand_over != nullptr && uses_.hand_over->begun() && !sandbox.cannot_be_kept;
  const EndWords words{std::move(error), std::move(error_type)};
  if (may_stay && keeping_.keep(sandbox, grace, words)) return;
  const bool can_be_asked = sandbox.relay != nullptr && !sandbox.end_words;
  if (!can_be_asked || grace == Duration::zero()) return stop(id, words.error, words.type);
  sandbox.end_words = words;
  // Servers wait for their open connections before they end.
  sandbox.relay.reset();
  launcher_.terminate(id);
  sandbox.grace = loop_.call_after(grace, [this, id] { launcher_.kill(id); });
}

bool SandboxHost::exited(SandboxId id, const sandbox::Exit& exit) {
  const auto found = sandboxes_.find(id);
  if (found == sandboxes_.end()) return false;
  Sandbox& sandbox = *found->second;
  read_output(sandbox, kOutputAtEnd);
  read_ledger(sandbox);
  EndWords words = sandbox.end_words
                       ? *sandbox.end_words
                       : words_for(exit, sandbox.initialised,
                                   sandbox.warm_up == Sandbox::WarmUp::kRuns, sandbox.spec);
  if (exit.launcher_ended && !sandbox.initialised && !sandbox.end_words) {
    sandbox.start_was_lost = true;
    words = {{ErrorCode::kUnavailable, "lambent-launcher ended while the sandbox started"},
             "Sandbox.Failure"};
  }
  sandbox.ended_by_itself = !sandbox.end_words && !exit.killed && !exit.launcher_ended &&
                            (exit.out_of_memory || exit.signal != SIGKILL);
  log_.debug("sandbox_exited", {{"sandbox", static_cast<int64_t>(id.value)},
                                {"function", sandbox.spec.name.name},
                                {"how", sandbox::to_string(exit)}});
  finish(id, std::move(words.error), std::move(words.type), exit.memory_peak);
  return true;
}

void SandboxHost::finish(SandboxId id, Error error, std::string error_type,
                         Bytes host_memory_peak) {
  const auto found = sandboxes_.find(id);
  if (found == sandboxes_.end()) return;
  const std::unique_ptr<Sandbox> sandbox = std::move(found->second);
  sandboxes_.erase(found);
  loop_.cancel(sandbox->grace);
  if (sandbox->refusals) sandbox->refusals->read_more();
  for (const std::string* path : {&sandbox->ledger_path, &sandbox->memory_path, &sandbox->link_path,
                                  &sandbox->runtime_path}) {
    if (!path->empty()) unlink(path->c_str());
  }
  for (const std::string& path : sandbox->ledger_paths_beside) unlink(path.c_str());
  // What a kept one has leased holds its memory until it has moved in.
  if (sandbox->link_listener.valid()) uses_.links->forget(id);
  if (!sandbox->runtime_path.empty()) uses_.runtimes->remove_client(id);

  SandboxEnd end;
  std::deque<runtime_api::RuntimeInvocation> unseen;
  if (sandbox->session) unseen = sandbox->session->take_undelivered();
  std::erase_if(unseen, [id](const auto& each) { return each.id == warm_up_id(id); });
  for (const runtime_api::RuntimeInvocation& each : unseen) end.unseen.push_back(each.id);
  if (sandbox->relay && !sandbox->end_words) {
    for (const InvocationId each : sandbox->relay->take_unseen()) {
      end.unseen.push_back(each);
      end.undelivered = true;
      end.invocation = each;
    }
  }
  for (const auto& each : sandbox->too_late) end.unseen.push_back(each.first);
  if (!sandbox->too_late.empty()) {
    end.undelivered = true;
    std::tie(end.invocation, end.returned_payload) = std::move(sandbox->too_late.front());
  } else if (!unseen.empty() && !sandbox->end_words) {
    // Not if we stopped it: then the invocation has its outcome already.
    end.undelivered = true;
    end.invocation = unseen.front().id;
    end.returned_payload = std::move(unseen.front().payload);
  }
  if (sandbox->start_was_lost) end.undelivered = true;
  tell_each(*sandbox, end);
  end.context_is_broken = sandbox->replaced;
  end.by_itself = sandbox->ended_by_itself;
  end.sandbox = id;
  end.init = sandbox->unfinished_init(loop_.clock().now());
  end.error = std::move(error);
  end.error_type = std::move(error_type);
  if (!sandbox->end_payload.empty()) {
    end.payload = std::move(sandbox->end_payload);
  } else {
    std::string message = end.error.message;
    if (!sandbox->in_flight.empty()) {
      message = "RequestId: " + to_string(sandbox->in_flight.front().id) + " " + message;
    } else if (!sandbox->too_late.empty()) {
      message = "RequestId: " + to_string(sandbox->too_late.front().first) + " " + message;
    }
    end.payload = runtime_api::error_json(end.error_type, message);
  }
  for (Sandbox::InFlight& each : sandbox->in_flight) {
    print_of(*sandbox, each.tail, "END RequestId: " + to_string(each.id) + "\n");
    if (&each == &sandbox->in_flight.front()) continue;
    const std::string message = "RequestId: " + to_string(each.id) + " " + end.error.message;
    end.others.push_back(
        {each.id, runtime_api::error_json(end.error_type, message), each.tail.text()});
  }
  end.host_memory_peak = host_memory_peak;
  end.device_memory_peak = sandbox->device_memory_peak;
  end.log_tail = sandbox->next_tail().text();
  sandbox->observer.on_end(std::move(end));
}

void SandboxHost::abandon(SandboxId id, InvocationId invocation) {
  const auto found = sandboxes_.find(id);
  if (found == sandboxes_.end()) return;
  Sandbox& sandbox = *found->second;
  if (sandbox.relay) {
    sandbox.relay->abandon(invocation);
  } else if (sandbox.session) {
    sandbox.session->abandon(invocation);
  }
  const auto over = sandbox.find(invocation);
  if (over == sandbox.in_flight.end()) return;
  ++sandbox.invocations;
  print_of(sandbox, over->tail,
           end_lines(to_string(invocation), loop_.clock().now() - over->given_at,
                     sandbox.spec.memory, Bytes()));
  LogTail tail = std::move(over->tail);
  sandbox.in_flight.erase(over);
  if (sandbox.in_flight.empty()) sandbox.idle_tail = std::move(tail);
}

void SandboxHost::read_output(Sandbox& sandbox, size_t most) {
  char buffer[kOutputPerTurn];
  for (size_t total = 0; total < most && sandbox.output.valid();) {
    const ssize_t got = read(sandbox.output.get(), buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return;  // nothing more for now
    if (got == 0) {
      sandbox.output_watch.reset();
      sandbox.output.reset();
      return;
    }
    total += static_cast<size_t>(got);
    print(sandbox, std::string_view(buffer, static_cast<size_t>(got)));
  }
}

void SandboxHost::print(Sandbox& sandbox, std::string_view text) {
  if (sandbox.in_flight.empty()) sandbox.idle_tail.append(text);
  for (Sandbox::InFlight& each : sandbox.in_flight) each.tail.append(text);
  sandbox.observer.on_output(sandbox.spec.id, text);
}

void SandboxHost::refused(Sandbox& sandbox, const network::Refusal& refusal) {
  print(sandbox,
        "[network] refused " + refusal.destination + ": " + refusal.why +
            (refusal.times > 1 ? ", " + std::to_string(refusal.times) + " times\n" : "\n"));
  if (uses_.on_network_refused) uses_.on_network_refused(sandbox.spec.name, refusal.times);
}

void SandboxHost::read_ledger(Sandbox& sandbox) {
  if (!sandbox.ledger) return;
  const auto readings = sandbox.ledger->read();
  if (!readings.ok()) return;
  sandbox.device_memory = readings->used;
  sandbox.device_memory_peak = readings->peak;
  sandbox.context_error = readings->context_error;
  // Of all its devices together.
  for (ledger::LedgerReader& other : sandbox.ledgers_beside) {
    const auto beside = other.read();
    if (!beside.ok()) continue;
    sandbox.device_memory += beside->used;
    sandbox.device_memory_peak += beside->peak;
  }
}

bool SandboxHost::has_gpu_sandboxes_of_others(TenantId tenant) const {
  return std::ranges::any_of(sandboxes_, [tenant](const auto& entry) {
    const FunctionSpec& spec = entry.second->spec;
    return spec.gpu.memory > Bytes(0) && spec.name.tenant != tenant;
  });
}

RunReport SandboxHost::partial_report(SandboxId id, InvocationId invocation) {
  const auto found = sandboxes_.find(id);
  if (found == sandboxes_.end()) return {};
  Sandbox& sandbox = *found->second;
  read_output(sandbox, kOutputAtEnd);
  read_ledger(sandbox);
  RunReport report;
  report.device_memory_peak = sandbox.device_memory_peak;
  report.host_memory_peak = sandbox.host_memory.peak();
  report.init = sandbox.unfinished_init(loop_.clock().now());
  const auto run = sandbox.find(invocation);
  report.log_tail = run != sandbox.in_flight.end() ? run->tail.text() : sandbox.next_tail().text();
  if (sandbox.relay && !sandbox.initialised) {
    report.why_not_ready = why_not_ready(sandbox.spec.http, listening_places_of(sandbox.pid));
  }
  return report;
}

std::vector<SandboxStatus> SandboxHost::status(Metering metering,
                                               std::optional<TenantId> tenant) const {
  std::vector<SandboxStatus> all;
  for (const auto& [id, sandbox] : sandboxes_) {
    if (tenant && sandbox->spec.name.tenant != *tenant) continue;
    SandboxStatus status;
    status.id = id;
    status.function = sandbox->spec.name;
    status.state = sandbox->end_words            ? "stopping"
                   : !sandbox->initialised       ? "starting"
                   : !sandbox->in_flight.empty() ? "busy"
                                                 : "idle";
    status.pid = sandbox->pid;
    status.device = sandbox->device;
    status.beside = sandbox->beside;
    status.age = loop_.clock().now() - sandbox->requested_at;
    status.invocations = sandbox->invocations;
    status.in_flight = sandbox->in_flight.size();
    status.device_memory = sandbox->device_memory;
    if (metering == Metering::kMemory) status.host_memory = sandbox->host_memory.now();
    all.push_back(std::move(status));
  }
  return all;
}

}  // namespace lambent::worker
