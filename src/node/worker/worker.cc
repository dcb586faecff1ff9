#include "node/worker/worker.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "core/domain/stopping.h"
#include "node/worker/call_prospects.h"
#include "node/worker/sandbox_adoption.h"

namespace lambent::worker {
namespace {

ExecutorSetting for_starts(ExecutorSetting setting, const dispatch::DispatchOptions& options) {
  setting.init_timeout = options.init_timeout;
  return setting;
}

void count(sandbox::ZygoteEvent event, metrics::WorkerMetrics& metrics) {
  switch (event) {
    case sandbox::ZygoteEvent::kReady:
      return metrics.zygote("ready");
    case sandbox::ZygoteEvent::kFailed:
      return metrics.zygote("failed");
    case sandbox::ZygoteEvent::kRetired:
      return metrics.zygote("retired");
    case sandbox::ZygoteEvent::kForked:
      return metrics.sandbox_forked();
  }
}

std::function<void(const FunctionName&, uint64_t)> network_refusals(
    metrics::WorkerMetrics& metrics) {
  return [&metrics](const FunctionName& function, uint64_t times) {
    metrics.network_refused(function, times);
  };
}

// Beside the sandboxes of which SandboxHost tells: their contexts are the executors'.
void tell_what_ends(const ExecutorHost& executors, LogSink& log) {
  const size_t instances = executors.status(Metering::kNone, std::nullopt).size();
  if (instances == 0) return;
  log.info("kernel_instances_not_kept", {{"instances", static_cast<int64_t>(instances)},
                                         {"why", "executors end with the program"}});
}

// The launcher does not know which sandboxes are executors.
void hear_of(sandbox::Launcher& launcher, SandboxHost& sandboxes, ExecutorHost& executors,
             metrics::WorkerMetrics& metrics) {
  launcher.on_exit([&](SandboxId id, const sandbox::Exit& exit) {
    if (!sandboxes.exited(id, exit)) executors.exited(id, exit);
  });
  launcher.on_zygote([&](auto&, auto event, auto&) { count(event, metrics); });
}

// What invocations wait for that a function mounts.
MountWaits::Done told_to(Intake& intake) {
  return [&intake](InvocationId id, Duration waited, Result<void> result) {
    intake.waited_for_mounts(id, waited, std::move(result));
  };
}

Intake::Setting intake_setting(const WorkerOptions& options, const Worker::Dependencies& uses) {
  return {.most_payloads = options.most_payloads, .faults = uses.faults};
}

CallBatches::Uses batch_uses(const Worker::Dependencies& uses, KernelDescriptions& kernels,
                             Intake& intake) {
  const auto describe = [&kernels](const FunctionSpec& spec, CallBatches::Described done) {
    kernels.describe(spec, std::move(done));
  };
  const auto submit = [&intake](InvocationRequest request, CallBatches::Done done) {
    intake.submit(std::move(request), std::move(done));
  };
  const auto count = [&metrics = uses.metrics](const FunctionName& function, size_t calls) {
    metrics.batched(function, calls);
  };
  return {.loop = uses.loop,
          .random = uses.random,
          .describe = describe,
          .submit = submit,
          .forget = [&intake](InvocationId id) { intake.forget(id); },
          .on_batch = count};
}

// Those that come by the inference protocol.
std::function<void(const FunctionSpec&, http::HandlerCall)> batched(CallBatches& batches) {
  return [&batches](const FunctionSpec& spec, http::HandlerCall call) {
    batches.submit(spec, {.request = std::move(call.request),
                          .elements = call.elements,
                          .by_value = true,
                          .done = std::move(call.done),
                          .since = call.since});
  };
}

// Work for that thread, which outlives who gives it.
ExecutorHost::RunFiles on(loop::WorkThread& thread) {
  return [&thread](std::function<void()> work, std::function<void()> then) {
    return thread.run(std::move(work), std::move(then));
  };
}

// `files` is null until recover(), or where logs are in memory only.
MountUses mount_uses(const WorkerOptions& options, const catalog::Catalog& catalog,
                     const std::unique_ptr<LogFiles>& files) {
  const auto& starts = options.sandboxes.folders_of_mounts;
  const auto used_beside = [&options, &catalog, &files](TenantId tenant) {
    Bytes used = catalog.async_bytes(tenant);
    if (files != nullptr) used += files->used(tenant);
    return options.used_by_volumes ? used + options.used_by_volumes(tenant) : used;
  };
  return {options.deployed_mounts ? options.deployed_mounts : starts, used_beside,
          options.host_path};
}

// NOT_FOUND, FAILED_PRECONDITION: it is of another kind.
Result<FunctionId> pipeline_called(const FunctionRegistry& functions, const FunctionName& name) {
  ASSIGN_OR_RETURN(const FunctionSpec* spec, functions.get(name));
  if (spec->kind == FunctionKind::kPipeline) return spec->id;
  return Error{
      ErrorCode::kFailedPrecondition,
      "function '" + name.name + "' is a " + std::string(name_of(spec->kind)) + ", no pipeline"};
}

}  // namespace

Worker::Worker(Dependencies dependencies, WorkerOptions options,
               std::unique_ptr<dispatch::Dispatcher> dispatcher,
               std::unique_ptr<slice_scheduling::SliceDispatcher> slices)
    : uses_(dependencies),
      options_(std::move(options)),
      dispatcher_(std::move(dispatcher)),
      logs_(options_.logs.per_function),
      code_(options_.state_folder, files_, options_.keeps_packages),
      files_(uses_.loop),
      copies_(uses_.loop),
      drain_(uses_.loop,
             [this] {
               return dispatcher_->drained() && workflows_.live() == 0 && pipelines_.live() == 0;
             }),
      driver_({uses_.loop, uses_.log, uses_.metrics, *dispatcher_, uses_.journal, functions_, code_,
               live_, drain_, backends_, dispatch_reports_, executors_, pipelines_, completions_,
               host_memory_, unloads_, options_.context_memory, uses_.faults}),
      dispatch_reports_(uses_.log, uses_.metrics, logs_, uses_.loop.clock(), driver_),
      executors_({uses_.loop, uses_.log, uses_.launcher, uses_.objects, on(files_), uses_.links,
                  &driver_, options_.sandboxes.folders_of_mounts, on(copies_)},
                 for_starts(options_.executors, dispatcher_->options()), options_.run_folder),
      sandboxes_(
          {uses_.loop, uses_.log, uses_.launcher, uses_.links, &executors_.runtimes(),
           options_.on_object, uses_.secrets, [this](InvocationId id) { return relays_.find(id); },
           [this](InvocationId id) { return relays_.sink_of(id); }, network_refusals(uses_.metrics),
           uses_.hand_over},
          options_.sandboxes, options_.run_folder),
      host_memory_(uses_.loop, uses_.log, *dispatcher_, sandboxes_, driver_,
                   options_.sandbox_memory),
      unloads_(*dispatcher_, driver_),
      backends_(sandboxes_, executors_),
      batches_(batch_uses(uses_, kernels_, intake_)),
      workflows_(uses_.loop, uses_.random, uses_.objects, workflow_events(), options_.workflows),
      stage_processes_(sandboxes_, pipeline_reports_, code_),
      pipelines_(uses_.loop, uses_.log, stage_processes_, pipeline_setting(), std::move(slices),
                 pipeline_events()),
      pipeline_reports_(uses_.log, uses_.metrics, logs_, uses_.loop.clock(),
                        pipelines_.stage_processes()),
      objects_(make_objects(uses_.objects)),
      mounts_(uses_.loop, options_.mount_files, told_to(intake_)),
      completions_({uses_.loop, uses_.log, uses_.catalog, uses_.metrics, live_, idempotency_,
                    drain_, objects_.get(), mounts_, workflows_, pipelines_, recent_, follow_ups_,
                    statistics_, options_.observe}),
      intake_({uses_.loop, uses_.random, uses_.catalog, *dispatcher_, functions_, aliases_, live_,
               idempotency_, drain_, objects_.get(), executors_, workflows_, pipelines_, driver_,
               completions_, follow_ups_, relays_, deployments_, intake_setting(options_, uses_)}),
      cancellation_({uses_.loop, *dispatcher_, functions_, recent_, drain_, live_, objects_.get(),
                     workflows_, pipelines_, backends_, driver_, completions_, follow_ups_}),
      follow_ups_({uses_.loop, uses_.log, uses_.random, uses_.catalog, uses_.metrics, functions_,
                   aliases_, drain_, intake_, completions_, cancellation_},
                  options_.follow_ups),
      statistics_(uses_.loop, uses_.log, uses_.catalog, functions_, *dispatcher_),
      hours_(uses_.loop, uses_.log, uses_.catalog, *dispatcher_),
      schedules_(schedule_uses({uses_.loop, uses_.log, drain_}, uses_.catalog, *this)),
      care_(options_.utilisation_average),
      keeper_(functions_, *dispatcher_, care_, executors_),
      health_({uses_.loop, uses_.log, uses_.catalog, care_, driver_, pipelines_, executors_,
               keeper_, options_.devices}),
      cuda_packages_(!options_.sandboxes.gpu.emulated_node.empty(), functions_.codes()),
      deployments_({uses_.loop,     uses_.log,     uses_.catalog,
                    uses_.metrics,  functions_,    aliases_,
                    revisions_,     statistics_,   logs_,
                    files_,         code_,         driver_,
                    sandboxes_,     executors_,    keeper_,
                    workflows_,     pipelines_,    schedules_,
                    cuda_packages_, uses_.secrets, uses_.environments,
                    uses_.images,   uses_.shared},
                   deployment_rules(), mount_uses(options_, uses_.catalog, log_files_)),
      versions_({uses_.catalog, functions_, aliases_, revisions_, deployments_, status_, code_,
                 cuda_packages_, uses_.shared}),
      status_({uses_.loop, uses_.metrics, *dispatcher_, functions_, live_, backends_, executors_,
               workflows_, pipelines_, care_, health_, schedules_, follow_ups_, mounts_}),
      activity_(status_, recent_),
      kernels_(code_, files_),
      relays_({uses_.random, functions_, aliases_,
               [this](auto request, auto done) { submit(std::move(request), std::move(done)); },
               [this](InvocationId id) { batches_.forget(id); }, kernels_, batched(batches_)}) {
  hear_of(uses_.launcher, sandboxes_, executors_, uses_.metrics);
}

Worker::~Worker() {
  uses_.launcher.on_exit([](SandboxId, const sandbox::Exit&) {});
  uses_.launcher.on_zygote({});
}

DeploymentRules Worker::deployment_rules() {
  FunctionRules rules;
  rules.device_memory = options_.device_memory;
  for (const scheduling::DeviceOptions& device : dispatcher_->options().fleet.devices) {
    rules.devices.push_back(device.memory);
  }
  rules.no_gangs = options_.no_gangs;
  if (const scheduling::Policy& policy = dispatcher_->policy(); !policy.places_gangs()) {
    rules.no_gangs = "the policy " + std::string(policy.name()) +
                     " of this worker gives functions GPUs one by one; run it with density, "
                     "mqfq-sticky or fcfs";
  }
  rules.context_memory = options_.context_memory;
  rules.call_workspace = options_.executors.cublas.empty() ? Bytes(0) : kCallWorkspace;
  rules.shared_runtimes = !options_.sandboxes.forward_folder.empty();
  rules.has_slices = !options_.pipelines.slices.empty();
  rules.host_overflow = dispatcher_->options().hybrid.rule != scheduling::HybridRule::kOff;
  rules.network = options_.sandboxes.network;
  rules.network_reason = uses_.launcher.capabilities().network_reason;
  rules.longest_gpu_run = options_.longest_gpu_run;
  rules.gpu_serves_one_tenant = options_.gpu_serves_one_tenant;
  return {rules, options_.pipelines, options_.executors.built_in};
}

std::unique_ptr<InvocationObjects> Worker::make_objects(objects::ObjectStore* store) {
  if (store == nullptr) return nullptr;
  ObjectWaits::Events events;
  events.ready = [this](InvocationId id) { intake_.route(live_.at(id)); };
  events.failed = [this](InvocationId id, Error error) {
    const bool within_run = live_.at(id).request.within_run;
    completions_.reject(id, stopping_error_of(std::move(error), within_run));
  };
  return std::make_unique<InvocationObjects>(uses_.loop, *store, executors_, functions_,
                                             std::move(events));
}

WorkflowHost::Events Worker::workflow_events() {
  WorkflowHost::Events events;
  events.submit = [this](InvocationRequest request, WorkflowHost::Done done) {
    intake_.submit(std::move(request), std::move(done));
  };
  events.submit_kernel = [this](const FunctionSpec& spec, InvocationRequest request,
                                uint64_t elements, bool by_value, WorkflowHost::Done done) {
    batches_.submit(spec, {std::move(request), elements, by_value, std::move(done)});
  };
  events.forget = [this](InvocationId call) { batches_.forget(call); };
  events.find_function = [this](const FunctionName& name) {
    const auto found = resolve(name, 1, functions_, aliases_);
    return found.ok() ? functions_.find(*found) : nullptr;
  };
  events.stopping = [this] { return drain_.draining(); };
  events.elsewhere = &elsewhere_;
  events.has_room = [this](const FunctionName& function, Bytes payload) {
    return intake_.has_room_for_call(function, payload);
  };
  events.on_begin = [this](InvocationId id) {
    LiveInvocation& live = live_.at(id);
    completions_.note_begun(live);
    // It is among the values of its run from now on.
    live_.release_payload(live);
    workflows_.room_made();
  };
  events.on_end = [this](InvocationResult result) { completions_.complete(std::move(result)); };
  events.on_output = [this](FunctionId function, std::string_view text) {
    logs_.append(function, text, uses_.loop.clock().wall_now());
  };
  if (!dispatcher_->options().fleet.foresight.starts_ahead) return events;
  events.prospect_of = [this, find = events.find_function](const FunctionName& name) {
    const FunctionSpec* spec = find(name);
    return spec != nullptr ? prospect_of(*dispatcher_, spec->id) : workflow::Prospect{};
  };
  events.foresee = [this, find = events.find_function](const FunctionName& name, Duration within,
                                                       double chance) {
    const FunctionSpec* spec = find(name);
    if (spec != nullptr) driver_.handle(dispatch::CallForeseen{spec->id, within, chance});
  };
  return events;
}

PipelineSetting Worker::pipeline_setting() {
  PipelineSetting setting = options_.pipelines;
  setting.shared.utilisation = [this] {
    double least = 1;
    for (const scheduling::Device& device : dispatcher_->fleet().devices()) {
      if (device.healthy) least = std::min(least, device.utilisation);
    }
    return least;
  };
  setting.background = [this](auto work, auto completion) {
    return files_.run(std::move(work), std::move(completion));
  };
  return setting;
}

PipelineHost::Events Worker::pipeline_events() {
  PipelineHost::Events events;
  events.on_begin = [this](InvocationId id) { completions_.note_begun(live_.at(id)); };
  events.on_end = [this](InvocationResult result) { completions_.complete(std::move(result)); };
  events.on_profile = [this](FunctionId function, std::string profile) {
    save_profile(function, std::move(profile));
  };
  return events;
}

void Worker::save_profile(FunctionId function, std::string profile) {
  const FunctionSpec* spec = functions_.find(function);
  if (spec == nullptr) return;
  uses_.catalog.save_profile({spec->name.tenant, function, spec->revision, std::move(profile)},
                             [this, name = spec->name.name](Result<void> saved) {
                               if (saved.ok()) return;
                               uses_.log.warning(
                                   "profile_not_saved",
                                   {{"function", name}, {"error", to_string(saved.error())}});
                             });
}

void Worker::keep_logs() {
  const auto tell = [this](FunctionId function, std::string_view text) {
    const FunctionSpec* spec = functions_.find(function);
    if (options_.on_output && spec != nullptr) options_.on_output(spec->name, text);
  };
  if (options_.logs.folder.empty()) {
    logs_.observe({.appended = [tell](FunctionId function, uint64_t, std::string_view text,
                                      const auto&) { tell(function, text); },
                   .removed = [](FunctionId) {}});
    return;
  }
  LogFilesOptions options = options_.logs;
  options.tenant_of = [this](FunctionId function) {
    const FunctionSpec* spec = functions_.find(function);
    return spec == nullptr ? TenantId() : spec->name.tenant;
  };
  options.may_grow = [this](TenantId tenant, Bytes more) {
    return check_disk(deployments_, tenant, more).ok();
  };
  log_files_ = std::make_unique<LogFiles>(uses_.loop, uses_.log, std::move(options));
  std::vector<FunctionId> ids;
  functions_.for_each([&](const FunctionSpec& spec) { ids.push_back(spec.id); });
  std::sort(ids.begin(), ids.end());
  log_files_->restore(ids, logs_);
  logs_.observe({.appended =
                     [this, tell](FunctionId function, uint64_t offset, std::string_view text,
                                  const std::optional<LogMark>& mark) {
                       log_files_->append(function, offset, text, mark);
                       tell(function, text);
                     },
                 .removed = [this](FunctionId function) { log_files_->remove(function); }});
}

Result<void> Worker::recover() {
  RETURN_IF_ERROR(code_.create());
  ASSIGN_OR_RETURN(catalog::Snapshot snapshot, uses_.catalog.load_all());
  statistics_.restore(snapshot.statistics);
  hours_.restore(snapshot.gpu_times, driver_);
  health_.restore(snapshot.devices);
  RETURN_IF_ERROR(deployments_.recover(std::move(snapshot)));
  keep_logs();
  if (uses_.hand_over != nullptr) {
    adopt_sandboxes({*uses_.hand_over, options_.sandboxes, uses_.secrets, functions_, code_,
                     deployments_, *dispatcher_, driver_, sandboxes_, dispatch_reports_, uses_.log,
                     uses_.links != nullptr});
  }
  deployments_.start_instances();
  ASSIGN_OR_RETURN(const size_t resumed, intake_.recover());
  uses_.log.info("recovered", {{"functions", static_cast<int64_t>(functions_.size())},
                               {"asynchronous", static_cast<int64_t>(resumed)}});
  return {};
}

void Worker::set_tenant(const Tenant& tenant, const TenantQuotas* share) {
  if (share == nullptr) deployments_.quotas().set(tenant);
  const TenantQuotas& quotas = share == nullptr ? tenant.quotas : *share;
  driver_.handle(dispatch::TenantChanged{.tenant = tenant.id,
                                         .weight = tenant.weight,
                                         .concurrency = quotas.concurrency,
                                         .gpu_memory = quotas.gpu_memory,
                                         .gpu_time_per_hour = quotas.gpu_time_per_hour,
                                         .host_memory = quotas.host_memory});
  if (uses_.objects != nullptr) uses_.objects->set_quota(tenant.id, quotas.objects);
}

void Worker::remove_tenant(TenantId tenant) {
  deployments_.quotas().remove(tenant);
  driver_.handle(dispatch::TenantChanged{.tenant = tenant});
  recent_.forget(tenant);
  if (uses_.objects != nullptr) uses_.objects->set_quota(tenant, std::nullopt);
}

std::map<TenantId, TenantUsage> Worker::usages_of(const std::vector<TenantId>& tenants) const {
  std::map<TenantId, TenantUsage> usages;
  for (const TenantId tenant : tenants) {
    const FunctionQuotas::Use used = deployments_.used(tenant);
    TenantUsage& usage = usages[tenant];
    usage.functions = used.functions;
    usage.disk = used.disk;
    if (uses_.objects != nullptr) usage.objects = uses_.objects->used(tenant);
  }
  for (const dispatch::TenantStatus& status :
       dispatcher_->tenant_status(uses_.loop.clock().now())) {
    const auto found = usages.find(status.id);
    if (found == usages.end()) continue;
    TenantUsage& usage = found->second;
    usage.running = status.running;
    usage.waiting = status.waiting;
    usage.gpu_time_in_hour = status.gpu_time_in_hour;
    usage.gpu_memory = status.gpu_memory;
    usage.host_memory = status.host_memory;
    usage.gpu_demand = {status.at_work.gpu, status.pending.gpu, status.largest.gpu};
    usage.host_demand = {status.at_work.host, status.pending.host, status.largest.host};
  }
  return usages;
}

void Worker::drain(std::function<void()> drained) {
  if (drain_.begin(std::move(drained))) {
    if (uses_.hand_over != nullptr && uses_.hand_over->begun())
      tell_what_ends(executors_, uses_.log);
    if (objects_ != nullptr) objects_->fail_all(stopping_error(true));
    mounts_.fail_all(stopping_error(true));
    driver_.handle(dispatch::DrainStarted{});
    pipelines_.drain();
    workflows_.room_made();
  }
  drain_.check();
}

void Worker::submit(InvocationRequest request, Callback<InvocationResult> done) {
  if (const auto created = deployments_.pending().refuse(function_of(request.function))) {
    return done(*created);
  }
  intake_.submit(std::move(request), std::move(done));
}

void Worker::forget(InvocationId id) { intake_.forget(id); }

void Worker::async_result(TenantId tenant, InvocationId id,
                          Callback<std::optional<InvocationResult>> done) {
  uses_.catalog.async_result(tenant, id, std::move(done));
}

void Worker::create_function(FunctionChange change, Callback<FunctionSpec> done) {
  deployments_.create(std::move(change), std::move(done));
}

void Worker::update_function(FunctionChange change, Callback<FunctionSpec> done) {
  deployments_.update(std::move(change), std::move(done));
}

void Worker::remove_function(FunctionName name, Callback<FunctionSpec> done) {
  deployments_.remove(name, [this, name, done = std::move(done)](Result<FunctionSpec> removed) {
    if (removed.ok()) recent_.forget(name);
    done(std::move(removed));
  });
}

std::optional<DeploymentStatus> Worker::deployment(const FunctionName& name) const {
  return deployments_.pending().find(name);
}

Result<FunctionSpec> Worker::find_function(const FunctionName& name) const {
  if (auto created = deployments_.pending().created(name)) return std::move(*created);
  ASSIGN_OR_RETURN(const FunctionSpec* spec, functions_.get(name));
  return *spec;
}

std::vector<FunctionSpec> Worker::list_functions(TenantId tenant, const std::string& after,
                                                 size_t limit) const {
  return functions_.list(tenant, after, limit);
}

std::vector<FunctionStatus> Worker::function_status(TenantId tenant, const std::string& after,
                                                    size_t limit) const {
  return status_.functions(tenant, after, limit);
}

FunctionTotals Worker::function_totals(TenantId tenant) const { return functions_.totals(tenant); }

std::vector<SandboxStatus> Worker::sandbox_status(TenantId tenant, Metering metering) const {
  return status_.sandboxes(metering, tenant);
}

Result<LogChunk> Worker::read_log(const FunctionName& name, uint64_t offset, size_t most) const {
  ASSIGN_OR_RETURN(const FunctionName record, resolve(name, 1, functions_, aliases_));
  ASSIGN_OR_RETURN(const FunctionSpec* spec, functions_.get(record));
  return logs_.read(spec->id, offset, most);
}

Result<void> Worker::unload(const FunctionName& name) {
  ASSIGN_OR_RETURN(const FunctionSpec* spec, functions_.get(name));
  const unsigned kept = dispatcher_->flows()[spec->id.value].min_instances;
  if (kept > 0) {
    return Error{ErrorCode::kFailedPrecondition, "'" + name.name +
                                                     "' stays loaded: " + std::to_string(kept) +
                                                     " of it are kept ready (min_instances)"};
  }
  unloads_.unload(spec->id);
  return {};
}

Result<std::string> Worker::describe_pipeline(const FunctionName& name) const {
  ASSIGN_OR_RETURN(const FunctionId function, pipeline_called(functions_, name));
  return pipelines_.status().describe(function);
}

void Worker::measure_pipeline(const FunctionName& name, std::string event, unsigned repeat,
                              Callback<std::string> done) {
  const auto function = pipeline_called(functions_, name);
  if (!function.ok()) return done(function.error());
  if (drain_.draining()) return done(Error{ErrorCode::kUnavailable, "the worker is stopping"});
  pipelines_.measure(*function, std::move(event), repeat, std::move(done));
}

Result<std::string> Worker::trace(TenantId tenant, InvocationId invocation) const {
  auto of_pipeline = pipelines_.trace(tenant, invocation);
  if (of_pipeline.ok()) return of_pipeline;
  const auto record = workflows_.trace(tenant, invocation);
  if (record.ok()) return json_of(*record);
  return Error{ErrorCode::kNotFound, record.error().message + "; " + of_pipeline.error().message};
}

}  // namespace lambent::worker
