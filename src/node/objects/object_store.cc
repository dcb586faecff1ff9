#include "node/objects/object_store.h"

#include <fcntl.h>

#include "core/base/check.h"
#include "core/base/sealed_memory.h"
#include "node/objects/limits.h"

namespace lambent::objects {
namespace {

// How long who wants an object of another node waits for it at least.
constexpr Duration kLeastSeekTime = seconds(30);

bool is_in_memory(ObjectPlace place) {
  return place == ObjectPlace::kMemory || place == ObjectPlace::kSpilling;
}

Result<void> check_content(const TensorType& type, int memfd) {
  ASSIGN_OR_RETURN(const Bytes needed, byte_size(type));
  ASSIGN_OR_RETURN(const Bytes size, check_sealed(memfd));
  if (size == needed) return {};
  return Error{ErrorCode::kInvalidArgument,
               "an object " + to_string(type) + " has " + std::to_string(needed.count) +
                   " bytes, but it came with " + std::to_string(size.count)};
}

Result<OpenedObject> copy_of(const ObjectStatus& status, const OwnedFd& memfd) {
  OwnedFd copy(fcntl(memfd.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy.valid()) return error_from_errno("open object " + to_string(status.object), errno);
  return OpenedObject{status.type, status.size, std::move(copy)};
}

IndexOptions without_folder_no_disk(ObjectStoreOptions& options) {
  if (options.folder.empty()) options.index.disk = Bytes(0);
  return options.index;
}

}  // namespace

void ObjectStore::Wait::fail(const Error& error) {
  if (opened) return opened(error);
  there(error);
}

ObjectStore::ObjectStore(loop::EventLoop& loop, LogSink& log, Disk disk, ObjectStoreOptions options)
    : loop_(loop),
      log_(log),
      folder_(loop, log, std::move(disk), options.folder),
      index_(without_folder_no_disk(options)) {}

ObjectStore::~ObjectStore() {
  for (auto& [id, wait] : waits_) {
    if (wait.timer) loop_.cancel(*wait.timer);
  }
  loop_.cancel(expiry_timer_);
}

Result<void> ObjectStore::store(TenantId tenant, ObjectId object, TensorType type, OwnedFd memfd,
                                std::optional<Duration> time_to_live) {
  RETURN_IF_ERROR(check_content(type, memfd.get()));
  return add({tenant, object}, std::move(type), std::make_shared<OwnedFd>(std::move(memfd)),
             time_to_live);
}

Result<void> ObjectStore::store_on_device(TenantId tenant, ObjectId object, TensorType type,
                                          std::optional<Duration> time_to_live) {
  return add({tenant, object}, std::move(type), nullptr, time_to_live);
}

Result<void> ObjectStore::add(const ObjectKey& key, TensorType type,
                              std::shared_ptr<const OwnedFd> memfd,
                              std::optional<Duration> time_to_live) {
  ASSIGN_OR_RETURN(const Bytes size, byte_size(type));
  if (time_to_live && (*time_to_live < limits::kLeastObjectTimeToLive ||
                       *time_to_live > limits::kMostObjectTimeToLive)) {
    return Error{ErrorCode::kInvalidArgument, "an object lives for 1 s to 7 days"};
  }
  if (index_.may_come(key, size).ok()) relieve(size);
  RETURN_IF_ERROR(index_.add(key, std::move(type), size, time_to_live, loop_.now(),
                             memfd != nullptr ? ObjectPlace::kMemory : ObjectPlace::kDevice));
  contents_[key] = {std::move(memfd), folder_.next_version(), 0, false};
  sought_.erase(key);
  time_expiry();
  settle(key);
  relieve(Bytes(0));
  return {};
}

Result<bool> ObjectStore::came(TenantId tenant, ObjectId object, OwnedFd memfd) {
  const ObjectKey key{tenant, object};
  const auto found = index_.find(key);
  if (!found.ok() || !is_only_on_device((*found)->place)) return false;
  RETURN_IF_ERROR(check_content((*found)->type, memfd.get()));
  contents_.at(key).memfd = std::make_shared<OwnedFd>(std::move(memfd));
  index_.came(key);
  settle(key);
  relieve(Bytes(0));
  start_reads();
  return true;
}

Result<void> ObjectStore::want(TenantId tenant, ObjectId object) {
  const ObjectKey key{tenant, object};
  if (!seek_ || index_.find(key).ok()) return {};
  RETURN_IF_ERROR(index_.expect(key, loop_.now()));
  sought_.insert(key);
  auto begun = seek_(tenant, object);
  if (!begun.ok()) not_elsewhere(tenant, object, begun.error());
  return begun;
}

bool ObjectStore::is_sought(TenantId tenant, ObjectId object) const {
  return sought_.contains({tenant, object});
}

bool ObjectStore::is_waited_for(TenantId tenant, ObjectId object) const {
  const ObjectKey key{tenant, object};
  const auto first = waits_of_.lower_bound({key, 0});
  return first != waits_of_.end() && first->first == key;
}

void ObjectStore::not_elsewhere(TenantId tenant, ObjectId object, Error error) {
  const ObjectKey key{tenant, object};
  if (sought_.erase(key) == 0) return;
  // Nothing is remembered of it: it may come to be.
  fail(tenant, object, std::move(error));
  (void)remove(tenant, object);
}

Result<void> ObjectStore::expect(TenantId tenant, ObjectId object) {
  return index_.expect({tenant, object}, loop_.now());
}

void ObjectStore::fail(TenantId tenant, ObjectId object, Error cause) {
  const ObjectKey key{tenant, object};
  if (!index_.fail(key, std::move(cause), loop_.now())) return;
  time_expiry();
  settle(key);
}

WaitId ObjectStore::open(TenantId tenant, ObjectId object, Instant deadline, Opened opened) {
  Wait wait;
  wait.opened = std::move(opened);
  return start({tenant, object}, deadline, std::move(wait));
}

WaitId ObjectStore::await(TenantId tenant, ObjectId object, Instant deadline, There there) {
  Wait wait;
  wait.there = std::move(there);
  return start({tenant, object}, deadline, std::move(wait));
}

WaitId ObjectStore::start(const ObjectKey& key, Instant deadline, Wait wait) {
  if (const auto wanted = want(key.tenant, key.object); !wanted.ok())
    return wait.fail(wanted.error()), 0;
  if (sought_.contains(key)) deadline = std::max(deadline, loop_.now() + kLeastSeekTime);
  const auto found = index_.find(key);
  if (!found.ok()) return wait.fail(found.error()), 0;
  const ObjectStatus& status = **found;
  if (status.state == ObjectState::kFailed) {
    const Error cause = *status.cause;
    return wait.fail(cause), 0;
  }
  const bool expected = status.state == ObjectState::kExpected;
  if (!expected && wait.there) return wait.there(TensorType(status.type)), 0;
  if (!expected && is_in_memory(status.place)) {
    index_.touch(key);
    return wait.opened(copy_of(status, *contents_.at(key).memfd)), 0;
  }
  if (expected && deadline <= loop_.now()) {
    return wait.fail({ErrorCode::kDeadlineExceeded,
                      "object " + to_string(key.object) + " is still being made"}),
           0;
  }
  if (waits_.size() >= limits::kObjectWaits) {
    return wait.fail({ErrorCode::kResourceExhausted, "too many wait for objects; try again later"}),
           0;
  }
  const WaitId id = next_wait_++;
  ++waits_begun_;
  wait.key = key;
  if (expected && deadline != kNever) {
    wait.timer = loop_.call_at(deadline, [this, id] {
      Wait late = take(id);
      ++timed_out_;
      late.fail({ErrorCode::kDeadlineExceeded,
                 "object " + to_string(late.key.object) + " was not made in time"});
    });
  }
  waits_.emplace(id, std::move(wait));
  waits_of_.emplace(key, id);
  if (!expected) ask_back(key);
  // It may be over already: there may be no room to read it back into.
  return waits_.contains(id) ? id : 0;
}

void ObjectStore::cancel(WaitId wait) {
  if (waits_.contains(wait)) take(wait);
}

ObjectStore::Wait ObjectStore::take(WaitId id) {
  const auto found = waits_.find(id);
  Wait wait = std::move(found->second);
  waits_.erase(found);
  waits_of_.erase({wait.key, id});
  if (wait.timer) loop_.cancel(*wait.timer);
  return wait;
}

// Answers those who wait for `key` as things stand now. A callback may do anything to the store, so
// nothing is remembered across one but how far we came.
void ObjectStore::settle(const ObjectKey& key) {
  WaitId last = 0;
  while (true) {
    const auto next = waits_of_.upper_bound({key, last});
    if (next == waits_of_.end() || next->first != key) return;
    last = next->second;
    const auto found = index_.find(key);
    if (!found.ok()) {
      take(last).fail(found.error());
      continue;
    }
    const ObjectStatus& status = **found;
    if (status.state == ObjectState::kExpected) return;
    if (status.state == ObjectState::kFailed) {
      const Error cause = *status.cause;
      take(last).fail(cause);
    } else if (waits_.at(last).there) {
      const TensorType type = status.type;
      take(last).there(type);
    } else if (is_in_memory(status.place)) {
      index_.touch(key);
      auto result = copy_of(status, *contents_.at(key).memfd);
      take(last).opened(std::move(result));
    } else {
      ask_back(key);
    }
  }
}

void ObjectStore::fail_waits(const ObjectKey& key, const Error& error) {
  std::vector<WaitId> waits;
  for (auto next = waits_of_.lower_bound({key, 0}); next != waits_of_.end() && next->first == key;
       ++next) {
    waits.push_back(next->second);
  }
  for (const WaitId wait : waits) {
    if (waits_.contains(wait)) take(wait).fail(error);
  }
}

Result<void> ObjectStore::hold(TenantId tenant, ObjectId object) {
  return index_.hold({tenant, object});
}

void ObjectStore::release(TenantId tenant, ObjectId object) {
  index_.release({tenant, object});
  expire();
}

void ObjectStore::renew(TenantId tenant, ObjectId object) {
  index_.renew({tenant, object}, loop_.now());
  time_expiry();
}

Result<void> ObjectStore::remove(TenantId tenant, ObjectId object) {
  RETURN_IF_ERROR(index_.remove({tenant, object}, loop_.now()));
  expire();
  return {};
}

Result<ObjectStatus> ObjectStore::status(TenantId tenant, ObjectId object) const {
  ASSIGN_OR_RETURN(const ObjectStatus* status, index_.find({tenant, object}));
  return ObjectStatus(*status);
}

std::vector<ObjectStatus> ObjectStore::list(TenantId tenant, std::optional<ObjectId> after,
                                            size_t limit) const {
  return index_.list(tenant, after, limit);
}

StoreStatistics ObjectStore::statistics() const {
  StoreStatistics now = index_.statistics();
  now.waiting = waits_.size();
  now.waits = waits_begun_;
  now.timed_out = timed_out_;
  return now;
}

void ObjectStore::expire() {
  const auto gone = index_.expire(loop_.now());
  for (const ObjectKey& key : gone) drop(key);
  time_expiry();
  for (const ObjectKey& key : gone) settle(key);
  if (!gone.empty()) start_reads();
}

void ObjectStore::time_expiry() {
  const Instant next = index_.next_expiry();
  if (next == expiry_due_) return;
  loop_.cancel(expiry_timer_);
  expiry_due_ = next;
  if (next == kNever) return;
  expiry_timer_ = loop_.call_at(next, [this] {
    expiry_due_ = kNever;
    expire();
  });
}

void ObjectStore::drop(const ObjectKey& key) {
  const auto found = contents_.find(key);
  if (found == contents_.end()) return;  // it had failed
  if (found->second.has_file) folder_.remove(found->second.version);
  if (found->second.memfd != nullptr) folder_.close(std::move(found->second.memfd));
  contents_.erase(found);
  if (gone_) gone_(key.tenant, key.object);
}

}  // namespace lambent::objects
