// The executor's instances: added, moved, removed.
#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/domain/limits.h"
#include "gpu/executor/executor.h"

namespace lambent::executor {

void Executor::handle(protocol::AddInstance message, std::vector<OwnedFd> fds) {
  const auto refuse = [&](Error error) {
    connection_.send(protocol::InstanceFailed{message.instance, std::move(error)});
  };
  if (find(message.instance) != nullptr) {
    return refuse({ErrorCode::kAlreadyExists, "there is an instance of this number"});
  }
  if (instances_.size() >= limits::kExecutorInstances) {
    return refuse(
        {ErrorCode::kResourceExhausted,
         "an executor has at most " + std::to_string(limits::kExecutorInstances) + " instances"});
  }
  if (fds.size() != message.files.size()) {
    return refuse({ErrorCode::kInvalidArgument, std::to_string(message.files.size()) +
                                                    " files were named and " +
                                                    std::to_string(fds.size()) + " came"});
  }
  auto instance = std::make_unique<Instance>();
  instance->id = message.instance;
  instance->memory = message.memory;
  instance->arrival_began = loop_.now();
  instance->was_added = true;
  instance->share = instance->loaded_share = message.share;
  instance->reserved = std::make_unique<Reservation>(*pool_);
  instances_.emplace(message.instance, std::move(instance));
  set_limit();

  auto order = std::make_shared<InstanceLoader::Order>();
  order->instance = message.instance;
  order->graph = std::move(message.graph);
  order->names = std::move(message.files);
  order->files = std::move(fds);
  order->memory = message.memory;
  order->modelled = message.modelled;
  order->groups = shares_.give(message.instance, message.share);
  auto loaded = std::make_shared<Result<std::unique_ptr<LoadedInstance>>>(Error{});
  loads_->run([this, order, loaded] { *loaded = loader_->load(std::move(*order)); },
              [this, id = message.instance, loaded] { instance_loaded(id, std::move(*loaded)); });
}

void Executor::instance_loaded(SandboxId id, Result<std::unique_ptr<LoadedInstance>> loaded) {
  Instance* instance = find(id);
  if (loaded.ok() && (instance == nullptr || instance->is_removed)) discard(std::move(*loaded));
  if (instance == nullptr) return;
  if (instance->is_removed) return remove(id);
  if (!loaded.ok()) {
    connection_.send(protocol::InstanceFailed{id, loaded.error()});
    remove(id);
    watch_.end_if_broken(loaded.error());
    return;
  }
  instance->loaded = std::move(*loaded);
  instance->memory = std::max(instance->memory, counted(*instance->loaded));
  if (has_layers(*instance)) layers_->add(id, instance->loaded->window, *instance->loaded->layers);
  set_limit();
  if (instance->share != instance->loaded_share) change_share(*instance);
  begin_arrival(*instance);
}

// Has the constants brought that are not there; answers when all are, or, if requests may begin
// before, when they have their places.
void Executor::begin_arrival(Instance& instance) {
  instance.is_arriving = true;
  instance.arrival_moved = Bytes(0);
  for (const Constant& constant : instance.loaded->constants) {
    const bool was_there = store_->find(constant.name) != nullptr;
    const auto pinned = contents_->pin_constant(constant, user_of(instance.id));
    if (!pinned.ok()) return arrival_failed(instance, pinned.error());
    instance.arriving.push_back(constant.name);
    if (!was_there) instance.arrival_moved += constant.size;
  }
  grow_ahead(instance);
  if (options_.pipelined) say_arrived(instance);
  arrive(instance);
}

// Looks whether all are there.
void Executor::arrive(Instance& instance) {
  for (const Constant& constant : instance.loaded->constants) {
    const auto content = contents_->look(constant, user_of(instance.id));
    if (!content.ok()) return arrival_failed(instance, content.error());
    if (!content->is_here) return;
  }
  end_arrival(instance);
  if (instance.is_removed) return instance.request == nullptr ? remove(instance.id) : void();
  if (!options_.pipelined) say_arrived(instance);
  if (std::exchange(instance.goes_out, false)) move_out(instance);
}

void Executor::end_arrival(Instance& instance) {
  instance.is_arriving = false;
  for (const DeviceName& name : std::exchange(instance.arriving, {})) contents_->unpin(name);
}

void Executor::say_arrived(Instance& instance) {
  const Duration elapsed = loop_.clock().now() - instance.arrival_began;
  if (std::exchange(instance.was_added, false)) {
    Bytes constants;
    for (const Constant& constant : instance.loaded->constants) {
      constants += pool_->rounded(constant.size);
    }
    connection_.send(protocol::InstanceReady{instance.id, elapsed, constants});
  } else {
    connection_.send(protocol::InstanceMoved{.instance = instance.id,
                                             .moved = instance.arrival_moved,
                                             .left = memory_of(instance),
                                             .duration = elapsed});
  }
  instance.is_usable = true;
}

void Executor::arrival_failed(Instance& instance, const Error& error) {
  end_arrival(instance);
  if (watch_.end_if_broken(error)) return;
  if (instance.is_removed) return instance.request == nullptr ? remove(instance.id) : void();
  if (std::exchange(instance.goes_out, false)) return move_out(instance);
  if (instance.is_usable) return;  // requests ask for them again, and get the error
  if (instance.was_added) {
    connection_.send(protocol::InstanceFailed{instance.id, error});
    return remove(instance.id);
  }
  instance.is_in = false;
  set_limit();
  connection_.send(
      protocol::InstanceMoved{.instance = instance.id,
                              .done = false,
                              .duration = loop_.clock().now() - instance.arrival_began});
}

void Executor::handle(protocol::MoveInstance message, std::vector<OwnedFd>) {
  Instance* instance = find(message.instance);
  const bool is_idle = instance != nullptr && instance->loaded != nullptr &&
                       !instance->is_removed && instance->request == nullptr;
  if (is_idle && instance->is_arriving && instance->is_usable && message.out) {
    // Nothing can be taken away from what is on its way: it goes when it is there.
    instance->arrival_began = loop_.now();
    instance->is_usable = false;
    instance->goes_out = true;
    return;
  }
  if (!is_idle || instance->is_arriving) {
    // Unknown, or busy: its memory is needed where it is.
    connection_.send(
        protocol::InstanceMoved{.instance = message.instance, .out = message.out, .done = false});
    return;
  }
  instance->arrival_began = loop_.now();
  if (message.out) return move_out(*instance);
  instance->is_in = true;
  instance->is_usable = false;
  set_limit();
  begin_arrival(*instance);
}

void Executor::move_out(Instance& instance) {
  instance.reserved->release();
  const Bytes before = memory_of(instance);
  instance.is_in = false;
  instance.is_usable = false;
  // Its own things go first, as far as the others' part does not hold them all.
  Bytes allowed = object_room_;
  for (const auto& [id, other] : instances_) {
    if (other->is_in) allowed += other->memory - window_of(*other);
  }
  if (store_->used() > allowed) drop_memory_of(instance);
  set_limit();
  trimmer_->watch();
  const Bytes moved = before - memory_of(instance);
  if (!has_layers(instance)) return say_moved_out(instance.id, moved);
  layers_->move_out(instance.id, [this, id = instance.id, moved] { say_moved_out(id, moved); });
}

void Executor::say_moved_out(SandboxId id, Bytes moved) {
  const Instance* instance = find(id);
  if (instance == nullptr || instance->loaded == nullptr || watch_.has_ended()) return;
  connection_.send(
      protocol::InstanceMoved{.instance = id,
                              .out = true,
                              .moved = moved,
                              .left = memory_of(*instance),
                              .duration = loop_.clock().now() - instance->arrival_began});
}

void Executor::handle(protocol::RemoveInstance message, std::vector<OwnedFd>) {
  Instance* instance = find(message.instance);
  if (instance == nullptr) return;
  instance->is_removed = true;
  if (instance->request != nullptr) instance->request->is_withdrawn = true;
  if (instance->loaded != nullptr) instance->loaded->program->stop_loops();
  if (instance->request != nullptr &&
      (instance->request->awaits_constant || instance->request->awaits_layer ||
       instance->request->awaits_room)) {
    return fail(*instance, {ErrorCode::kUnavailable, "it was removed"});
  }
  // What another thread or the device still works on goes when that has ended.
  const bool is_loading = instance->loaded == nullptr;
  const bool waits =
      instance->request != nullptr && instance->request->stage == RequestUnderWay::Stage::kContents;
  if (is_loading || (instance->request != nullptr && !waits)) return;
  remove(message.instance);
}

void Executor::remove(SandboxId id) {
  Instance& instance = *instances_.at(id);
  if (instance.request != nullptr) {
    protocol::Finished finished;
    finished.invocation = instance.request->message.invocation;
    finished.error = Error{ErrorCode::kUnavailable, "the instance was removed"};
    release(instance);
    connection_.send(std::move(finished));
  }
  // What is on its way for it takes memory until it is there, and counts as long.
  if (instance.is_arriving) return;
  instance.reserved->release();
  if (instance.loaded != nullptr) drop_memory_of(instance);
  if (instance.loaded != nullptr && has_layers(instance)) {
    auto going = std::make_shared<std::unique_ptr<LoadedInstance>>(std::move(instance.loaded));
    layers_->remove(id, [this, going] { discard(std::move(*going)); });
  } else if (instance.loaded != nullptr) {
    discard(std::move(instance.loaded));
  }
  shares_.take_back(id);
  instances_.erase(id);
  set_limit();
  trimmer_->watch();
  if (layers_ != nullptr) layers_->room_came();
}

// To give page-locked memory back, the driver may wait for all that runs on the device.
void Executor::discard(std::unique_ptr<LoadedInstance> loaded) {
  auto going = std::make_shared<std::unique_ptr<LoadedInstance>>(std::move(loaded));
  PagePool* pages = (*going)->window != 0 ? &layers_->pages() : nullptr;
  loads_->run(
      [going, pages] {
        if (pages != nullptr) pages->close((*going)->window);
        going->reset();
      },
      [] {});
}

// Everything that is the instance's alone, and constants that no other instance has.
Bytes Executor::drop_memory_of(Instance& instance) {
  const Bytes before = store_->used();
  const LoadedInstance& loaded = *instance.loaded;
  store_->drop(DeviceName::of(instance.id, DeviceName::kTemporaries));
  for (uint32_t i = 0; i < loaded.graph.buffers.size(); ++i) {
    store_->drop(DeviceName::of(instance.id, i));
    store_->drop(DeviceName::of(instance.id, i | kCopiedOutput));
  }
  for (const Constant& constant : loaded.constants) {
    const bool is_shared =
        std::any_of(instances_.begin(), instances_.end(), [&](const auto& other) {
          if (other.first == instance.id || other.second->loaded == nullptr) return false;
          const auto& theirs = other.second->loaded->constants;
          return other.second->is_in &&
                 std::any_of(theirs.begin(), theirs.end(),
                             [&](const Constant& each) { return each.name == constant.name; });
        });
    if (!is_shared) store_->drop(constant.name);
  }
  return before - store_->used();
}

Bytes Executor::memory_of(const Instance& instance) {
  Bytes sum;
  const auto add = [&](const DeviceName& name) {
    if (const auto* entry = store_->find(name)) sum += entry->size;
  };
  add(DeviceName::of(instance.id, DeviceName::kTemporaries));
  for (uint32_t i = 0; i < instance.loaded->graph.buffers.size(); ++i) {
    if (instance.loaded->graph.buffers[i].role == kernel_graph::BufferRole::kConstant) continue;
    add(DeviceName::of(instance.id, i));
    add(DeviceName::of(instance.id, i | kCopiedOutput));
  }
  for (const Constant& constant : instance.loaded->constants) add(constant.name);
  return sum;
}

// Dispatch counts with bytes; what lies on the device is in whole blocks of the pool.
Bytes Executor::counted(const LoadedInstance& loaded) const {
  Bytes sum = pool_->rounded(loaded.plan.temporaries);
  for (uint32_t i = 0; i < loaded.graph.buffers.size(); ++i) {
    if (loaded.graph.buffers[i].role == kernel_graph::BufferRole::kTemporary) continue;
    sum += pool_->rounded(loaded.plan.sizes[i]);
  }
  return sum;
}

void Executor::set_limit() {
  Bytes limit = object_room_;
  for (const auto& [id, instance] : instances_) {
    if (instance->is_in) limit += instance->memory - window_of(*instance);
  }
  store_->set_limit(limit);
}

}  // namespace lambent::executor
