#include "core/domain/function.h"

#include <algorithm>
#include <cctype>

#include "core/base/json_survey.h"
#include "core/domain/async_limits.h"
#include "core/domain/command_line.h"
#include "core/domain/cors.h"
#include "core/domain/function_limits.h"
#include "core/domain/function_words.h"
#include "core/domain/limits.h"
#include "core/domain/model_function.h"
#include "core/domain/sandbox_concurrency.h"
#include "core/domain/secret.h"

namespace lambent {
namespace {

Error invalid(const std::string& what) { return Error{ErrorCode::kInvalidArgument, what}; }

bool is_name_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_';
}

bool is_variable_name(std::string_view name) {
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name.front())) != 0) return false;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_') return false;
  }
  return true;
}

Result<void> validate_name(const std::string& name) {
  if (name.empty() || name.size() > limits::kFunctionNameLength) {
    return invalid("the function name must have 1 to " +
                   std::to_string(limits::kFunctionNameLength) + " characters");
  }
  for (const char c : name) {
    if (!is_name_character(c)) {
      return invalid("the function name may have only letters, digits, '-' and '_'");
    }
  }
  return {};
}

Result<void> validate_environment(const std::map<std::string, std::string>& environment) {
  size_t bytes = 0;
  for (const auto& [key, value] : environment) {
    if (!is_variable_name(key)) return invalid("'" + key + "' is not a name of a variable");
    if (value.find('\0') != std::string::npos) {
      return invalid("the value of variable '" + key + "' has a NUL character");
    }
    bytes += key.size() + value.size();
  }
  if (bytes > limits::kEnvironment.count) {
    return invalid("the environment variables have " + std::to_string(bytes) + " bytes; at most " +
                   std::to_string(limits::kEnvironment.count) + " fit");
  }
  const auto secrets = secret_names(environment);
  if (!secrets.ok()) return secrets.error();
  return {};
}

// What takes several GPUs together.
Result<void> validate_gang(const FunctionSpec& spec) {
  const GpuNeeds& gpu = spec.gpu;
  if (gpu.count == 0 || gpu.count > kMostGpusOfFunction) {
    return invalid("gpu.count must be 1 to " + std::to_string(kMostGpusOfFunction));
  }
  if (gpu.count == 1) return {};
  const std::string count = "gpu.count is " + std::to_string(gpu.count);
  if (spec.kind != FunctionKind::kHandler && spec.kind != FunctionKind::kHttp) {
    return invalid(count + ", but only handlers and http functions take several GPUs; a " +
                   std::string(name_of(spec.kind)) + " function needs gpu.count = 1");
  }
  if (gpu.memory == Bytes(0)) {
    return invalid(count + ", but gpu.memory is not given: say how much it takes of each GPU");
  }
  if (gpu.runtime == GpuRuntime::kShared) {
    return invalid(count +
                   ", but a shared GPU runtime has one GPU: set gpu.runtime to 'own', or gpu.count "
                   "to 1");
  }
  if (spec.cpu_variant) {
    return invalid(count +
                   ", but a function with a CPU variant takes one GPU: remove the CPU variant, or "
                   "set gpu.count to 1");
  }
  if (serves_model(spec)) {
    return invalid(count + ", but a model is served on one GPU: set gpu.count to 1");
  }
  if (gpu.checkpoint || gpu.working_set == WorkingSet::kTouched) {
    return invalid(count +
                   ", but memory on several GPUs stays where it is: remove checkpoint and "
                   "working_set");
  }
  return {};
}

Result<void> validate_gpu(const GpuNeeds& gpu) {
  if (gpu.checkpoint && gpu.memory_mode != MemoryMode::kVmm) {
    return invalid(
        "checkpoint needs memory_mode vmm: the driver cannot checkpoint managed memory, and memory "
        "that stays needs none");
  }
  if (gpu.checkpoint && gpu.runtime == GpuRuntime::kShared) {
    return invalid("checkpoint needs a CUDA context of the function's own, not a shared runtime");
  }
  const bool is_mapped = gpu.memory_mode == MemoryMode::kVmm && gpu.runtime == GpuRuntime::kOwn;
  if (gpu.working_set == WorkingSet::kTouched && !is_mapped) {
    return invalid(
        "working_set touched needs memory_mode vmm and a CUDA context of the function's own");
  }
  if (gpu.domain.size() > limits::kFunctionNameLength ||
      !std::all_of(gpu.domain.begin(), gpu.domain.end(), is_name_character)) {
    return invalid("the gpu domain may have only letters, digits, '-' and '_', at most " +
                   std::to_string(limits::kFunctionNameLength));
  }
  if (gpu.share == 0 || gpu.share > 100) {
    return invalid("the gpu share must be 1 to 100 per cent");
  }
  return {};
}

// Bytes below the blank would end or forge what shows the handler or hands it on.
bool has_control_characters(const std::string& text) {
  return std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 127; });
}

bool is_python_handler(const std::string& handler) {
  const size_t dot = handler.rfind('.');
  return dot != std::string::npos && dot > 0 && dot + 1 < handler.size();
}

Result<void> validate_cpu_variant(const FunctionSpec& spec) {
  const CpuVariant& variant = *spec.cpu_variant;
  if (spec.kind != FunctionKind::kHandler) {
    return invalid("only a handler can have a CPU variant; this is a " +
                   std::string(name_of(spec.kind)) + " function");
  }
  if (spec.gpu.memory == Bytes(0)) {
    return invalid("a function without GPU runs on the CPU anyway: it can have no CPU variant");
  }
  if (spec.gpu.runtime == GpuRuntime::kShared) {
    return invalid("a function with the gpu runtime 'shared' can have no CPU variant");
  }
  if (!(variant.gpu_speedup >= 0 && variant.gpu_speedup <= limits::kMostGpuSpeedup)) {
    return invalid("the gpu_speedup must be above 0 and at most 1000000, or 0 to have it learnt");
  }
  if (variant.handler.empty()) return {};
  if (has_control_characters(variant.handler)) {
    return invalid("the handler of the CPU variant may have no control characters");
  }
  if (spec.runtime == Runtime::kPython && !is_python_handler(variant.handler)) {
    return invalid("the handler of a Python function is written module.function, not '" +
                   variant.handler + "'");
  }
  return {};
}

// Of what sandboxes see beside their code.
Result<void> validate_places(const FunctionSpec& spec) {
  for (const auto& [name, size] : {std::pair<const char*, Bytes>{"scratch", spec.scratch},
                                   {"shared_memory", spec.shared_memory}}) {
    if (size < limits::kLeastScratch || size > limits::kMostMemory) {
      return invalid(std::string(name) + " must be " + to_string(limits::kLeastScratch) + " to " +
                     to_string(limits::kMostMemory) + ", not " + to_string(size));
    }
  }
  const bool has_sandboxes =
      spec.kind != FunctionKind::kKernel && spec.kind != FunctionKind::kWorkflow;
  if (spec.cpus != 0 && !(spec.cpus >= limits::kLeastCpus && spec.cpus <= limits::kMostCpus)) {
    return invalid("cpus must be 0.05 to 1024 processors, or 0 for no quota");
  }
  if (spec.cpus != 0 && !has_sandboxes) {
    return invalid("a function of kind '" + std::string(name_of(spec.kind)) +
                   "' has no sandbox, so it can have no cpus");
  }
  if (!spec.mounts.empty() && spec.kind == FunctionKind::kWorkflow) {
    return invalid("a function of kind 'workflow' has no sandbox, so it can have no mounts");
  }
  // The worker opens these files itself: links in a folder of the host could lead out of it.
  const bool has_host_folder =
      std::ranges::any_of(spec.mounts, [](const Mount& mount) { return mount.volume.empty(); });
  if (has_host_folder && spec.kind == FunctionKind::kKernel) {
    return invalid("a function of kind 'kernel' mounts volumes only, and no folder of the host");
  }
  if (!spec.network.is_none() && !has_sandboxes) {
    return invalid("a function of kind '" + std::string(name_of(spec.kind)) +
                   "' has no sandbox, so it can have no network");
  }
  RETURN_IF_ERROR(validate(spec.network));
  return validate(spec.mounts);
}

bool is_request_path(const std::string& path) {
  return path.starts_with('/') && path.size() <= limits::kReadinessPathLength &&
         std::all_of(path.begin(), path.end(), [](unsigned char c) { return c > ' ' && c < 127; });
}

// What a function without sandboxes that dispatch starts cannot have.
Error no_sandboxes(const FunctionSpec& spec, const std::string& setting) {
  return invalid(setting + " is for functions whose sandboxes the scheduler starts: " +
                 (spec.kind == FunctionKind::kPipeline
                      ? "the SLO of a pipeline says how much of it there is to be"
                      : "a " + std::string(name_of(spec.kind)) +
                            " has none; give it to the functions that it calls"));
}

Result<void> validate_slo(const FunctionSpec& spec) {
  if (spec.slo_ms > limits::kMostSloMilliseconds) {
    return invalid("slo_ms must be at most 86400000, or 0 (no SLO)");
  }
  if (spec.slo_ms > 0 && spec.kind == FunctionKind::kPipeline) {
    return invalid("the SLO of a pipeline is in its description: its class or [slo] has it");
  }
  return {};
}

Result<void> validate_instances(const FunctionSpec& spec) {
  const double rest = spec.keep_alive_s;
  if (rest != -1 && !(rest >= 0 && rest <= limits::kMostKeepAliveSeconds)) {
    return invalid("keep_alive_s must be 0 (end at once) to 86400, or -1 (as the worker says)");
  }
  const bool has_sandboxes =
      spec.kind != FunctionKind::kPipeline && spec.kind != FunctionKind::kWorkflow;
  if (spec.keep_alive_s != -1 && !has_sandboxes) return no_sandboxes(spec, "keep_alive_s");
  if (spec.min_instances == 0) return {};
  if (!has_sandboxes) return no_sandboxes(spec, "min_instances");
  if (spec.min_instances > limits::kMostInstances) {
    return invalid("min_instances must be 0 to " + std::to_string(limits::kMostInstances));
  }
  if (spec.min_instances > spec.max_concurrency) {
    return invalid("min_instances is " + std::to_string(spec.min_instances) +
                   ", but max_concurrency lets only " + std::to_string(spec.max_concurrency) +
                   " work at once");
  }
  return {};
}

Result<void> validate_warm_up(const FunctionSpec& spec) {
  if (spec.kind == FunctionKind::kHttp) {
    if (is_request_path(spec.warm_up)) return {};
    return invalid("warm_up of an http function is a path of the program, such as /warm, not '" +
                   spec.warm_up + "'");
  }
  if (spec.kind != FunctionKind::kHandler) {
    return invalid("a " + std::string(name_of(spec.kind)) +
                   " function has no warm_up: nothing of it runs before its first request");
  }
  const JsonSurvey survey{.subject = "warm_up", .most_depth = limits::kJsonDepth};
  if (spec.warm_up.size() > limits::kWarmUpLength || !survey_json(spec.warm_up, survey).ok()) {
    return invalid("warm_up of a handler is the event that it gets, as JSON of at most " +
                   std::to_string(limits::kWarmUpLength) + " bytes");
  }
  return {};
}

// A kernel function's file is looked for below its package, and nowhere else.
bool is_path_inside(const std::string& path) {
  if (path.empty() || path.front() == '/' || path.find('\0') != std::string::npos) return false;
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    if (path.substr(at, end - at) == "..") return false;
    at = end + 1;
  }
  return true;
}

Result<void> validate_http(const FunctionSpec& spec) {
  if (spec.gpu.runtime == GpuRuntime::kShared) {
    return invalid(
        "an http function has a CUDA context of its own: gpu runtime 'shared' is for "
        "handlers");
  }
  const auto command = command_words(spec.handler);
  if (!command.ok()) return command.error();
  if (command->empty()) {
    return invalid(
        "an http function needs the command that starts its program, such as "
        "command = [\"python3\", \"server.py\"]");
  }
  const unsigned port = spec.http.port;
  if (port == 0 || port > 65535) return invalid("the port must be 1 to 65535");
  if (port == limits::kRuntimeApiPort) {
    return invalid("port " + std::to_string(port) + " is taken inside sandboxes; choose another");
  }
  const unsigned concurrency = spec.http.concurrency;
  if (concurrency == 0 || concurrency > limits::kMostSandboxConcurrency) {
    return invalid("the concurrency (requests in one sandbox at once) must be 1 to " +
                   std::to_string(limits::kMostSandboxConcurrency));
  }
  const std::string& path = spec.http.readiness;
  if (!path.empty() && !is_request_path(path)) {
    return invalid("readiness is a path of the program, such as /healthz, not '" + path + "'");
  }
  return {};
}

// Of a handler: how many of its invocations are in one sandbox at once.
Result<void> validate_handler_concurrency(const FunctionSpec& spec) {
  const unsigned concurrency = spec.http.concurrency;
  if (concurrency == 1) return {};
  if (concurrency == 0 || concurrency > kMostHandlerConcurrency) {
    return invalid(
        "the concurrency (invocations in one sandbox at once) of a handler must be 1 to " +
        std::to_string(kMostHandlerConcurrency));
  }
  if (spec.gpu.runtime == GpuRuntime::kShared || spec.cpu_variant) {
    return invalid(
        "a handler with a CPU variant, or with the gpu runtime 'shared', has one invocation in a "
        "sandbox at a time: its concurrency is 1");
  }
  return {};
}

Result<void> validate_destination(const FunctionSpec& spec, const std::string& key,
                                  const std::string& destination) {
  if (destination.empty()) return {};
  const size_t colon = destination.find(':');
  const std::string name = destination.substr(0, colon);
  const bool has_qualifier = colon != std::string::npos;
  if (const auto named = validate_name(name);
      !named.ok() || (has_qualifier && colon + 1 == destination.size())) {
    return invalid(key + " is the name of a function, such as audit or audit:live, not '" +
                   destination + "'");
  }
  if (name != spec.name.name.substr(0, spec.name.name.find(':'))) return {};
  return invalid(key + " of '" + name +
                 "' is the function itself: it would be invoked without end");
}

Result<void> validate_asynchronous(const FunctionSpec& spec) {
  const AsyncSettings& settings = spec.asynchronous;
  if (settings == AsyncSettings{}) return {};
  if (spec.kind == FunctionKind::kHttp) {
    return invalid(
        "an http function has nothing in [asynchronous], because it is not invoked with an event");
  }
  const double retries = settings.retries;
  if (retries != -1 && retries != 0 && retries != 1 && retries != limits::kMostAsyncRetries) {
    return invalid("asynchronous.retries must be 0, 1 or 2, or -1 (as the worker says)");
  }
  const double age = settings.max_age_s;
  if (age != 0 && !(age >= limits::kLeastEventAgeSeconds && age <= limits::kMostEventAgeSeconds)) {
    return invalid("asynchronous.max_age_s must be 60 to 21600, or 0 (not stated)");
  }
  RETURN_IF_ERROR(validate_destination(spec, "asynchronous.on_success", settings.on_success));
  return validate_destination(spec, "asynchronous.on_failure", settings.on_failure);
}

Result<void> validate_url(const FunctionSpec& spec) {
  const bool takes_requests =
      spec.kind == FunctionKind::kHandler || spec.kind == FunctionKind::kHttp;
  if (spec.url.auth != UrlAuth::kToken && !takes_requests) {
    return invalid("a " + std::string(name_of(spec.kind)) +
                   " function takes no HTTP requests, so that url.auth means nothing");
  }
  if (spec.url.invoke_mode != InvokeMode::kBuffered && spec.kind != FunctionKind::kHandler) {
    return invalid("url.invoke_mode is for handlers; an http function streams as it is");
  }
  if (spec.url.cors.empty()) return {};
  if (!takes_requests) {
    return invalid("a " + std::string(name_of(spec.kind)) +
                   " function takes no HTTP requests, so that url.cors means nothing");
  }
  const auto cors = parse_cors(spec.url.cors);
  if (!cors.ok()) return cors.error();
  return {};
}

}  // namespace

std::string_view name_of(FunctionKind kind) {
  switch (kind) {
    case FunctionKind::kHandler:
      return "handler";
    case FunctionKind::kKernel:
      return "kernel";
    case FunctionKind::kWorkflow:
      return "workflow";
    case FunctionKind::kPipeline:
      return "pipeline";
    case FunctionKind::kHttp:
      break;
  }
  return "http";
}

std::optional<FunctionKind> function_kind_from(std::string_view name) {
  return value_named<FunctionKind>(name);
}

std::string_view name_of(MemoryMode mode) {
  switch (mode) {
    case MemoryMode::kOff:
      return "off";
    case MemoryMode::kVmm:
      return "vmm";
    case MemoryMode::kUvm:
      break;
  }
  return "uvm";
}

std::optional<MemoryMode> memory_mode_from(std::string_view name) {
  return value_named<MemoryMode>(name);
}

std::string_view name_of(UrlAuth auth) { return auth == UrlAuth::kNone ? "none" : "token"; }

std::string_view name_of(InvokeMode mode) {
  return mode == InvokeMode::kStream ? "response_stream" : "buffered";
}

std::string_view name_of(WorkingSet set) {
  switch (set) {
    case WorkingSet::kWorker:
      return "worker";
    case WorkingSet::kWhole:
      return "whole";
    case WorkingSet::kTouched:
      break;
  }
  return "touched";
}

std::optional<WorkingSet> working_set_from(std::string_view name) {
  return value_named<WorkingSet>(name);
}

std::string_view name_of(GpuRuntime runtime) {
  return runtime == GpuRuntime::kOwn ? "own" : "shared";
}

Result<void> validate(const FunctionSpec& spec) {
  RETURN_IF_ERROR(validate_name(spec.name.name));
  RETURN_IF_ERROR(validate_environment(spec.environment));
  if (spec.timeout < limits::kLeastTimeout || spec.timeout > limits::kMostTimeout) {
    return invalid("the timeout must be 1 to 5400 seconds");
  }
  if (spec.memory < limits::kLeastMemory || spec.memory > limits::kMostMemory) {
    return invalid("the memory size must be " + to_string(limits::kLeastMemory) + " to " +
                   to_string(limits::kMostMemory) + ", not " + to_string(spec.memory));
  }
  RETURN_IF_ERROR(validate_places(spec));
  if (!(spec.weight >= limits::kLeastWeight && spec.weight <= limits::kMostWeight)) {
    return invalid("the weight must be 0.01 to 1000");
  }
  if (has_control_characters(spec.handler)) {
    return invalid("the handler may have no control characters");
  }
  RETURN_IF_ERROR(validate_gpu(spec.gpu));
  RETURN_IF_ERROR(validate_gang(spec));
  if (spec.cpu_variant) RETURN_IF_ERROR(validate_cpu_variant(spec));
  const double wait = spec.max_queue_time_s;
  if (wait != -1 && !(wait >= 0 && wait <= limits::kMostQueueTimeSeconds)) {
    return invalid("max_queue_time_s must be 0 (no bound) to 86400, or -1 (as the worker says)");
  }
  if (spec.max_concurrency == 0) return invalid("max_concurrency must be at least 1");
  RETURN_IF_ERROR(validate_slo(spec));
  RETURN_IF_ERROR(validate_instances(spec));
  if (!spec.warm_up.empty()) RETURN_IF_ERROR(validate_warm_up(spec));
  RETURN_IF_ERROR(validate(spec.schedules));
  if (!spec.schedules.empty() && spec.kind == FunctionKind::kHttp) {
    return invalid(
        "an http function has no schedules, because it is not invoked with an event; schedule a "
        "handler that sends it a request");
  }
  RETURN_IF_ERROR(validate_asynchronous(spec));
  RETURN_IF_ERROR(validate_url(spec));
  if (spec.kind == FunctionKind::kHttp) return validate_http(spec);
  if (spec.kind != FunctionKind::kHandler) {
    if (!is_path_inside(spec.handler)) {
      return invalid(
          "the handler of a " + std::string(name_of(spec.kind)) +
          " function is the path of its graph in the package, such as graph.json, not '" +
          spec.handler + "'");
    }
    return {};
  }
  if (spec.runtime == Runtime::kPython && !is_python_handler(spec.handler)) {
    return invalid("the handler of a Python function is written module.function, not '" +
                   spec.handler + "'");
  }
  return validate_handler_concurrency(spec);
}

bool keeps_sandboxes(const FunctionSpec& before, const FunctionSpec& after) {
  FunctionSpec made_from = after;
  made_from.revision = before.revision;
  made_from.last_modified = before.last_modified;
  made_from.weight = before.weight;
  made_from.max_concurrency = before.max_concurrency;
  made_from.max_queue_time_s = before.max_queue_time_s;
  made_from.min_instances = before.min_instances;
  made_from.keep_alive_s = before.keep_alive_s;
  made_from.slo_ms = before.slo_ms;
  made_from.warm_up = before.warm_up;
  made_from.schedules = before.schedules;
  made_from.asynchronous = before.asynchronous;
  made_from.url = before.url;
  // A handler's runtime is told it when it starts.
  if (after.kind != FunctionKind::kHandler) made_from.http.concurrency = before.http.concurrency;
  made_from.tags = before.tags;
  // The executor changes it while the function runs.
  if (after.kind == FunctionKind::kKernel || after.gpu.runtime == GpuRuntime::kShared) {
    made_from.gpu.share = before.gpu.share;
  }
  return made_from == before;
}

}  // namespace lambent
