#include "gpu/executor/kept_objects.h"

#include <algorithm>
#include <memory>
#include <tuple>

#include "core/base/check.h"
#include "core/base/sealed_memory.h"

namespace lambent::executor {
namespace {

// Whose turn on the link a write takes: it is of no instance.
constexpr uint64_t kShared = 0;
// Where a place was missing, at least this part of the limit is written at once.
constexpr uint64_t kBatches = 8;

}  // namespace

bool KeptObjects::has_room(Bytes more) const {
  return size_ + more <= Bytes(pool_.limit().count / 4 * 3);
}

void KeptObjects::keep(ObjectId object) {
  if (has(object)) return;
  const DeviceName name = DeviceName::of(object);
  store_.pin(name);
  DeviceStore::Entry& entry = *store_.find(name);
  entry.is_kept = true;
  objects_.emplace(object, Kept{.size = entry.size});
  size_ += entry.size;
  write_oldest(size_ - Bytes(pool_.limit().count / 2));
}

void KeptObjects::write(ObjectId object) {
  const auto found = objects_.find(object);
  if (found == objects_.end()) {
    return hooks_.written(object,
                          Error{ErrorCode::kNotFound, "it does not lie on the device any more"});
  }
  if (!found->second.is_written) begin(object, found->second);
}

void KeptObjects::forget(ObjectId object) {
  const auto found = objects_.find(object);
  if (found == objects_.end()) return;
  if (found->second.is_written) {
    found->second.is_gone = true;
    return;
  }
  remove(object);
}

bool KeptObjects::make_room() {
  if (!is_writing()) write_oldest(std::max(Bytes(1), Bytes(pool_.limit().count / kBatches)));
  return is_writing();
}

void KeptObjects::when_written(std::function<void()> then) {
  Waiting waiting{.objects = {}, .then = std::move(then)};
  for (const auto& [object, kept] : objects_) {
    if (kept.is_written) waiting.objects.insert(object);
  }
  if (waiting.objects.empty()) return waiting.then();
  waiting_.push_back(std::move(waiting));
}

// What requests that are queued will read goes last.
void KeptObjects::write_oldest(Bytes size) {
  if (writing_ >= size) return;
  std::vector<std::tuple<bool, uint64_t, ObjectId>> order;
  for (const auto& [object, kept] : objects_) {
    const DeviceName name = DeviceName::of(object);
    if (!kept.is_written) {
      order.emplace_back(store_.is_wanted(name), store_.find(name)->last_use, object);
    }
  }
  std::ranges::sort(order);
  for (const auto& [wanted, last_use, object] : order) {
    if (writing_ >= size) return;
    begin(object, objects_.at(object));
  }
}

void KeptObjects::begin(ObjectId object, Kept& kept) {
  const DeviceStore::Entry& entry = *store_.find(DeviceName::of(object));
  const auto size = byte_size(entry.type);
  CHECK(size.ok(), "an object has a size");
  auto made = new_memory(*size);
  if (!made.ok()) return hooks_.written(object, made.error());
  kept.is_written = true;
  writing_ += kept.size;
  auto file = std::make_shared<OwnedFd>(std::move(*made));
  TransferEngine::Transfer transfer;
  transfer.owner = kShared;
  transfer.pieces.push_back({.device = entry.address, .size = *size, .fd = file->get()});
  transfer.on_end = [this, object, file](Result<void> outcome) {
    if (!outcome.ok()) return end(object, outcome.error());
    seal_file(object, file);
  };
  to_host_.start(std::move(transfer));
}

// Of a large file that takes its time.
void KeptObjects::seal_file(ObjectId object, std::shared_ptr<OwnedFd> file) {
  auto outcome = std::make_shared<Result<void>>();
  thread_.run([file, outcome] { *outcome = seal(file->get()); },
              [this, object, file, outcome] {
                end(object, outcome->ok() ? Result<OwnedFd>(std::move(*file))
                                          : Result<OwnedFd>(outcome->error()));
              });
}

void KeptObjects::end(ObjectId object, Result<OwnedFd> file) {
  Kept& kept = objects_.at(object);
  kept.is_written = false;
  writing_ -= kept.size;
  const bool is_gone = kept.is_gone, is_kept = !is_gone && !file.ok();
  // The worker hears of the file before it hears that the object has left the device.
  if (!is_gone) hooks_.written(object, std::move(file));
  if (!is_kept) remove(object);
  std::vector<std::function<void()>> ready;
  for (Waiting& each : waiting_) {
    each.objects.erase(object);
    if (each.objects.empty()) ready.push_back(std::move(each.then));
  }
  std::erase_if(waiting_, [](const Waiting& each) { return each.objects.empty(); });
  for (const auto& then : ready) then();
  hooks_.progress();
}

void KeptObjects::remove(ObjectId object) {
  const auto found = objects_.find(object);
  size_ -= found->second.size;
  objects_.erase(found);
  const DeviceName name = DeviceName::of(object);
  store_.find(name)->is_kept = false;
  store_.unpin(name);
}

}  // namespace lambent::executor
