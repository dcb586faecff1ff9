// The part of ExecutorHost that keeps instances: they start, get requests, move, stop and end with
// their executors.
#include <algorithm>
#include <utility>

#include "core/domain/version.h"
#include "node/runtime_api/error_type.h"
#include "node/worker/executor_host.h"

namespace lambent::worker {
namespace {

// What an instance is given to end what it runs, before its executor is ended: a round of a loop
// with a flag, or all that is queued of other steps.
constexpr Duration kGrace = milliseconds(250);

// Why an instance could not be made.
std::string start_error_type_of(ErrorCode code) {
  const bool is_mistake = code == ErrorCode::kInvalidArgument || code == ErrorCode::kNotFound ||
                          code == ErrorCode::kFailedPrecondition || code == ErrorCode::kDataLoss;
  return is_mistake ? "Runtime.InvalidEntrypoint" : kPlatformFailure;
}

}  // namespace

ExecutorHost::ExecutorHost(Dependencies dependencies, ExecutorSetting setting,
                           std::string run_folder)
    : loop_(dependencies.loop),
      log_(dependencies.log),
      run_files_(std::move(dependencies.run_files)),
      copies_(std::move(dependencies.run_copies)),
      folders_of_mounts_(std::move(dependencies.folders_of_mounts)),
      built_in_(setting.built_in),
      links_(dependencies.links),
      supervisor_(dependencies.loop, dependencies.log, dependencies.launcher, setting,
                  std::move(run_folder), supervisor_events(dependencies)),
      memory_use_(supervisor_, instances_, dependencies.memory, setting),
      clients_(supervisor_),
      objects_(dependencies.loop, supervisor_, dependencies.objects,
               {.shares = setting.share_objects,
                .elastic = setting.share_objects && setting.elastic_objects}) {}

ExecutorHost::~ExecutorHost() {
  for (const auto& [id, instance] : instances_.all()) loop_.cancel(instance->grace);
}

ExecutorSupervisor::Events ExecutorHost::supervisor_events(const Dependencies& dependencies) {
  ExecutorSupervisor::Events events;
  events.on_ready = [this](const Key& key) { executor_ready(key); };
  events.on_message = [this](const Key& key, protocol::ExecutorMessage message,
                             std::vector<OwnedFd> fds) {
    heard(key, std::move(message), std::move(fds));
  };
  events.on_output = [this](const Key& key, std::string_view text) { printed(key, text); };
  events.on_broken = [this](const Key& key, const Error& error) { clients_.lose(key, error); };
  events.on_end = [this](const Key& key, const ExecutorEnd& how) { executor_ended(key, how); };
  events.on_count = [this](DeviceId device) { memory_use_.contexts_changed(device); };
  events.is_used = [this](const Key& key) {
    return clients_.any_of(key) || !instances_.ids_of(key).empty();
  };
  events.clear = [this](const Key& key) { return objects_.clear(key); };
  if (dependencies.memory != nullptr) {
    events.has_room = [this](const Key& key, size_t contexts) {
      return memory_use_.has_room(key, contexts);
    };
  }
  if (links_ != nullptr) {
    // Executors have turns on the link, and lease nothing.
    events.serve_link = [this](SandboxId executor, DeviceId device, OwnedFd listener) {
      links_->serve(executor, {device}, Bytes(0), std::move(listener));
    };
    events.forget_link = [this](SandboxId executor) { links_->forget(executor); };
  }
  return events;
}

// --- Executors ---

void ExecutorHost::keep(const FunctionSpec& spec, DeviceId device) {
  supervisor_.keep(executor_key(spec, device));
}

void ExecutorHost::leave(DeviceId device) {
  supervisor_.hide(device);
  for (const Key& key : supervisor_.kept()) {
    if (key.device == device) supervisor_.drop(key);
  }
}

void ExecutorHost::drop(const FunctionSpec& spec) {
  for (const Key& key : supervisor_.kept()) {
    if (key == executor_key(spec, key.device)) supervisor_.drop(key);
  }
}

void ExecutorHost::executor_ready(const Key& key) {
  for (const SandboxId id : instances_.ids_of(key)) add_if_possible(*instances_.find(id));
  clients_.executor_ready(key);
}

void ExecutorHost::executor_ended(const Key& key, const ExecutorEnd& how) {
  objects_.executor_ended(key, how.cause);
  if (how.retired) return;
  // What used it may be started again from within on_end: then in another executor.
  const std::vector<SandboxId> all = instances_.ids_of(key);
  // What it has answered does not end with it. Another thread may be reading the same memory.
  for (const SandboxId id : all) {
    const Instance* instance = instances_.find(id);
    if (instance == nullptr || instance->answer == nullptr) continue;
    const std::shared_ptr<AnswerCopy> copy = instance->answer;
    answer_copied(id, copy, copy->read());
  }
  size_t suspects = 0;  // what ran, and what was being loaded
  for (const SandboxId id : all) {
    const Instance* instance = instances_.find(id);
    if (instance == nullptr) continue;
    if (instance->ready ? instance->runs() : instance->added) ++suspects;
  }
  suspects += clients_.added_to(key);
  // One that ran by itself did it. Otherwise it was one of several: from now on each runs by
  // itself, so that the next time shows which.
  if (!how.blame_is_known && suspects > 1) instances_.suspect(key);
  clients_.executor_ended(key, how);
  for (const SandboxId id : all) {
    const Instance* found = instances_.find(id);
    if (found == nullptr) continue;
    const Instance& instance = *found;
    if (instance.end_words) {
      end(id, *instance.end_words, false);
    } else if (instance.current) {
      end(id, {how.cause, "Kernel.Fault"}, how.blame_is_known || suspects > 1 || instance.waiting);
    } else {
      // Who is known to have broken one that was ready is not who was only being let in.
      end(id, {how.cause, how.no_room ? kNoRoom : kPlatformFailure},
          !instance.ready && how.blame_is_known && how.was_ready);
    }
  }
}

// --- Instances ---

void ExecutorHost::start(BackendStart start, BackendObserver& observer) {
  const SandboxId id = start.sandbox;
  const FunctionSpec& spec = start.spec;
  Instance& instance = instances_.add(id, observer);
  instance.key = executor_key(spec, start.device);
  instance.spec = spec;
  instance.requested_at = loop_.clock().now();
  supervisor_.need(instance.key, supervisor_.longest_wait(spec));
  memory_use_.instances_changed(start.device);

  struct Opening {
    KernelPackageOptions options;
    Result<std::vector<PackageFile>> files = std::vector<PackageFile>();
  };
  auto opening = std::make_shared<Opening>();
  opening->options = {std::move(start.code_folder), spec.handler, built_in_, spec.mounts};
  if (!spec.mounts.empty() && folders_of_mounts_) {
    auto folders = folders_of_mounts_(spec);
    if (!folders.ok()) {
      instance.end_words = KernelInstanceEnd{folders.error(), "Runtime.MissingMount"};
      return end_soon(id);
    }
    opening->options.mount_folders = std::move(*folders);
  }
  const bool queued =
      run_files_([opening] { opening->files = open_kernel_package(opening->options); },
                 [this, opening, id, alive = std::weak_ptr(alive_)] {
                   if (alive.expired()) return;
                   Instance* opened = instances_.find(id);
                   if (opened == nullptr) return;
                   if (!opening->files.ok()) {
                     const Error& error = opening->files.error();
                     return end(id, {error, start_error_type_of(error.code)}, false);
                   }
                   opened->files = std::move(opening->files).value();
                   add_if_possible(*opened);
                 });
  if (queued) return;
  instance.end_words = KernelInstanceEnd{
      {ErrorCode::kResourceExhausted, "too much work for the disk at once"}, kPlatformFailure};
  end_soon(id);
}

void ExecutorHost::change_share(const FunctionSpec& spec) {
  clients_.change_share(spec.id, spec.gpu.share);
  for (const auto& [id, instance] : instances_.all()) {
    if (instance->spec.id != spec.id || instance->spec.gpu.share == spec.gpu.share) continue;
    instance->spec.gpu.share = spec.gpu.share;
    if (instance->added) supervisor_.send(instance->key, protocol::SetShare{id, spec.gpu.share});
  }
}

void ExecutorHost::add_if_possible(Instance& instance) {
  if (!supervisor_.ready(instance.key)) return;
  if (!instance.files || instance.end_words || std::exchange(instance.added, true)) return;
  protocol::AddInstance message;
  message.instance = instance.id;
  message.graph = instance.spec.handler;
  message.memory = instance.spec.gpu.memory;
  message.modelled = instance.key.modelled;
  message.share = instance.spec.gpu.share;
  std::vector<OwnedFd> fds;
  for (PackageFile& file : *instance.files) {
    message.files.push_back(std::move(file.name));
    fds.push_back(std::move(file.fd));
  }
  instance.files.reset();
  instance.added_at = loop_.clock().now();
  supervisor_.send(instance.key, std::move(message), std::move(fds));
}

void ExecutorHost::on(const Key& key, const protocol::InstanceReady& message) {
  Instance* instance = instances_.find(key, message.instance);
  if (instance == nullptr || instance->end_words || !instance->added ||
      std::exchange(instance->ready, true)) {
    return;
  }
  instance->constants = message.constants;
  instance->observer.on_ready(instance->id, instance->added_at - instance->requested_at,
                              loop_.clock().now() - instance->added_at);
}

void ExecutorHost::on(const Key& key, const protocol::InstanceFailed& message) {
  Instance* instance = instances_.find(key, message.instance);
  if (instance == nullptr || (instance->end_words && instance->ready)) return;
  // The package was checked when it was deployed. What the place lacks, another try may find.
  KernelInstanceEnd words = instance->end_words.value_or(
      KernelInstanceEnd{message.error, start_error_type_of(message.error.code)});
  if (instance->ready && (instance->runs() || instance->answer != nullptr)) {
    instance->share_failed = std::move(words);
    return;
  }
  leave(*instance, std::move(words));
}

// An instance that runs nothing; what waits for it comes back undelivered.
void ExecutorHost::leave(const Instance& instance, KernelInstanceEnd words) {
  supervisor_.send(instance.key, protocol::RemoveInstance{instance.id});
  end(instance.id, std::move(words), instance.waiting.has_value());
}

void ExecutorHost::deliver(SandboxId id, InvocationRequest& request, Duration) {
  Instance* found = instances_.find(id);
  if (found == nullptr) return;  // its end is on the way to the worker
  Instance& instance = *found;
  instances_.give(instance, request.id);
  instance.given_at = loop_.clock().now();
  instance.time_to_live = request.time_to_live;
  instance.tail.clear();
  instance.tail.append("START RequestId: " + to_string(request.id) +
                       " Version: " + version_of(request.function) + "\n");
  protocol::Run run;
  run.invocation = request.id;
  run.instance = id;
  run.content_type = request.content_type;
  instance.waiting_fds.clear();
  if (request.payload.size() <= protocol::kInlinePayload.count) {
    run.payload = request.payload;
    instance.waiting = std::move(run);
    return send_waiting(instance.key);
  }
  run.payload_attached = true;
  instance.waiting = std::move(run);
  const auto copy = std::make_shared<RequestCopy>(std::move(request.payload));
  instance.request = copy;
  copies_.start(
      copy->size(), [copy] { copy->make(); },
      [this, id, copy, alive = std::weak_ptr(alive_)] {
        if (!alive.expired()) request_copied(id, copy);
      });
}

void ExecutorHost::request_copied(SandboxId id, const std::shared_ptr<RequestCopy>& copy) {
  Result<OwnedFd> memory = copy->take_memory();
  Instance* instance = instances_.find(id);
  const bool is_wanted = instance != nullptr && instance->request == copy && !instance->end_words;
  if (!is_wanted) return;  // it was stopped meanwhile
  if (memory.ok()) {
    instance->waiting_fds.push_back(std::move(*memory));
    return send_waiting(instance->key);
  }
  instance->waiting.reset();
  protocol::Finished failed;
  failed.invocation = *instance->current;
  failed.error = memory.error();
  loop_.call_after(Duration(0), [this, key = instance->key, failed, alive = std::weak_ptr(alive_)] {
    if (!alive.expired()) finished(key, failed, {});
  });
}

void ExecutorHost::send_waiting(const Key& key) {
  // What is given to one that is broken comes back undelivered.
  if (!supervisor_.ready(key)) return;
  for (Instance* instance : instances_.sendable(key)) {
    supervisor_.send(key, *std::exchange(instance->waiting, std::nullopt),
                     std::exchange(instance->waiting_fds, {}));
  }
}

void ExecutorHost::move_memory(SandboxId id, bool out) {
  Instance* instance = instances_.find(id);
  if (instance == nullptr) return;
  if (!instance->ready) {
    return instance->observer.on_memory_moved(id, {.out = out, .done = !out});
  }
  instance->out = true;
  supervisor_.send(instance->key, protocol::MoveInstance{id, out});
}

void ExecutorHost::on(const Key& key, const protocol::InstanceMoved& message) {
  Instance* instance = instances_.find(key, message.instance);
  if (instance == nullptr || !instance->ready) return;
  instance->out = message.out == message.done;
  send_waiting(key);
  MemoryMove move;
  move.out = message.out;
  move.done = message.done;
  move.moved = message.moved;
  // What stays lies in the part of the pool that the instances which are in have anyway.
  move.left = Bytes(0);
  move.duration = message.duration;
  instance->observer.on_memory_moved(instance->id, move);
}

void ExecutorHost::stop(SandboxId id, Error error, std::string error_type) {
  Instance* found = instances_.find(id);
  if (found == nullptr || found->end_words) return;
  Instance& instance = *found;
  instance.end_words = KernelInstanceEnd{std::move(error), std::move(error_type)};
  if (!instance.runs()) {
    if (instance.added) supervisor_.send(instance.key, protocol::RemoveInstance{id});
    return end_soon(id);
  }
  // A loop with a flag ends with its round. What takes longer than the grace, be it such a round,
  // steps that are queued or a kernel that hangs, takes its executor with it.
  supervisor_.send(instance.key, protocol::RemoveInstance{id});
  instance.grace = loop_.call_after(kGrace, [this, id] {
    const Instance* hung = instances_.find(id);
    if (hung != nullptr) supervisor_.end_hung(hung->key, hung->end_words->error);
  });
}

// The caller is in the middle of handling an event: its answer comes in the next turn.
void ExecutorHost::end_soon(SandboxId id) {
  loop_.call_after(Duration(0), [this, id, alive = std::weak_ptr(alive_)] {
    if (alive.expired()) return;
    const Instance* instance = instances_.find(id);
    if (instance != nullptr) end(id, *instance->end_words, false);
  });
}

void ExecutorHost::end(SandboxId id, KernelInstanceEnd words, bool undelivered) {
  const std::unique_ptr<Instance> instance = instances_.remove(id, !undelivered);
  objects_.instance_left(instance->key);
  supervisor_.left(instance->key);
  memory_use_.instances_changed(instance->key.device);
  loop_.cancel(instance->grace);
  send_waiting(instance->key);  // a suspect may have waited for it
  SandboxEnd end;
  end.sandbox = id;
  end.undelivered = undelivered;
  if (undelivered && instance->request != nullptr) {
    end.invocation = *instance->current;
    end.returned_payload = instance->request->take_bytes();
  }
  end.error = std::move(words.error);
  end.error_type = std::move(words.type);
  std::string message = end.error.message;
  if (instance->current) {
    const std::string invocation = to_string(*instance->current);
    message = "RequestId: " + invocation + " " + message;
    instance->tail.append("ERROR " + message + "\nEND RequestId: " + invocation + "\n");
    instance->observer.on_output(instance->spec.id, instance->tail.text());
  }
  end.payload = runtime_api::error_json(end.error_type, message);
  end.device_memory_peak = instance->device_memory_peak;
  end.log_tail = instance->tail.text();
  instance->observer.on_end(std::move(end));
}

RunReport ExecutorHost::partial_report(SandboxId id, InvocationId) {
  const Instance* instance = instances_.find(id);
  if (instance == nullptr) return {};
  RunReport report;
  report.device_memory_peak = instance->device_memory_peak;
  report.log_tail = instance->tail.text();
  return report;
}

std::vector<SandboxStatus> ExecutorHost::status(Metering, std::optional<TenantId> tenant) const {
  std::vector<SandboxStatus> all;
  for (const auto& [id, instance] : instances_.all()) {
    if (tenant && instance->spec.name.tenant != *tenant) continue;
    SandboxStatus status;
    status.id = id;
    status.function = instance->spec.name;
    status.state = instance->end_words ? "stopping"
                   : !instance->ready  ? "starting"
                   : instance->current ? "busy"
                                       : "idle";
    status.pid = supervisor_.pid_of(instance->key);
    status.device = instance->key.device;
    status.age = loop_.clock().now() - instance->requested_at;
    status.invocations = instance->invocations;
    status.in_flight = instance->current ? 1 : 0;
    status.device_memory = instance->device_memory;
    all.push_back(std::move(status));
  }
  return all;
}

void ExecutorHost::look_at_objects(const std::vector<DeviceClaim>& claims,
                                   const std::function<bool(FunctionId)>& has_queue) {
  const scheduling::StoreOptions& options = objects_.store_options();
  std::vector<ElasticObjects::DeviceMemory> devices;
  for (const DeviceClaim& claim : claims) {
    // Every instance's profile has one step: its request is one CUDA graph, mostly, and what is
    // queued for it may begin at once.
    std::vector<MemoryProfile> profiles;
    Bytes shares;
    for (const auto& [id, instance] : instances_.all()) {
      if (instance->key.device != claim.device || instance->out) continue;
      shares += instance->spec.gpu.memory;
      MemoryProfile& profile = profiles.emplace_back();
      profile.whole = instance->needed_memory(has_queue(instance->spec.id));
      profile.kernels = {{.duration = options.look_ahead, .live = profile.whole}};
    }
    std::vector<scheduling::RunningFunction> running;
    for (const MemoryProfile& profile : profiles) running.push_back({.profile = &profile});
    const Bytes own = memory_use_.taken(claim.device);
    const Bytes others = claim.claimed - shares;
    devices.push_back({.device = claim.device,
                       .memory = claim.memory,
                       .needed = own + others + scheduling::functions_need(options, running),
                       .unclaimed = claim.memory - std::max(claim.claimed, shares) - own});
  }
  objects_.look(std::move(devices));
}

}  // namespace lambent::worker
