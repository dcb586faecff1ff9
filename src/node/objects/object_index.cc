#include "node/objects/object_index.h"

#include <algorithm>

#include "core/base/check.h"
#include "node/objects/limits.h"

namespace lambent::objects {
namespace {

Error exhausted(std::string message) { return {ErrorCode::kResourceExhausted, std::move(message)}; }

// What travels is neither spilled nor counted among the recently used.
bool is_at_rest_in_memory(ObjectPlace place) { return place == ObjectPlace::kMemory; }
bool takes_memory(ObjectPlace place) {
  return place == ObjectPlace::kMemory || place == ObjectPlace::kSpilling ||
         place == ObjectPlace::kReading || is_only_on_device(place);
}
bool takes_disk(ObjectPlace place) {
  return place == ObjectPlace::kSpilling || place == ObjectPlace::kDisk ||
         place == ObjectPlace::kReading;
}

}  // namespace

std::string_view name_of(ObjectState state) {
  switch (state) {
    case ObjectState::kExpected:
      return "expected";
    case ObjectState::kFailed:
      return "failed";
    case ObjectState::kExists:
      return "exists";
  }
  return "";
}

bool is_only_on_device(ObjectPlace place) {
  return place == ObjectPlace::kDevice || place == ObjectPlace::kComing;
}

std::string_view name_of(ObjectPlace place) {
  switch (place) {
    case ObjectPlace::kNowhere:
      return "nowhere";
    case ObjectPlace::kMemory:
      return "memory";
    case ObjectPlace::kSpilling:
      return "spilling";
    case ObjectPlace::kDisk:
      return "disk";
    case ObjectPlace::kReading:
      return "reading";
    case ObjectPlace::kDevice:
      return "device";
    case ObjectPlace::kComing:
      return "coming";
  }
  return "";
}

Result<void> ObjectIndex::expect(const ObjectKey& key, Instant now) {
  const auto found = entries_.find(key);
  if (found != entries_.end()) {
    if (found->second.status.state == ObjectState::kExpected) return {};
    return Error{ErrorCode::kAlreadyExists,
                 "object " + to_string(key.object) + " was made already"};
  }
  RETURN_IF_ERROR(check_count(key.tenant));
  Entry& entry = entries_[key];
  ++counts_[key.tenant];
  entry.status.object = key.object;
  entry.status.created = now;
  forgive(key);
  ++counted_.expected;
  return {};
}

void ObjectIndex::set_quota(TenantId tenant, std::optional<Bytes> quota) {
  if (quota) {
    quotas_.insert_or_assign(tenant, *quota);
  } else {
    quotas_.erase(tenant);
  }
}

Bytes ObjectIndex::used(TenantId tenant) const {
  const auto used = used_.find(tenant);
  return used == used_.end() ? Bytes(0) : used->second;
}

Bytes ObjectIndex::quota_of(TenantId tenant) const {
  const auto own = quotas_.find(tenant);
  return own == quotas_.end() ? options_.tenant_quota : own->second;
}

Result<void> ObjectIndex::may_come(const ObjectKey& key, Bytes size) const {
  const auto found = entries_.find(key);
  if (found != entries_.end() && found->second.status.state != ObjectState::kExpected) {
    return Error{ErrorCode::kAlreadyExists,
                 "object " + to_string(key.object) + " was made already; objects do not change"};
  }
  if (size > limits::kObjectSize) {
    return Error{ErrorCode::kOutOfRange, "an object of " + to_string(size) + "; at most " +
                                             to_string(limits::kObjectSize) + " are taken"};
  }
  const Bytes held = used(key.tenant);
  const Bytes quota = quota_of(key.tenant);
  if (held + size > quota) {
    return exhausted("objects of " + to_string(held) + " and this one of " + to_string(size) +
                     " are more than the quota of " + to_string(quota) +
                     "; remove some, or let them expire");
  }
  if (found == entries_.end()) return check_count(key.tenant);
  return {};
}

Result<void> ObjectIndex::add(const ObjectKey& key, TensorType type, Bytes size,
                              std::optional<Duration> time_to_live, Instant now,
                              ObjectPlace where) {
  auto may = may_come(key, size);
  if (may.ok()) may = check_room(size);
  if (!may.ok()) {
    if (may.error().code == ErrorCode::kResourceExhausted) ++counted_.refused;
    return may;
  }
  auto found = entries_.find(key);
  if (found == entries_.end()) {
    found = entries_.try_emplace(key).first;
    ++counts_[key.tenant];
    forgive(key);
  } else {
    --counted_.expected;
  }
  Entry& entry = found->second;
  entry.status.object = key.object;
  entry.status.state = ObjectState::kExists;
  entry.status.type = std::move(type);
  entry.status.size = size;
  entry.status.created = now;
  used_[key.tenant] += size;
  ++counted_.objects;
  ++counted_.stored;
  place(key, entry, where);
  entry.time_to_live = time_to_live.value_or(options_.time_to_live);
  set_expiry(key, entry, now + entry.time_to_live);
  return {};
}

bool ObjectIndex::fail(const ObjectKey& key, Error cause, Instant now) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return false;
  if (found->second.status.state != ObjectState::kExpected) return false;
  --counted_.expected;
  ++counted_.failed;
  ObjectStatus& status = found->second.status;
  status.state = ObjectState::kFailed;
  status.cause = std::move(cause);
  status.created = now;
  set_expiry(key, found->second,
             now + std::min(options_.time_to_live, limits::kFailedObjectTimeToLive));
  return true;
}

Result<const ObjectStatus*> ObjectIndex::find(const ObjectKey& key) const {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return not_found(key);
  return &found->second.status;
}

void ObjectIndex::touch(const ObjectKey& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end() || !is_at_rest_in_memory(found->second.status.place)) return;
  recent_.erase(found->second.last_use);
  found->second.last_use = next_use_++;
  recent_.emplace(found->second.last_use, key);
}

Result<void> ObjectIndex::hold(const ObjectKey& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return not_found(key);
  if (found->second.status.state == ObjectState::kFailed) return *found->second.status.cause;
  ++found->second.status.references;
  set_expiry(key, found->second, found->second.status.expires);
  return {};
}

void ObjectIndex::release(const ObjectKey& key) {
  const auto found = entries_.find(key);
  CHECK(found != entries_.end(), "what is held stays");
  CHECK(found->second.status.references > 0, "only what is held is released");
  --found->second.status.references;
  set_expiry(key, found->second, found->second.status.expires);
}

void ObjectIndex::renew(const ObjectKey& key, Instant now) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  Entry& entry = found->second;
  const bool held = entry.status.references > 0;
  if (!held || entry.removed || entry.status.state != ObjectState::kExists) return;
  set_expiry(key, entry, now + entry.time_to_live);
}

Result<void> ObjectIndex::remove(const ObjectKey& key, Instant now) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return not_found(key);
  if (found->second.status.state == ObjectState::kExpected) {
    return Error{ErrorCode::kFailedPrecondition,
                 "object " + to_string(key.object) + " is still being made"};
  }
  found->second.removed = true;
  set_expiry(key, found->second, now);
  return {};
}

std::vector<ObjectKey> ObjectIndex::expire(Instant now) {
  std::vector<ObjectKey> gone;
  while (!expiries_.empty() && expiries_.begin()->first <= now) {
    const ObjectKey key = expiries_.begin()->second;
    gone.push_back(key);
    take_out(entries_.find(key));
    ++counted_.expired;
    if (!forgotten_set_.insert(key).second) continue;
    forgotten_.push_back(key);
    if (forgotten_.size() <= limits::kForgottenObjects) continue;
    forgotten_set_.erase(forgotten_.front());
    forgotten_.pop_front();
  }
  return gone;
}

Instant ObjectIndex::next_expiry() const {
  return expiries_.empty() ? kNever : expiries_.begin()->first;
}

std::vector<ObjectKey> ObjectIndex::choose_spills(Bytes wanted) {
  std::vector<ObjectKey> chosen;
  while (!recent_.empty() && pressed(wanted)) {
    const ObjectKey key = recent_.begin()->second;
    Entry& entry = entries_.find(key)->second;
    const Bytes size = entry.status.size;
    const bool in_the_way = memory_ - spilling_ + wanted > options_.memory;
    if (recent_.size() == 1 && !in_the_way) break;
    if (disk_ + size > options_.disk) break;
    if (spilling_count_ > 0 && spilling_ + size > Bytes(options_.memory.count / 2)) break;
    place(key, entry, ObjectPlace::kSpilling);
    chosen.push_back(key);
  }
  return chosen;
}

void ObjectIndex::spilled(const ObjectKey& key) {
  place(key, entries_.find(key)->second, ObjectPlace::kDisk);
  ++counted_.spilled;
}

void ObjectIndex::spill_failed(const ObjectKey& key) {
  place(key, entries_.find(key)->second, ObjectPlace::kMemory);
}

bool ObjectIndex::start_reading(const ObjectKey& key) {
  Entry& entry = entries_.find(key)->second;
  if (memory_ - spilling_ + entry.status.size > options_.memory) return false;
  place(key, entry, ObjectPlace::kReading);
  return true;
}

void ObjectIndex::read_back(const ObjectKey& key) {
  place(key, entries_.find(key)->second, ObjectPlace::kMemory);
  ++counted_.read_back;
}

void ObjectIndex::start_coming(const ObjectKey& key) {
  place(key, entries_.find(key)->second, ObjectPlace::kComing);
}

void ObjectIndex::came(const ObjectKey& key) {
  place(key, entries_.find(key)->second, ObjectPlace::kMemory);
}

void ObjectIndex::coming_failed(const ObjectKey& key) {
  place(key, entries_.find(key)->second, ObjectPlace::kDevice);
}

const ObjectKey* ObjectIndex::choose_to_come(Bytes wanted) const {
  if (on_device_.empty() || recent_.size() > 1 || wanted > options_.memory) return nullptr;
  if (!is_short(wanted, spilling_ + coming_, spilling_count_ + coming_count_)) return nullptr;
  const ObjectKey& oldest = on_device_.begin()->second;
  const Bytes size = entries_.find(oldest)->second.status.size;
  return disk_ + coming_ + size <= options_.disk ? &oldest : nullptr;
}

void ObjectIndex::reading_failed(const ObjectKey& key) {
  place(key, entries_.find(key)->second, ObjectPlace::kDisk);
}

void ObjectIndex::lose(const ObjectKey& key, Error cause, Instant now) {
  Entry& entry = entries_.find(key)->second;
  place(key, entry, ObjectPlace::kNowhere);
  used_[key.tenant] -= entry.status.size;
  --counted_.objects;
  ++counted_.lost;
  entry.status.state = ObjectState::kFailed;
  entry.status.cause = std::move(cause);
  set_expiry(key, entry, std::max(entry.status.expires, now));
}

std::vector<ObjectStatus> ObjectIndex::list(TenantId tenant, std::optional<ObjectId> after,
                                            size_t limit) const {
  std::vector<ObjectStatus> page;
  auto next = after ? entries_.upper_bound(ObjectKey{tenant, *after})
                    : entries_.lower_bound(ObjectKey{tenant, ObjectId{}});
  for (; next != entries_.end() && next->first.tenant == tenant && page.size() < limit; ++next) {
    page.push_back(next->second.status);
  }
  return page;
}

StoreStatistics ObjectIndex::statistics() const {
  StoreStatistics now = counted_;
  now.memory = memory_ - device_;
  now.device = device_;
  now.disk = disk_;
  return now;
}

Result<void> ObjectIndex::check_count(TenantId tenant) const {
  const auto count = counts_.find(tenant);
  if (count != counts_.end() && count->second >= limits::kObjectsOfTenant) {
    return exhausted("this tenant has " + std::to_string(limits::kObjectsOfTenant) +
                     " objects already, with those expected and failed; remove some, or let them "
                     "expire");
  }
  if (entries_.size() < limits::kObjects) return {};
  return exhausted("the node holds " + std::to_string(limits::kObjects) +
                   " objects already; remove some, or let them expire");
}

Result<void> ObjectIndex::check_room(Bytes size) const {
  if (memory_ - spilling_ + size <= options_.memory &&
      in_memory_ - spilling_count_ < options_.most_in_memory) {
    return {};
  }
  if (coming_count_ > 0) {
    return exhausted("objects that take its room come from their devices; try again later");
  }
  if (spilling_count_ > 0) {
    return exhausted("the disk does not keep up with the objects that come in; try again later");
  }
  return exhausted("there is no room for an object of " + to_string(size) + ": " +
                   to_string(memory_) + " of " + to_string(options_.memory) +
                   " of memory are in use, and " + to_string(disk_) + " of " +
                   to_string(options_.disk) + " on disk");
}

Error ObjectIndex::not_found(const ObjectKey& key) const {
  const bool expired = forgotten_set_.contains(key);
  return {
      ErrorCode::kNotFound,
      "object " + to_string(key.object) +
          (expired ? " has expired or was removed"
                   : " is not known: it was never made here, expired long ago, or was lost when "
                     "the worker stopped")};
}

// Known again: asking for it later must not say that it expired.
void ObjectIndex::forgive(const ObjectKey& key) {
  if (forgotten_set_.erase(key) == 0) return;
  std::erase(forgotten_, key);
}

void ObjectIndex::set_expiry(const ObjectKey& key, Entry& entry, Instant instant) {
  expiries_.erase({entry.status.expires, key});
  entry.status.expires = instant;
  if (instant != kNever && entry.status.references == 0) expiries_.emplace(instant, key);
}

// The only place where an object's bytes are counted.
void ObjectIndex::place(const ObjectKey& key, Entry& entry, ObjectPlace place) {
  const auto before = std::exchange(entry.status.place, place);
  const Bytes size = entry.status.size;
  if (takes_memory(before)) memory_ -= size, --in_memory_;
  if (takes_memory(place)) memory_ += size, ++in_memory_;
  if (is_only_on_device(before)) device_ -= size;
  if (is_only_on_device(place)) device_ += size;
  if (before == ObjectPlace::kComing) coming_ -= size, --coming_count_;
  if (place == ObjectPlace::kComing) coming_ += size, ++coming_count_;
  if (before == ObjectPlace::kDevice) on_device_.erase(entry.last_use);
  if (place == ObjectPlace::kDevice) {
    entry.last_use = next_use_++;
    on_device_.emplace(entry.last_use, key);
  }
  if (takes_disk(before)) disk_ -= size;
  if (takes_disk(place)) disk_ += size;
  if (before == ObjectPlace::kSpilling) spilling_ -= size, --spilling_count_;
  if (place == ObjectPlace::kSpilling) spilling_ += size, ++spilling_count_;
  if (before == ObjectPlace::kReading) --reading_count_;
  if (place == ObjectPlace::kReading) ++reading_count_;
  if (is_at_rest_in_memory(before)) recent_.erase(entry.last_use);
  if (is_at_rest_in_memory(place)) {
    entry.last_use = next_use_++;
    recent_.emplace(entry.last_use, key);
  }
}

void ObjectIndex::take_out(Entries::iterator found) {
  const ObjectKey key = found->first;
  Entry& entry = found->second;
  place(key, entry, ObjectPlace::kNowhere);
  if (entry.status.state == ObjectState::kExists) {
    --counted_.objects;
    const auto used = used_.find(key.tenant);
    used->second -= entry.status.size;
    if (used->second.count == 0) used_.erase(used);
  }
  set_expiry(key, entry, kNever);
  entries_.erase(found);
  const auto count = counts_.find(key.tenant);
  if (--count->second == 0) counts_.erase(count);
}

bool ObjectIndex::pressed(Bytes wanted) const {
  return is_short(wanted, spilling_, spilling_count_);
}

// Where `leaving`, of so many objects, need not be counted.
bool ObjectIndex::is_short(Bytes wanted, Bytes leaving, size_t count) const {
  const Bytes least_free(options_.memory.count / 4);
  return memory_ - leaving + wanted + least_free > options_.memory ||
         in_memory_ - count >= options_.most_in_memory;
}

}  // namespace lambent::objects
