#include "gpu/executor/instances.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "gpu/executor/limits.h"

namespace lambent::executor {
namespace {

Error busy(const char* why) { return {ErrorCode::kFailedPrecondition, why}; }

// Dispatch counts with bytes; what lies on the device is in whole blocks of the pool.
Bytes counted(const LoadedInstance& loaded, const MemoryPool& pool) {
  Bytes sum = pool.rounded(loaded.plan.temporaries);
  for (uint32_t i = 0; i < loaded.graph.buffers.size(); ++i) {
    if (loaded.graph.buffers[i].role == kernel_graph::BufferRole::kTemporary) continue;
    sum += pool.rounded(loaded.plan.sizes[i]);
  }
  return sum;
}

// Why an instance cannot be added, but for what the package has; none: it can.
std::optional<Error> refusal(const protocol::AddInstance& message, size_t files, size_t instances) {
  if (instances >= limits::kExecutorInstances) {
    return Error{
        ErrorCode::kResourceExhausted,
        "an executor has at most " + std::to_string(limits::kExecutorInstances) + " instances"};
  }
  if (files == message.files.size()) return std::nullopt;
  return Error{ErrorCode::kInvalidArgument, std::to_string(message.files.size()) +
                                                " files were named and " + std::to_string(files) +
                                                " came"};
}

}  // namespace

Instances::Instances(Dependencies dependencies, std::unique_ptr<InstanceLoader> loader,
                     Options options)
    : with_(dependencies),
      options_(options),
      loader_(std::move(loader)),
      thread_(std::make_unique<DeviceThread>(with_.loop, with_.context)) {}

void Instances::stop() { thread_.reset(); }

KernelInstance* Instances::find(SandboxId id) {
  const auto found = instances_.find(id);
  return found == instances_.end() ? nullptr : found->second.get();
}

void Instances::add(protocol::AddInstance message, std::vector<OwnedFd> files) {
  const SandboxId id = message.instance;
  auto error = has(id) ? Error{ErrorCode::kAlreadyExists, "there is an instance of this number"}
                       : refusal(message, files.size(), instances_.size());
  if (error) {
    with_.connection.send(protocol::InstanceFailed{id, std::move(*error)});
    return;
  }
  auto instance = std::make_unique<KernelInstance>(id, message.memory, message.share, with_.pool);
  instance->arrival.began = with_.loop.now();
  instance->arrival.was_added = true;
  instances_.emplace(id, std::move(instance));
  set_limit();

  auto order = std::make_shared<InstanceLoader::Order>();
  order->instance = id;
  order->graph = std::move(message.graph);
  order->names = std::move(message.files);
  order->files = std::move(files);
  order->memory = message.memory;
  order->modelled = message.modelled;
  order->groups = with_.shares.give(id, message.share);
  auto loaded = std::make_shared<Result<std::unique_ptr<LoadedInstance>>>(Error{});
  thread_->run([this, order, loaded] { *loaded = loader_->load(std::move(*order)); },
               [this, id, loaded] { loading_ended(id, std::move(*loaded)); });
}

void Instances::loading_ended(SandboxId id, Result<std::unique_ptr<LoadedInstance>> loaded) {
  KernelInstance* instance = find(id);
  if (loaded.ok() && (instance == nullptr || instance->is_removed)) discard(std::move(*loaded));
  if (instance == nullptr) return;
  if (instance->is_removed) return finish_removal(id);
  if (!loaded.ok()) {
    with_.connection.send(protocol::InstanceFailed{id, loaded.error()});
    finish_removal(id);
    with_.watch.end_if_broken(loaded.error());
    return;
  }
  instance->loaded = std::move(*loaded);
  const LoadedInstance& now = *instance->loaded;
  instance->memory = std::max(instance->memory, counted(now, with_.pool));
  if (now.has_layers()) with_.layers->add(id, now.window, *now.layers);
  set_limit();
  if (instance->share != instance->loaded_share) change_share(*instance);
  begin_arrival(*instance);
}

// A static pool has room for all of an instance's buffers before its first request. Whatever is
// missing here, a request asks for again, and gets the error.
void Instances::reserve(KernelInstance& instance) {
  if (!options_.reserves) return;
  const LoadedInstance& loaded = *instance.loaded;
  const auto add = [&](uint32_t buffer, Bytes size) {
    if (with_.store.find(DeviceName::of(instance.id, buffer)) == nullptr) {
      instance.reserved.add(size);
    }
  };
  if (loaded.plan.temporaries > Bytes(0) && !loaded.has_layers()) {
    add(DeviceName::kTemporaries, loaded.plan.temporaries);
  }
  for (const uint32_t i : loaded.codec.outputs()) add(i, loaded.plan.sizes[i]);
  for (const uint32_t i : loaded.codec.inputs()) add(i, loaded.plan.sizes[i]);
}

Result<RequestedInstance> Instances::find_usable(SandboxId id) {
  KernelInstance* instance = find(id);
  if (instance == nullptr || instance->is_removed) {
    return Error{ErrorCode::kNotFound, "there is no such instance"};
  }
  if (with_.requests.has(id)) return busy("the instance has a request already");
  if (!instance->is_in) return busy("the instance's memory is out");
  if (!instance->is_usable) return busy("the instance is not ready");
  return RequestedInstance{id, instance->memory, *instance->loaded, instance->reserved};
}

void Instances::request_ended(SandboxId id) {
  KernelInstance& instance = *instances_.at(id);
  instance.last_request = with_.loop.now();
  with_.trimmer.watch();
  settle_in(instance);
  if (instance.is_removed) finish_removal(id);
}

bool Instances::is_idle(SandboxId id, Duration hold) const {
  const auto found = instances_.find(id);
  if (found == instances_.end()) return true;
  return !with_.requests.has(id) && with_.loop.now() - found->second->last_request >= hold;
}

void Instances::set_object_room(Bytes room) {
  object_room_ = room;
  set_limit();
}

// What objects and the instances that are in may take together.
Bytes Instances::allowed() const {
  Bytes sum = object_room_;
  for (const auto& [id, instance] : instances_) {
    if (instance->is_in) sum += instance->counted_memory();
  }
  return sum;
}

void Instances::set_limit() {
  with_.store.set_limit(allowed());
  with_.kept.limit_changed();
}

void Instances::set_share(SandboxId id, uint32_t share) {
  KernelInstance* instance = find(id);
  if (instance == nullptr || instance->is_removed || instance->share == share) return;
  instance->share = share;
  if (instance->loaded != nullptr) change_share(*instance);
}

// The new place is made by another thread: requests go on where the function is until then.
void Instances::change_share(KernelInstance& instance) {
  auto made = std::make_shared<Result<std::unique_ptr<Placement>>>(Error{});
  thread_->run([this, made, groups = with_.shares.give(instance.id, instance.share),
                has_calls = instance.loaded->program->calls() >
                            0] { *made = loader_->place(groups, has_calls); },
               [this, made, id = instance.id, share = instance.share] {
                 share_changed(id, share, std::move(*made));
               });
}

void Instances::share_changed(SandboxId id, uint32_t share,
                              Result<std::unique_ptr<Placement>> placement) {
  KernelInstance* instance = find(id);
  const bool is_wanted = instance != nullptr && !instance->is_removed && instance->share == share;
  if (!placement.ok()) {
    const Error& error = placement.error();
    std::fprintf(stderr, "lambent-executor: a share of %u %% is not applied: %s\n", share,
                 to_string(error).c_str());
    if (is_wanted) {
      with_.connection.send(protocol::InstanceFailed{
          id, error.with_context("a share of " + std::to_string(share) + " %")});
    }
    with_.watch.end_if_broken(error);
    return;
  }
  if (!is_wanted) return;  // another is on its way
  instance->next_placement = std::move(*placement);
  if (!with_.requests.has(id)) settle_in(*instance);
}

// Between two requests.
void Instances::settle_in(KernelInstance& instance) {
  if (instance.next_placement == nullptr) return;
  auto left = std::make_shared<std::unique_ptr<Placement>>(std::move(instance.next_placement));
  left->swap(instance.loaded->placement);
  thread_->run([left] { left->reset(); }, [] {});
}

void Instances::remove(SandboxId id) {
  KernelInstance* instance = find(id);
  if (instance == nullptr) return;
  instance->is_removed = true;
  if (with_.requests.has(id)) return with_.requests.withdraw(id);
  if (instance->loaded != nullptr) finish_removal(id);  // else when it is loaded
}

// It has no request any more.
void Instances::finish_removal(SandboxId id) {
  KernelInstance& instance = *instances_.at(id);
  // What is on its way for it takes memory until it is there, and counts as long.
  if (instance.arrival.is_under_way) return;
  instance.reserved.release();
  if (instance.loaded != nullptr) drop_memory_of(instance);
  if (instance.loaded != nullptr && instance.loaded->has_layers()) {
    auto going = std::make_shared<std::unique_ptr<LoadedInstance>>(std::move(instance.loaded));
    with_.layers->remove(id, [this, going] { discard(std::move(*going)); });
  } else if (instance.loaded != nullptr) {
    discard(std::move(instance.loaded));
  }
  with_.shares.take_back(id);
  instances_.erase(id);
  set_limit();
  with_.trimmer.watch();
  if (with_.layers != nullptr) with_.layers->room_came();
}

// To give page-locked memory back, the driver may wait for all that runs on the device.
void Instances::discard(std::unique_ptr<LoadedInstance> loaded) {
  auto going = std::make_shared<std::unique_ptr<LoadedInstance>>(std::move(loaded));
  PagePool* pages = (*going)->window != 0 ? &with_.layers->pages() : nullptr;
  thread_->run(
      [going, pages] {
        if (pages != nullptr) pages->close((*going)->window);
        going->reset();
      },
      [] {});
}

}  // namespace lambent::executor
