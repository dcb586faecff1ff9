// The part of ExecutorHost that knows of objects: those that executors ask for, share, keep and
// must forget, and how much of each device they may take.
#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/protocol/pool_units.h"
#include "node/worker/executor_instance.h"

namespace lambent::worker {

void ExecutorHost::on(const Key& key, const protocol::OpenObject& message) {
  // It must be there by now: who waits for one holds no place on a device meanwhile.
  const SandboxId executor = supervisor_.process_of(key);
  const auto reply = [this, key, executor, object = message.object, alive = std::weak_ptr(alive_)](
                         Result<objects::OpenedObject> opened,
                         std::optional<ObjectExports::Export> object_export) {
    if (alive.expired() || supervisor_.process_of(key) != executor) return;
    protocol::ObjectOpened answer;
    answer.object = object;
    std::vector<OwnedFd> fds;
    if (opened.ok()) {
      answer.type = opened->type;
      fds.push_back(std::move(opened->memfd));
    } else {
      answer.error = opened.error();
      if (objects_ != nullptr) {
        const auto known = objects_->status(key.tenant, object);
        answer.failed = known.ok() && known->state == objects::ObjectState::kFailed;
      }
    }
    if (opened.ok()) {
      ElasticObjects::Moved& read = reads_[!object_export                      ? 2
                                           : object_export->from != key.device ? 1
                                                                               : 0];
      ++read.objects;
      read.bytes += opened->size;
    }
    if (object_export) {
      answer.shared = object_export->size;
      fds.push_back(std::move(object_export->memory));
    }
    const bool there = !answer.error;
    supervisor_.send(key, std::move(answer), std::move(fds));
    if (!there) return;
    // It may have gone meanwhile, and then this one has not been told of it.
    if (objects_->status(key.tenant, object).ok()) {
      places_.note({key.tenant, object}, key);
    } else {
      supervisor_.send(key, protocol::DropObject{object, true});
    }
  };
  if (objects_ == nullptr) {
    return reply(Error{ErrorCode::kNotFound, "there is no object " + to_string(message.object)},
                 std::nullopt);
  }
  objects_->open(key.tenant, message.object, loop_.clock().now(),
                 [this, key, reply, object = message.object,
                  alive = std::weak_ptr(alive_)](Result<objects::OpenedObject> opened) {
                   if (alive.expired()) return;
                   if (!opened.ok()) return reply(std::move(opened), std::nullopt);
                   auto found = std::make_shared<objects::OpenedObject>(std::move(*opened));
                   const auto with_export =
                       [reply, found](std::optional<ObjectExports::Export> object_export) {
                         reply(std::move(*found), std::move(object_export));
                       };
                   if (!shares_ || !exports_.import(object, key, with_export))
                     with_export(std::nullopt);
                 });
}

void ExecutorHost::on(const Key& key, const protocol::ObjectShared& message,
                      std::vector<OwnedFd> fds) {
  if (message.error) return exports_.shared(key, message.object, *message.error);
  OwnedFd memory = fds.size() == 1 ? std::move(fds.front()) : OwnedFd();
  exports_.shared(key, message.object, ObjectExports::Export{message.shared, std::move(memory)});
}

void ExecutorHost::on(const Key& key, const protocol::ObjectHeld& message) {
  const objects::ObjectKey object{key.tenant, message.object};
  if (objects_ == nullptr) return;
  if (message.object == ObjectId{}) return elastic_.made_way(key);
  const auto known = objects_->status(key.tenant, message.object);
  if (message.held > Bytes(0) && !known.ok()) {
    // It was deleted on its way to this one, which nobody knew then to have it.
    return supervisor_.send(key, protocol::DropObject{message.object, true});
  }
  // No executor can say that more is taken than that.
  const Bytes most = known.ok() ? known->size + protocol::kPoolUnit : Bytes(0);
  elastic_.held(object, key, std::min(message.held, most));
  if (message.held > Bytes(0)) tell_need(object, key);
}

void ExecutorHost::object_made(const Key& key, const protocol::OutputObject& output) {
  const objects::ObjectKey object{key.tenant, output.object};
  places_.note(object, key);
  // As large as it is, whatever was said of it. Smaller ones share a unit of the device's memory
  // with others: they come from the host as quickly, and take little.
  const auto known = objects_->status(key.tenant, output.object);
  if (!known.ok() || known->size < protocol::kLeastLarge) return;
  const uint64_t unit = protocol::kPoolUnit.count;
  places_.held(object, key, Bytes((known->size.count + unit - 1) / unit * unit));
  tell_need(object, key);
}

void ExecutorHost::need_objects(TenantId tenant, const std::vector<ObjectId>& objects,
                                bool begins) {
  for (const ObjectId each : objects) {
    const objects::ObjectKey object{tenant, each};
    if (begins) {
      if (++needs_[object].requests > 1) continue;
      // What shares memory with others is not worth a message.
      const auto* copies = places_.find(object);
      if (copies == nullptr) continue;
      for (const ObjectPlaces::Copy& copy : *copies) {
        if (copy.held > Bytes(0)) tell_need(object, copy.holder);
      }
      continue;
    }
    const auto found = needs_.find(object);
    CHECK(found != needs_.end(), "a need ends after it began");
    if (--found->second.requests > 0) continue;
    for (const Key& key : found->second.told) {
      supervisor_.send(key, protocol::NeedObject{each, false});
    }
    needs_.erase(found);
  }
}

void ExecutorHost::tell_need(const objects::ObjectKey& object, const Key& key) {
  const auto found = needs_.find(object);
  if (found == needs_.end() || !found->second.told.insert(key).second) return;
  supervisor_.send(key, protocol::NeedObject{object.object, true});
}

// What was made and is kept nowhere: its names mean nothing.
void ExecutorHost::discard(const Key& key, const std::vector<protocol::OutputObject>& made,
                           size_t first) {
  for (size_t i = first; i < made.size(); ++i) {
    supervisor_.send(key, protocol::DropObject{made[i].object, true});
  }
}

void ExecutorHost::object_gone(TenantId tenant, ObjectId object) {
  for (const Key& key : places_.forget({tenant, object})) {
    supervisor_.send(key, protocol::DropObject{object, true});
  }
}

bool ExecutorHost::minds_objects() {
  if (!elastic_on_ || objects_ == nullptr || supervisor_.empty()) return false;
  if (places_.on_devices() > Bytes(0)) return true;
  // Nothing has to make way: rooms alone change, which nobody waits for.
  const Instant now = loop_.now();
  if (looked_at_objects_ && now - *looked_at_objects_ < store_options_.look_ahead) return false;
  looked_at_objects_ = now;
  return true;
}

void ExecutorHost::look_at_objects(const std::vector<DeviceClaim>& claims,
                                   const std::function<bool(FunctionId)>& has_queue) {
  std::vector<ElasticObjects::DeviceMemory> devices;
  for (const DeviceClaim& claim : claims) {
    // Every instance's profile has one step: its request is one CUDA graph, mostly, and what is
    // queued for it may begin at once.
    std::vector<MemoryProfile> profiles;
    Bytes shares;
    for (const auto& [id, instance] : instances_) {
      if (instance->key.device != claim.device || instance->out) continue;
      shares += instance->spec.gpu.memory;
      MemoryProfile& profile = profiles.emplace_back();
      profile.whole = needed_by(*instance, has_queue);
      profile.kernels = {{.duration = store_options_.look_ahead, .live = profile.whole}};
    }
    std::vector<scheduling::RunningFunction> running;
    for (const MemoryProfile& profile : profiles) running.push_back({.profile = &profile});
    const Bytes own = taken(claim.device);
    const Bytes others = claim.claimed - shares;
    devices.push_back({.device = claim.device,
                       .memory = claim.memory,
                       .needed = own + others + scheduling::functions_need(store_options_, running),
                       .unclaimed = claim.memory - std::max(claim.claimed, shares) - own});
  }
  elastic_.look(std::move(devices));
}

// One that has nothing to do needs no more than what it would be cold without.
Bytes ExecutorHost::needed_by(const Instance& instance,
                              const std::function<bool(FunctionId)>& has_queue) const {
  if (!instance.ready) return instance.spec.gpu.memory;
  if (!instance.current && !has_queue(instance.spec.id)) return instance.constants;
  if (instance.device_memory_peak == Bytes(0)) return instance.spec.gpu.memory;
  return std::max(instance.device_memory_peak, instance.constants);
}

}  // namespace lambent::worker
