// The part of ObjectStore that moves objects between memory and disk.
#include <utility>

#include "node/objects/object_store.h"

namespace lambent::objects {
namespace {

// After the disk could not take an object, it is left to itself for so long.
constexpr Duration kDiskPause = seconds(1);

}  // namespace

// Frees memory for `wanted` bytes more, as far as the disk may take what leaves.
void ObjectStore::relieve(Bytes wanted) {
  if (loop_.now() < spill_again_) return;
  for (const ObjectKey& key : index_.choose_spills(wanted)) spill(key);
}

void ObjectStore::spill(const ObjectKey& key) {
  const Content& content = contents_.at(key);
  const uint64_t version = content.version;
  const Bytes size = (*index_.find(key))->size;
  const bool taken = folder_.write(
      version, content.memfd, size,
      [this, key, version](Result<uint32_t> checksum) { finish_spill(key, version, checksum); });
  if (taken) return;
  index_.spill_failed(key);
  spill_again_ = loop_.now() + kDiskPause;
}

void ObjectStore::finish_spill(const ObjectKey& key, uint64_t version,
                               const Result<uint32_t>& checksum) {
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
}

void ObjectStore::ask_back(const ObjectKey& key) {
  for (const ObjectKey& asked : reads_) {
    if (asked == key) return;
  }
  if ((*index_.find(key))->place == ObjectPlace::kReading) return;
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
  const Content& content = contents_.at(key);
  const Bytes size = (*index_.find(key))->size;
  const bool taken = folder_.read(content.version, size, content.checksum,
                                  [this, key, version = content.version](Result<OwnedFd> memfd) {
                                    finish_read(key, version, std::move(memfd));
                                  });
  if (taken) return;
  index_.reading_failed(key);
  fail_waits(key, {ErrorCode::kResourceExhausted, "the disk has too much to do; try again later"});
}

void ObjectStore::finish_read(const ObjectKey& key, uint64_t version, Result<OwnedFd> memfd) {
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
    log_.error("object_lost",
               {{"object", to_string(key.object)}, {"error", to_string(memfd.error())}});
    index_.lose(key, memfd.error(), loop_.now());
    drop(key);
    time_expiry();
    settle(key);
  } else {
    index_.reading_failed(key);
    fail_waits(key, memfd.error().with_context("read object " + to_string(key.object) + " back"));
  }
  start_reads();
}

}  // namespace lambent::objects
