#include "gpu/executor/contents.h"

#include <utility>

#include "core/base/check.h"
#include "core/base/sealed_memory.h"
#include "gpu/executor/limits.h"

namespace lambent::executor {
namespace {

// Shared content is of no instance.
constexpr uint64_t kNobody = 0;

Result<void> check_type(ObjectId object, const TensorType& has, const TensorType& wanted) {
  if (has == wanted) return {};
  if (has.datatype == DataType::kBytes) {
    const auto size = byte_size(has), needed = byte_size(wanted);
    if (size.ok() && needed.ok() && *size == *needed) return {};
  }
  return Error{
      ErrorCode::kInvalidArgument,
      "object " + to_string(object) + " is " + to_string(has) + " instead of " + to_string(wanted)};
}

}  // namespace

Contents::Content Contents::content_of(const DeviceName& name) {
  const DeviceStore::Entry& entry = *store_.find(name);
  const auto arrival = arrivals_.find(name);
  return {entry.address, entry.filled, arrival == arrivals_.end() ? nullptr : arrival->second};
}

bool Contents::is_brought(const DeviceName& name) {
  const auto* entry = store_.find(name);
  return entry != nullptr && (entry->filled || arrivals_.contains(name));
}

Result<Contents::Content> Contents::pin_constant(const Constant& constant, uint64_t owner) {
  ASSIGN_OR_RETURN(const Content content, look(constant, owner));
  store_.pin(constant.name);
  return content;
}

Result<Contents::Content> Contents::look(const Constant& constant, uint64_t owner) {
  if (const auto error = errors_.find(constant.name); error != errors_.end())
    return error->second.error;
  if (!is_brought(constant.name)) {
    RETURN_IF_ERROR(
        bring(constant.name, {constant.file, constant.pattern, constant.size, {}}, owner));
  }
  return content_of(constant.name);
}

Result<std::optional<CUdeviceptr>> Contents::pin_object(ObjectId object, const TensorType& type,
                                                        uint64_t owner) {
  const DeviceName name = DeviceName::of(object);
  if (const auto error = errors_.find(name); error != errors_.end()) return error->second.error;
  if (is_brought(name)) {
    const auto* entry = store_.find(name);
    RETURN_IF_ERROR(check_type(object, entry->type, type));
    if (!entry->filled) return std::optional<CUdeviceptr>();
    store_.pin(name);
    return std::optional(entry->address);
  }
  const HostObject* host = on_host(object);
  if (host == nullptr) return std::optional<CUdeviceptr>();
  RETURN_IF_ERROR(check_type(object, host->type, type));
  RETURN_IF_ERROR(
      bring(name, {host->file, {}, host->size, host->type, host->object_export}, owner));
  return std::optional<CUdeviceptr>();
}

Result<std::shared_ptr<OwnedFd>> Contents::host_object(ObjectId object, const TensorType& type) {
  const DeviceName name = DeviceName::of(object);
  if (const auto error = errors_.find(name); error != errors_.end()) return error->second.error;
  const HostObject* host = on_host(object);
  if (host == nullptr) return std::shared_ptr<OwnedFd>();
  RETURN_IF_ERROR(check_type(object, host->type, type));
  return host->file;
}

bool Contents::has_failed(ObjectId object) const {
  const auto problem = errors_.find(DeviceName::of(object));
  return problem != errors_.end() && problem->second.failed;
}

Contents::HostObject* Contents::on_host(ObjectId object) {
  const auto known = on_host_.find(object);
  if (known == on_host_.end()) {
    if (asked_.insert(object).second) hooks_.open(object);
    return nullptr;
  }
  host_.splice(host_.begin(), host_, known->second);
  return &host_.front();
}

Result<void> Contents::bring(const DeviceName& name, const Source& source, uint64_t owner) {
  if (store_.find(name) == nullptr) {
    RETURN_IF_ERROR(store_.place(name, source.size, kNobody));
  } else {
    store_.pin(name);  // it failed before, and its place is still pinned
  }
  DeviceStore::Entry& entry = *store_.find(name);
  entry.filled = false;
  entry.type = source.type;
  arrivals_[name] = nullptr;
  if (import(name, source)) return {};
  TransferEngine::Transfer transfer;
  transfer.owner = owner;
  transfer.pieces.push_back({.device = entry.address,
                             .size = source.size,
                             .fd = source.file == nullptr ? -1 : source.file->get(),
                             .pattern = source.pattern});
  transfer.on_queued = [this, name](uint32_t, const cuda::Event& arrival) {
    arrivals_[name] = &arrival;
    hooks_.progress();
  };
  transfer.on_end = [this, name, file = source.file](Result<void> outcome) {
    ended(name, std::move(outcome));
  };
  engine_.start(std::move(transfer));
  return {};
}

// Copies what another executor shares; false if it must come from the host.
bool Contents::import(const DeviceName& name, const Source& source) {
  if (source.object_export == nullptr || importer_ == nullptr) return false;
  const auto copied = importer_->copy(
      source.object_export->memory, source.object_export->size, store_.find(name)->address,
      source.size, [this, name, object_export = source.object_export](Result<void> outcome) {
        ended(name, std::move(outcome));
      });
  return copied.ok();
}

void Contents::ended(const DeviceName& name, Result<void> outcome) {
  arrivals_.erase(name);
  if (!outcome.ok()) {
    store_.unpin(name);
    tell(name, outcome.error());
    // Who has pinned it all the same finds it not filled.
    return store_.drop(name);
  }
  DeviceStore::Entry& entry = *store_.find(name);
  entry.filled = true;
  if (name.kind == DeviceName::Kind::kObject && is_shareable(entry.size)) {
    hooks_.arrived(name.object(), entry.size);
  }
  // Who waits for a constant has pinned it, and may want to let it go; an object stays until those
  // who wait have pinned it.
  const bool is_object = name.kind == DeviceName::Kind::kObject;
  if (!is_object) store_.unpin(name);
  tell(name, std::nullopt);
  if (is_object) store_.unpin(name);
}

void Contents::tell(const DeviceName& name, std::optional<Error> error, bool failed) {
  if (error) errors_.insert_or_assign(name, Problem{std::move(*error), failed});
  hooks_.progress();
  errors_.erase(name);
}

void Contents::opened(const protocol::ObjectOpened& answer, OwnedFd file, OwnedFd shared) {
  asked_.erase(answer.object);
  std::shared_ptr<Export> object_export;
  if (answer.shared > Bytes(0)) {
    object_export.reset(new Export{answer.object, std::move(shared), answer.shared, hooks_});
  }
  const DeviceName name = DeviceName::of(answer.object);
  if (answer.error) return tell(name, answer.error, answer.failed);
  const auto size = byte_size(answer.type);
  if (!size.ok()) return tell(name, size.error());
  const auto has = check_sealed(file.get());
  if (!has.ok()) return tell(name, has.error());
  if (*has != *size) {
    return tell(name,
                Error{ErrorCode::kInvalidArgument, "an object's memfd has " + to_string(*has) +
                                                       " instead of " + to_string(*size)});
  }
  if (!on_host_.contains(answer.object)) {
    keep_on_host({answer.object, std::make_shared<OwnedFd>(std::move(file)), answer.type, *size,
                  object_export});
  }
  tell(name, std::nullopt);
  // Who wanted it on the device has taken it by now; it is shared for no longer.
  if (const auto known = on_host_.find(answer.object); known != on_host_.end()) {
    known->second->object_export.reset();
  }
}

void Contents::take(const protocol::TakeObject& message, OwnedFd shared) {
  const auto object_export = std::shared_ptr<Export>(
      new Export{message.object, std::move(shared), message.shared, hooks_});
  const DeviceName name = DeviceName::of(message.object);
  const auto size = byte_size(message.type);
  if (!size.ok() || store_.find(name) != nullptr || !store_.has_room(*size)) return;
  if (!store_.place(name, *size, kNobody).ok()) return;
  DeviceStore::Entry& entry = *store_.find(name);
  entry.filled = false;
  entry.type = message.type;
  arrivals_[name] = nullptr;
  if (import(name, {nullptr, {}, *size, message.type, object_export})) return;
  arrivals_.erase(name);
  store_.unpin(name);
  store_.drop(name);
}

void Contents::close_file(ObjectId object) {
  const auto known = on_host_.find(object);
  if (known == on_host_.end()) return;
  host_size_ -= known->second->size;
  host_.erase(known->second);
  on_host_.erase(known);
}

void Contents::forget(ObjectId object) {
  close_file(object);
  store_.leave(DeviceName::of(object));
}

void Contents::keep_on_host(HostObject object) {
  host_size_ += object.size;
  const ObjectId id = object.object;
  host_.push_front(std::move(object));
  on_host_[id] = host_.begin();
  // The one that was just opened stays at least until it was used.
  while (host_.size() > 1 &&
         (host_.size() > limits::kExecutorHostObjects || host_size_ > limits::kExecutorHostBytes)) {
    host_size_ -= host_.back().size;
    on_host_.erase(host_.back().object);
    host_.pop_back();
  }
}

}  // namespace lambent::executor
