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
// Files that are written at once, or on their way to the worker: so many, of so much host memory,
// or one.
constexpr size_t kMostFiles = 64;
constexpr Bytes kMostHostMemory = Bytes::gib(1);

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
  const Stage stage = found->second.stage;
  // One that was chosen here need not wait for the others.
  if (stage == Stage::kQueued) asked_.push_back(object);
  if (stage == Stage::kLies) queue(object, found->second, asked_);
}

void KeptObjects::acknowledge(ObjectId object, const std::optional<Error>& error) {
  const auto found = objects_.find(object);
  if (found == objects_.end()) return;
  Kept& kept = found->second;
  if (error) {
    if (kept.stage == Stage::kSent) not_written(object);
    return;
  }
  ++successes_;
  // The file of an earlier write was acknowledged late: this one is of no use.
  if (kept.stage == Stage::kWritten) {
    kept.is_gone = true;
    return;
  }
  settle(kept);
  remove(object);
  tell(object);
}

void KeptObjects::forget(ObjectId object) {
  const auto found = objects_.find(object);
  if (found == objects_.end()) return;
  Kept& kept = found->second;
  if (kept.stage == Stage::kWritten) {
    kept.is_gone = true;
    return;
  }
  const bool was_awaited = kept.stage != Stage::kLies;
  settle(kept);
  remove(object);
  if (was_awaited) tell(object);
}

bool KeptObjects::make_room() {
  if (!is_writing()) write_oldest(std::max(Bytes(1), Bytes(pool_.limit().count / kBatches)));
  return is_writing();
}

void KeptObjects::when_written(std::function<void()> then) {
  Waiting waiting{.objects = {}, .then = std::move(then)};
  for (const auto& [object, kept] : objects_) {
    if (kept.stage != Stage::kLies) waiting.objects.insert(object);
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
    if (kept.stage == Stage::kLies && kept.failed_at != successes_) {
      order.emplace_back(store_.is_wanted(name), store_.find(name)->last_use, object);
    }
  }
  std::ranges::sort(order);
  for (const auto& [wanted, last_use, object] : order) {
    if (writing_ >= size) return;
    Kept& kept = objects_.at(object);
    if (kept.stage == Stage::kLies) queue(object, kept, chosen_);
  }
}

void KeptObjects::queue(ObjectId object, Kept& kept, std::deque<ObjectId>& queue) {
  kept.stage = Stage::kQueued;
  writing_ += kept.size;
  queue.push_back(object);
  begin_queued();
}

bool KeptObjects::may_begin(Bytes size) const {
  return under_way_ == 0 || (under_way_ < kMostFiles && host_memory_ + size <= kMostHostMemory);
}

void KeptObjects::begin_queued() {
  while (!asked_.empty() || !chosen_.empty()) {
    auto& queue = asked_.empty() ? chosen_ : asked_;
    const auto found = objects_.find(queue.front());
    // Else it went, or was begun in its other place.
    const bool is_next = found != objects_.end() && found->second.stage == Stage::kQueued;
    if (is_next && !may_begin(found->second.size)) return;
    queue.pop_front();
    if (is_next) begin(found->first, found->second);
  }
}

void KeptObjects::begin(ObjectId object, Kept& kept) {
  const DeviceStore::Entry& entry = *store_.find(DeviceName::of(object));
  const auto size = byte_size(entry.type);
  CHECK(size.ok(), "an object has a size");
  kept.stage = Stage::kWritten;
  ++under_way_;
  host_memory_ += kept.size;
  auto made = new_memory(*size);
  if (!made.ok()) {
    // Not from within: the caller may be about to wait for it.
    return thread_.run([] {}, [this, object, error = made.error()] { end(object, error); });
  }
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
  if (kept.is_gone) {
    settle(kept);
    remove(object);
    return tell(object);
  }
  const bool is_good = file.ok();
  if (is_good) kept.stage = Stage::kSent;
  hooks_.written(object, std::move(file));
  if (!is_good) not_written(object);
}

// It stays, and can be asked for again.
void KeptObjects::not_written(ObjectId object) {
  Kept& kept = objects_.at(object);
  kept.failed_at = successes_;
  settle(kept);
  tell(object);
}

void KeptObjects::settle(Kept& kept) {
  const Stage before = std::exchange(kept.stage, Stage::kLies);
  if (before == Stage::kLies) return;
  writing_ -= kept.size;
  if (before == Stage::kQueued) return;
  --under_way_;
  host_memory_ -= kept.size;
}

void KeptObjects::tell(ObjectId object) {
  std::vector<std::function<void()>> ready;
  for (Waiting& each : waiting_) {
    each.objects.erase(object);
    if (each.objects.empty()) ready.push_back(std::move(each.then));
  }
  std::erase_if(waiting_, [](const Waiting& each) { return each.objects.empty(); });
  for (const auto& then : ready) then();
  begin_queued();
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
