// The part of ObjectStore that moves objects between memory and disk, and from devices to memory.
#include <utility>

#include "node/objects/object_store.h"

namespace lambent::objects {
namespace {

// After the disk could not take an object, it is left to itself for so long.
constexpr Duration kDiskPause = seconds(1);
// The same of devices, where one could not be brought.
constexpr Duration kDevicePause = seconds(1);

}  // namespace

// Frees memory for `wanted` bytes more, as far as the disk may take what leaves.
void ObjectStore::relieve(Bytes wanted) {
  if (loop_.now() < spill_again_) return;
  for (const ObjectKey& key : index_.choose_spills(wanted)) spill(key);
  // What is only on a device can go to disk once it is in memory.
  while (loop_.now() >= bring_again_) {
    const ObjectKey* key = index_.choose_to_come(wanted);
    if (key == nullptr) return;
    const ObjectKey next = *key;
    index_.start_coming(next);
    if (bring_) bring_(next.tenant, next.object);
  }
}

void ObjectStore::not_brought(TenantId tenant, ObjectId object, const Error& error) {
  const ObjectKey key{tenant, object};
  const auto found = index_.find(key);
  if (!found.ok() || (*found)->place != ObjectPlace::kComing) return;
  index_.coming_failed(key);
  bring_again_ = loop_.now() + kDevicePause;
  fail_waits(key, error.with_context("bring object " + to_string(object) + " from its device"));
  start_reads();
}

// Of one whose bytes are in memory nothing is lost.
void ObjectStore::lose(TenantId tenant, ObjectId object, const Error& cause) {
  const ObjectKey key{tenant, object};
  const auto found = contents_.find(key);
  if (found == contents_.end() || found->second.memfd != nullptr) return;
  log_.error("object_lost", {{"object", to_string(object)}, {"error", to_string(cause)}});
  index_.lose(key, cause, loop_.now());
  drop(key);
  time_expiry();
  settle(key);
  start_reads();
}

void ObjectStore::spill(const ObjectKey& key) {
  const Content& spilled = contents_.at(key);
  const uint64_t version = spilled.version;
  const auto finish = [this, key, version](const Result<uint32_t>& checksum) {
    const auto found = contents_.find(key);
    if (found == contents_.end() || found->second.version != version) {
      if (checksum.ok()) folder_.remove(version);
      return start_reads();
    }
    Content& content = found->second;
    if (checksum.ok()) {
      index_.spilled(key);
      folder_.close(std::move(content.memfd));
      content.checksum = *checksum;
      content.has_file = true;
    } else {
      index_.spill_failed(key);
      spill_again_ = loop_.now() + kDiskPause;
      log_.error("object_not_spilled",
                 {{"object", to_string(key.object)}, {"error", to_string(checksum.error())}});
    }
    start_reads();
    relieve(Bytes(0));
  };
  if (folder_.write(version, spilled.memfd, (*index_.find(key))->size, finish)) return;
  index_.spill_failed(key);
  spill_again_ = loop_.now() + kDiskPause;
}

void ObjectStore::ask_back(const ObjectKey& key) {
  for (const ObjectKey& asked : reads_) {
    if (asked == key) return;
  }
  const ObjectPlace place = (*index_.find(key))->place;
  if (place == ObjectPlace::kDevice) {
    index_.start_coming(key);
    return bring_ ? bring_(key.tenant, key.object) : void();
  }
  if (place == ObjectPlace::kReading || place == ObjectPlace::kComing) return;
  reads_.push_back(key);
  start_reads();
}

// In order of asking: one that needs much room is not overtaken for ever.
void ObjectStore::start_reads() {
  while (!reads_.empty()) {
    const ObjectKey key = reads_.front();
    const auto found = index_.find(key);
    if (!found.ok() || (*found)->place != ObjectPlace::kDisk) {
      reads_.pop_front();
      continue;
    }
    const Bytes size = (*found)->size;
    relieve(size);
    if (index_.start_reading(key)) {
      reads_.pop_front();
      read(key);
    } else if (index_.room_may_come()) {
      return;
    } else {
      reads_.pop_front();
      fail_waits(key, {ErrorCode::kResourceExhausted, "there is no memory to read object " +
                                                          to_string(key.object) + " of " +
                                                          to_string(size) + " back into"});
    }
  }
}

void ObjectStore::read(const ObjectKey& key) {
  const Content& spilled = contents_.at(key);
  const auto finish = [this, key, version = spilled.version](Result<OwnedFd> memfd) {
    const auto found = contents_.find(key);
    if (found == contents_.end() || found->second.version != version) return start_reads();
    if (memfd.ok()) {
      index_.read_back(key);
      found->second.memfd = std::make_shared<OwnedFd>(std::move(*memfd));
      found->second.has_file = false;
      // The old file may stay a while: another must not need its name.
      found->second.version = folder_.next_version();
      folder_.remove(version);
      settle(key);
      relieve(Bytes(0));
    } else if (memfd.error().code == ErrorCode::kDataLoss) {
      lose(key.tenant, key.object, memfd.error());
    } else {
      index_.reading_failed(key);
      fail_waits(key, memfd.error().with_context("read object " + to_string(key.object) + " back"));
    }
    start_reads();
  };
  if (folder_.read(spilled.version, (*index_.find(key))->size, spilled.checksum, finish)) return;
  index_.reading_failed(key);
  fail_waits(key, {ErrorCode::kResourceExhausted, "the disk has too much to do; try again later"});
}

}  // namespace lambent::objects
