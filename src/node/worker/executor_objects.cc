#include "node/worker/executor_objects.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/protocol/pool_units.h"

namespace lambent::worker {

ExecutorObjects::ExecutorObjects(loop::EventLoop& loop, ExecutorSupervisor& supervisor,
                                 objects::ObjectStore* store, Setting setting)
    : loop_(loop),
      supervisor_(supervisor),
      store_(store),
      setting_(setting),
      exports_(loop, supervisor, places_,
               [this](const auto& object, const ExecutorKey& exporter,
                      const ExecutorKey& importer) { elastic_.moved(object, exporter, importer); }),
      elastic_(loop, supervisor, places_, exports_, store, setting_.store),
      kept_(loop, supervisor, store) {
  if (store_ == nullptr) return;
  store_->on_gone([this](TenantId tenant, ObjectId object) { object_gone(tenant, object); });
}

ExecutorObjects::~ExecutorObjects() {
  if (store_ != nullptr) store_->on_gone({});
}

// It must be there by now: a request that waits for one holds no place on a device meanwhile.
void ExecutorObjects::on(const ExecutorKey& key, const protocol::OpenObject& message) {
  const auto reply = [this, key, executor = supervisor_.process_of(key), object = message.object,
                      alive = std::weak_ptr(alive_)](
                         Result<objects::OpenedObject> opened,
                         std::optional<ObjectExports::Export> object_export) {
    if (alive.expired() || supervisor_.process_of(key) != executor) return;
    answer_open(key, object, std::move(opened), std::move(object_export));
  };
  if (store_ == nullptr) {
    return reply(Error{ErrorCode::kNotFound, "there is no object " + to_string(message.object)},
                 std::nullopt);
  }
  store_->open(key.tenant, message.object, loop_.clock().now(),
               [this, key, reply, object = message.object,
                alive = std::weak_ptr(alive_)](Result<objects::OpenedObject> opened) {
                 if (alive.expired()) return;
                 if (!opened.ok()) return reply(std::move(opened), std::nullopt);
                 auto found = std::make_shared<objects::OpenedObject>(std::move(*opened));
                 const auto with_export =
                     [reply, found](std::optional<ObjectExports::Export> object_export) {
                       reply(std::move(*found), std::move(object_export));
                     };
                 if (!setting_.shares || !exports_.import(object, key, with_export)) {
                   with_export(std::nullopt);
                 }
               });
}

void ExecutorObjects::answer_open(const ExecutorKey& key, ObjectId object,
                                  Result<objects::OpenedObject> opened,
                                  std::optional<ObjectExports::Export> object_export) {
  protocol::ObjectOpened answer;
  answer.object = object;
  std::vector<OwnedFd> fds;
  if (opened.ok()) {
    count_read(key, opened->size, object_export);
    answer.type = opened->type;
    fds.push_back(std::move(opened->memfd));
  } else {
    answer.error = opened.error();
    if (store_ != nullptr) {
      const auto known = store_->status(key.tenant, object);
      answer.failed = known.ok() && known->state == objects::ObjectState::kFailed;
    }
  }
  if (object_export) {
    answer.shared = object_export->size;
    fds.push_back(std::move(object_export->memory));
  }
  const bool there = !answer.error;
  supervisor_.send(key, std::move(answer), std::move(fds));
  if (!there) return;
  // It may have gone meanwhile, and then this executor has not been told of it.
  if (store_->status(key.tenant, object).ok()) {
    places_.note({key.tenant, object}, key);
  } else {
    supervisor_.send(key, protocol::DropObject{object, true});
  }
}

void ExecutorObjects::count_read(const ExecutorKey& key, Bytes size,
                                 const std::optional<ObjectExports::Export>& object_export) {
  const size_t from = !object_export ? 2 : object_export->from != key.device ? 1 : 0;
  ++reads_[from].objects;
  reads_[from].bytes += size;
}

void ExecutorObjects::on(const ExecutorKey& key, const protocol::ObjectShared& message,
                         std::vector<OwnedFd> fds) {
  if (message.error) return exports_.shared(key, message.object, *message.error);
  OwnedFd memory = fds.size() == 1 ? std::move(fds.front()) : OwnedFd();
  exports_.shared(key, message.object, ObjectExports::Export{message.shared, std::move(memory)});
}

void ExecutorObjects::on(const ExecutorKey& key, const protocol::ObjectHeld& message) {
  const objects::ObjectKey object{key.tenant, message.object};
  if (store_ == nullptr) return;
  if (message.object == ObjectId{}) return elastic_.made_way(key);
  const auto known = store_->status(key.tenant, message.object);
  if (message.held > Bytes(0) && !known.ok()) {
    // It was deleted on its way to this executor, which was not known then to have it.
    return supervisor_.send(key, protocol::DropObject{message.object, true});
  }
  // No executor can report that more is taken than that.
  const Bytes most = known.ok() ? known->size + protocol::kPoolUnit : Bytes(0);
  elastic_.held(object, key, std::min(message.held, most));
  if (message.held > Bytes(0)) tell_need(object, key);
}

void ExecutorObjects::on(const ExecutorKey& key, const protocol::ExportEnded& message) {
  exports_.ended(key, message.object);
}

void ExecutorObjects::executor_ended(const ExecutorKey& key, const Error& cause) {
  places_.executor_ended(key);
  exports_.executor_ended(key);
  elastic_.executor_ended(key);
  kept_.executor_ended(key, cause);
  for (auto& [object, need] : needs_) need.told.erase(key);
}

Result<void> ExecutorObjects::store(const ExecutorKey& key, const protocol::Finished& message,
                                    std::vector<OwnedFd> memfds,
                                    std::optional<Duration> time_to_live) {
  for (size_t i = 0; i < message.objects.size(); ++i) {
    const protocol::OutputObject& output = message.objects[i];
    if (output.object.maker != message.invocation || store_ == nullptr) {
      return Error{ErrorCode::kInternal, "lambent-executor made an object that is not its own"};
    }
    auto stored = store_one(key, output, memfds, time_to_live);
    // One that ran twice, because its executor went in between, may have made it before.
    if (!stored.ok() && stored.error().code == ErrorCode::kAlreadyExists) {
      stored = still_there({key.tenant, output.object});
    }
    if (!stored.ok()) {
      discard(key, message.objects, i);
      return stored.error().with_context("outputs[" + std::to_string(output.output) + "]");
    }
    made(key, output);
  }
  return {};
}

Result<void> ExecutorObjects::store_one(const ExecutorKey& key,
                                        const protocol::OutputObject& output,
                                        std::vector<OwnedFd>& memfds,
                                        std::optional<Duration> time_to_live) {
  if (!output.kept) {
    OwnedFd memfd = std::move(memfds.front());
    memfds.erase(memfds.begin());
    return store_->store(key.tenant, output.object, output.type, std::move(memfd), time_to_live);
  }
  auto stored = kept_.store({key.tenant, output.object}, key, output.type, time_to_live);
  // The host has it: the executor need not keep what it has made again.
  if (!stored.ok() && stored.error().code == ErrorCode::kAlreadyExists) {
    supervisor_.send(key, protocol::WriteObject{output.object});
  }
  return stored;
}

// What was made before may have been lost with its executor.
Result<void> ExecutorObjects::still_there(const objects::ObjectKey& object) const {
  ASSIGN_OR_RETURN(const auto known, store_->status(object.tenant, object.object));
  if (known.state == objects::ObjectState::kFailed) return *known.cause;
  return {};
}

void ExecutorObjects::made(const ExecutorKey& key, const protocol::OutputObject& output) {
  const objects::ObjectKey object{key.tenant, output.object};
  places_.note(object, key);
  // As large as it is, whatever size the executor reported. Smaller ones share a unit of the
  // device's memory with others: they come from the host as quickly, and take little.
  const auto known = store_->status(key.tenant, output.object);
  if (!known.ok() || known->size < protocol::kLeastLarge) return;
  const uint64_t unit = protocol::kPoolUnit.count;
  places_.held(object, key, Bytes((known->size.count + unit - 1) / unit * unit));
  tell_need(object, key);
}

void ExecutorObjects::discard(const ExecutorKey& key,
                              const std::vector<protocol::OutputObject>& made, size_t first) {
  for (size_t i = first; i < made.size(); ++i) {
    supervisor_.send(key, protocol::DropObject{made[i].object, true});
  }
}

void ExecutorObjects::need(TenantId tenant, const std::vector<ObjectId>& objects, bool begins) {
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
    for (const ExecutorKey& key : found->second.told) {
      supervisor_.send(key, protocol::NeedObject{each, false});
    }
    needs_.erase(found);
  }
}

void ExecutorObjects::tell_need(const objects::ObjectKey& object, const ExecutorKey& key) {
  const auto found = needs_.find(object);
  if (found == needs_.end() || !found->second.told.insert(key).second) return;
  supervisor_.send(key, protocol::NeedObject{object.object, true});
}

void ExecutorObjects::object_gone(TenantId tenant, ObjectId object) {
  kept_.gone({tenant, object});
  for (const ExecutorKey& key : places_.forget({tenant, object})) {
    supervisor_.send(key, protocol::DropObject{object, true});
  }
}

bool ExecutorObjects::is_look_due() {
  if (!setting_.elastic || store_ == nullptr || supervisor_.empty()) return false;
  if (places_.on_devices() > Bytes(0)) return true;
  // Nothing has to be evicted: only the memory that objects may take changes, which is not urgent.
  const Instant now = loop_.now();
  if (looked_ && now - *looked_ < setting_.store.look_ahead) return false;
  looked_ = now;
  return true;
}

void ExecutorObjects::look(std::vector<ElasticObjects::DeviceMemory> devices) {
  elastic_.look(std::move(devices));
}

}  // namespace lambent::worker
