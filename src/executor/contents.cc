#include "executor/contents.h"

#include <utility>

#include "base/check.h"
#include "domain/limits.h"
#include "executor/sealed_file.h"

namespace lambent::executor {
namespace {

// Shared content is of no seat.
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

Result<std::unique_ptr<Contents>> Contents::create(const cuda::Driver& driver, DeviceStore& store,
                                                   DeviceThread& copies, Hooks hooks) {
  ASSIGN_OR_RETURN(auto stream, cuda::Stream::create(driver));
  ASSIGN_OR_RETURN(auto copier, Copier::create(driver));
  return std::unique_ptr<Contents>(
      new Contents(std::move(stream), std::move(copier), store, copies, std::move(hooks)));
}

Result<std::optional<CUdeviceptr>> Contents::pin_filled(DeviceStore::Entry& entry,
                                                        const DeviceName& name) {
  if (!entry.filled) return std::optional<CUdeviceptr>();
  store_.pin(name);
  return std::optional(entry.address);
}

Result<std::optional<CUdeviceptr>> Contents::pin_constant(const Constant& constant) {
  if (const auto error = errors_.find(constant.name); error != errors_.end()) return error->second;
  if (auto* entry = store_.find(constant.name)) return pin_filled(*entry, constant.name);
  CopyIn source;
  source.pattern = constant.pattern;
  if (constant.file != nullptr) source.fd = constant.file->get();
  RETURN_IF_ERROR(fill(constant.name, constant.size, std::move(source), {}, constant.file));
  return std::optional<CUdeviceptr>();
}

Result<std::optional<CUdeviceptr>> Contents::pin_object(ObjectId object, const TensorType& type) {
  const DeviceName name = DeviceName::of(object);
  if (const auto error = errors_.find(name); error != errors_.end()) return error->second;
  if (auto* entry = store_.find(name)) {
    RETURN_IF_ERROR(check_type(object, entry->type, type));
    return pin_filled(*entry, name);
  }
  const HostObject* host = on_host(object);
  if (host == nullptr) return std::optional<CUdeviceptr>();
  RETURN_IF_ERROR(check_type(object, host->type, type));
  CopyIn source;
  source.fd = host->file->get();
  RETURN_IF_ERROR(fill(name, host->size, std::move(source), host->type, host->file));
  return std::optional<CUdeviceptr>();
}

Result<std::shared_ptr<OwnedFd>> Contents::host_object(ObjectId object, const TensorType& type) {
  const DeviceName name = DeviceName::of(object);
  if (const auto error = errors_.find(name); error != errors_.end()) return error->second;
  const HostObject* host = on_host(object);
  if (host == nullptr) return std::shared_ptr<OwnedFd>();
  RETURN_IF_ERROR(check_type(object, host->type, type));
  return host->file;
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

Result<void> Contents::fill(const DeviceName& name, Bytes size, CopyIn source, TensorType type,
                            std::shared_ptr<OwnedFd> owner) {
  ASSIGN_OR_RETURN(const auto placed, store_.place(name, size, kNobody));
  DeviceStore::Entry& entry = *store_.find(name);
  entry.filled = false;
  entry.type = std::move(type);
  source.to = placed.address;
  source.size = size;
  auto outcome = std::make_shared<Result<void>>();
  copies_.run(
      [this, source = std::move(source), owner = std::move(owner), outcome] {
        *outcome = copier_->copy_in(stream_, std::span(&source, 1));
        // After an error too: the place goes to others when nothing is on its way there any more.
        const auto ended = stream_.synchronize();
        if (outcome->ok()) *outcome = ended;
      },
      [this, name, outcome] {
        store_.find(name)->filled = true;
        if (outcome->ok()) {
          tell(name, std::nullopt);
          store_.unpin(name);
        } else {
          store_.unpin(name);
          store_.drop(name);
          tell(name, outcome->error());
        }
      });
  return {};
}

void Contents::tell(const DeviceName& name, std::optional<Error> error) {
  if (error) errors_.insert_or_assign(name, std::move(*error));
  hooks_.progress();
  errors_.erase(name);
}

void Contents::opened(const protocol::ObjectOpened& answer, OwnedFd file) {
  asked_.erase(answer.object);
  const DeviceName name = DeviceName::of(answer.object);
  if (answer.error) return tell(name, answer.error);
  const auto size = byte_size(answer.type);
  if (!size.ok()) return tell(name, size.error());
  const auto sound = check_sealed(file.get(), *size);
  if (!sound.ok()) return tell(name, sound.error());
  if (!on_host_.contains(answer.object)) {
    keep_on_host({answer.object, std::make_shared<OwnedFd>(std::move(file)), answer.type, *size});
  }
  tell(name, std::nullopt);
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
