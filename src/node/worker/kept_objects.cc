#include "node/worker/kept_objects.h"

#include <utility>

namespace lambent::worker {
namespace {

// Who waits for an object does not wait longer for an executor that says nothing.
constexpr Duration kLongestSilence = seconds(30);
// An executor that is to end is asked for so many at once, and after an error not before this.
constexpr size_t kMostAsked = 64;
constexpr Duration kErrorPause = milliseconds(100);

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
  if (is_new) holders_[holder].objects.insert(object.object);
  auto stored = store_->store_on_device(object.tenant, object.object, type, time_to_live);
  if (stored.ok()) {
    count(Event::kKept, *size);
  } else if (is_new) {
    take_out(objects_.find(object));
  }
  return stored;
}

void KeptObjects::bring(const objects::ObjectKey& object) {
  const auto found = objects_.find(object);
  if (found == objects_.end()) return;
  const ExecutorKey& key = found->second.holder;
  Holder& holder = holders_.at(key);
  if (holder.awaited.empty()) {
    holder.silent_since = loop_.now();
    watch_silence(key, kLongestSilence);
  }
  holder.awaited.insert(object.object);
  holder.asked.insert(object.object);
  supervisor_.send(key, protocol::WriteObject{object.object});
}

// Whatever it says shows that it works.
void KeptObjects::watch_silence(const ExecutorKey& key, Duration left) {
  Holder& holder = holders_.at(key);
  loop_.cancel(holder.silence_timer);
  holder.silence_timer = loop_.call_after(left, [this, key, alive = std::weak_ptr(alive_)] {
    if (alive.expired() || !holders_.contains(key)) return;
    Holder& silent = holders_.at(key);
    if (silent.awaited.empty()) return;
    const Duration passed = loop_.now() - silent.silent_since;
    if (passed < kLongestSilence) return watch_silence(key, kLongestSilence - passed);
    const std::set<ObjectId> awaited = std::exchange(silent.awaited, {});
    for (const ObjectId object : awaited) silent.asked.erase(object);
    for (const ObjectId object : awaited) {
      store_->not_brought(key.tenant, object,
                          {ErrorCode::kUnavailable, "its executor does not answer; try again"});
    }
  });
}

void KeptObjects::on(const ExecutorKey& key, const protocol::ObjectWritten& message,
                     std::vector<OwnedFd> fds) {
  const objects::ObjectKey object{key.tenant, message.object};
  const auto found = objects_.find(object);
  // It went meanwhile, or its file has come before.
  if (found == objects_.end() || found->second.holder != key) {
    return acknowledge(key, message.object);
  }
  holders_.at(key).silent_since = loop_.now();
  const Bytes size = found->second.size;
  if (message.error && message.error->code == ErrorCode::kNotFound) {
    count(Event::kLost, size);
    take_out(found);
    store_->lose(key.tenant, message.object, lost(message.object, key, message.error->message));
    ask_for_more(key);
    return tell_if_cleared(key);
  }
  if (message.error || fds.size() != 1) {
    return not_written(
        key, message.object,
        message.error.value_or(
            Error{ErrorCode::kInternal, "lambent-executor sent an object without its bytes"}));
  }
  take_out(found);
  const bool is_read = store_->is_waited_for(key.tenant, message.object);
  const auto came = store_->came(key.tenant, message.object, std::move(fds.front()));
  if (!came.ok()) {
    count(Event::kLost, size);
    store_->lose(key.tenant, message.object, lost(message.object, key, came.error().message));
  } else if (*came) {
    count(is_read ? Event::kRead : Event::kEvicted, size);
  }
  acknowledge(key, message.object);
  ask_for_more(key);
  tell_if_cleared(key);
}

void KeptObjects::not_written(const ExecutorKey& key, ObjectId object, const Error& error) {
  Holder& holder = holders_.at(key);
  holder.asked.erase(object);
  holder.awaited.erase(object);
  acknowledge(key, object, error);
  if (!std::exchange(holder.is_pausing, true)) {
    holder.pause_timer = loop_.call_after(kErrorPause, [this, key, alive = std::weak_ptr(alive_)] {
      if (alive.expired() || !holders_.contains(key)) return;
      holders_.at(key).is_pausing = false;
      ask_for_more(key);
    });
  }
  store_->not_brought(key.tenant, object, error);
}

// Without an error the host has it, or has no use for it: then it is not only there.
void KeptObjects::acknowledge(const ExecutorKey& key, ObjectId object, std::optional<Error> error) {
  supervisor_.send(key, protocol::ObjectWritten{object, std::move(error)});
}

void KeptObjects::take_out(Objects::iterator found) {
  const auto holder = holders_.find(found->second.holder);
  const ObjectId object = found->first.object;
  objects_.erase(found);
  holder->second.objects.erase(object);
  holder->second.asked.erase(object);
  holder->second.awaited.erase(object);
  if (!holder->second.objects.empty()) return;
  loop_.cancel(holder->second.silence_timer);
  loop_.cancel(holder->second.pause_timer);
  holders_.erase(holder);
}

void KeptObjects::gone(const objects::ObjectKey& object) {
  const auto found = objects_.find(object);
  if (found == objects_.end()) return;
  const Kept kept = found->second;
  take_out(found);
  count(Event::kAvoided, kept.size);
  ask_for_more(kept.holder);
  tell_if_cleared(kept.holder);
}

void KeptObjects::executor_ended(const ExecutorKey& key, const Error& cause) {
  const auto holder = holders_.find(key);
  if (holder == holders_.end()) return;
  const std::set<ObjectId> all = holder->second.objects;
  for (const ObjectId object : all) {
    const auto found = objects_.find({key.tenant, object});
    count(Event::kLost, found->second.size);
    take_out(found);
  }
  for (const ObjectId object : all) {
    store_->lose(key.tenant, object, lost(object, key, cause.message));
  }
}

bool KeptObjects::clear(const ExecutorKey& key) {
  ask_for_more(key);
  return any_of(key);
}

// Of an executor that is to end.
void KeptObjects::ask_for_more(const ExecutorKey& key) {
  const auto found = holders_.find(key);
  if (found == holders_.end() || !supervisor_.is_clearing(key)) return;
  Holder& holder = found->second;
  if (holder.is_pausing) return;
  for (const ObjectId object : holder.objects) {
    if (holder.asked.size() >= kMostAsked) return;
    if (holder.asked.insert(object).second) supervisor_.send(key, protocol::WriteObject{object});
  }
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
