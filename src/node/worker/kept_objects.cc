#include "node/worker/kept_objects.h"

#include <algorithm>
#include <utility>

namespace lambent::worker {
namespace {

// Who waits for an object does not wait longer for an executor that says nothing.
constexpr Duration kLongestSilence = seconds(30);

Error lost(ObjectId object, const ExecutorKey& holder, const std::string& why) {
  return {ErrorCode::kDataLoss, "object " + to_string(object) + " was kept on GPU " +
                                    std::to_string(holder.device.value - 1) +
                                    " only, and is lost: " + why};
}

}  // namespace

KeptObjects::KeptObjects(loop::EventLoop& loop, ExecutorSupervisor& supervisor,
                         objects::ObjectStore* store)
    : loop_(loop), supervisor_(supervisor), store_(store) {
  if (store_ == nullptr) return;
  store_->bring_from_devices([this](TenantId tenant, ObjectId object) { bring({tenant, object}); });
}

KeptObjects::~KeptObjects() {
  if (store_ != nullptr) store_->bring_from_devices({});
}

Result<void> KeptObjects::store(const objects::ObjectKey& object, const ExecutorKey& holder,
                                const TensorType& type, std::optional<Duration> time_to_live) {
  const auto size = byte_size(type);
  if (!size.ok()) return size.error();
  // Before the store has it: who waits for it may have it brought at once.
  const bool is_new = objects_.try_emplace(object, Kept{holder, *size}).second;
  auto stored = store_->store_on_device(object.tenant, object.object, type, time_to_live);
  if (stored.ok()) {
    count(Event::kKept, *size);
  } else if (is_new) {
    objects_.erase(object);
  }
  return stored;
}

void KeptObjects::bring(const objects::ObjectKey& object) {
  const auto found = objects_.find(object);
  if (found == objects_.end()) return;
  Kept& kept = found->second;
  kept.asked = ++questions_;
  supervisor_.send(kept.holder, protocol::WriteObject{object.object});
  loop_.call_after(
      kLongestSilence, [this, object, question = kept.asked, alive = std::weak_ptr(alive_)] {
        if (alive.expired()) return;
        const auto still = objects_.find(object);
        if (still == objects_.end() || still->second.asked != question) return;
        still->second.asked = 0;
        store_->not_brought(object.tenant, object.object,
                            {ErrorCode::kUnavailable, "its executor does not answer; try again"});
      });
}

void KeptObjects::on(const ExecutorKey& key, const protocol::ObjectWritten& message,
                     std::vector<OwnedFd> fds) {
  const objects::ObjectKey object{key.tenant, message.object};
  const auto found = objects_.find(object);
  // It went meanwhile, or its file has come before.
  if (found == objects_.end() || found->second.holder != key) return;
  const bool is_gone = message.error && message.error->code == ErrorCode::kNotFound;
  if (is_gone) {
    count(Event::kLost, found->second.size);
    objects_.erase(found);
    store_->lose(key.tenant, message.object, lost(message.object, key, message.error->message));
    return tell_if_cleared(key);
  }
  const Kept kept = found->second;
  found->second.asked = 0;
  if (message.error || fds.size() != 1) {
    const Error error = message.error.value_or(
        Error{ErrorCode::kInternal, "lambent-executor sent an object without its bytes"});
    return store_->not_brought(key.tenant, message.object, error);
  }
  objects_.erase(found);
  const auto came = store_->came(key.tenant, message.object, std::move(fds.front()));
  if (!came.ok()) {
    count(Event::kLost, kept.size);
    store_->lose(key.tenant, message.object, lost(message.object, key, came.error().message));
  } else if (*came) {
    count(kept.asked > 0 ? Event::kRead : Event::kEvicted, kept.size);
  }
  tell_if_cleared(key);
}

void KeptObjects::gone(const objects::ObjectKey& object) {
  const auto found = objects_.find(object);
  if (found == objects_.end()) return;
  const Kept kept = found->second;
  objects_.erase(found);
  count(Event::kAvoided, kept.size);
  tell_if_cleared(kept.holder);
}

void KeptObjects::executor_ended(const ExecutorKey& key, const Error& cause) {
  std::vector<std::pair<objects::ObjectKey, Bytes>> all;
  for (const auto& [object, kept] : objects_) {
    if (kept.holder == key) all.emplace_back(object, kept.size);
  }
  for (const auto& [object, size] : all) {
    count(Event::kLost, size);
    objects_.erase(object);
  }
  for (const auto& [object, size] : all) {
    store_->lose(object.tenant, object.object, lost(object.object, key, cause.message));
  }
}

bool KeptObjects::any_of(const ExecutorKey& key) const {
  return std::ranges::any_of(objects_, [&](const auto& each) { return each.second.holder == key; });
}

bool KeptObjects::clear(const ExecutorKey& key) {
  bool any = false;
  for (auto& [object, kept] : objects_) {
    if (kept.holder != key) continue;
    any = true;
    supervisor_.send(key, protocol::WriteObject{object.object});
  }
  return any;
}

void KeptObjects::tell_if_cleared(const ExecutorKey& key) {
  if (!any_of(key)) supervisor_.cleared(key);
}

void KeptObjects::count(Event event, Bytes size) {
  Counted& counted = counted_[static_cast<size_t>(event)];
  ++counted.objects;
  counted.bytes += size;
}

}  // namespace lambent::worker
