// The part of ObjectStore that moves objects between memory and disk.
#include <unistd.h>

#include "node/objects/object_store.h"
#include "node/objects/spill_file.h"

namespace lambent::objects {
namespace {

// After the disk could not take an object, or remove a file, it is left alone for so long.
constexpr Duration kDiskPause = seconds(1);

}  // namespace

// Makes way in memory for `wanted` bytes more, as far as the disk may take what leaves.
void ObjectStore::relieve(Bytes wanted) {
  if (loop_.now() < spill_again_) return;
  for (const ObjectKey& key : index_.choose_spills(wanted)) spill(key);
}

void ObjectStore::spill(const ObjectKey& key) {
  const Content& content = contents_.at(key);
  const uint64_t version = content.version;
  const Bytes size = (*index_.find(key))->size;
  // Shared between the work and its completion.
  auto checksum = std::make_shared<Result<uint32_t>>(0u);
  const bool taken = disk_([path = path_of(version), memfd = content.memfd, size,
                            checksum] { *checksum = write_spill_file(path, memfd->get(), size); },
                           [this, alive = std::weak_ptr(alive_), key, version, checksum] {
                             if (!alive.expired()) finish_spill(key, version, *checksum);
                           });
  if (taken) return;
  index_.spill_failed(key);
  spill_again_ = loop_.now() + kDiskPause;
}

void ObjectStore::finish_spill(const ObjectKey& key, uint64_t version,
                               const Result<uint32_t>& checksum) {
  const auto found = contents_.find(key);
  if (found == contents_.end() || found->second.version != version) {
    if (checksum.ok()) remove_file(version);
    return start_reads();
  }
  Content& content = found->second;
  if (checksum.ok()) {
    index_.spilled(key);
    // Given back off the loop, see drop().
    disk_([memfd = std::move(content.memfd)] {}, [] {});
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
  // Shared between the work and its completion.
  auto memfd = std::make_shared<Result<OwnedFd>>(OwnedFd());
  const bool taken =
      disk_([path = path_of(content.version), size, checksum = content.checksum,
             memfd] { *memfd = read_spill_file(path, size, checksum); },
            [this, alive = std::weak_ptr(alive_), key, version = content.version, memfd] {
              if (!alive.expired()) finish_read(key, version, std::move(*memfd));
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
    found->second.version = next_version_++;
    remove_file(version);
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

// If the disk has too much to do, the file stays until it has less.
void ObjectStore::remove_file(uint64_t version) {
  removals_.push_back(path_of(version));
  if (!removal_timer_) remove_files();
}

void ObjectStore::remove_files() {
  const bool taken = disk_(
      [paths = removals_] {
        for (const std::string& path : paths) unlink(path.c_str());
      },
      [] {});
  if (taken) return removals_.clear();
  removal_timer_ = loop_.call_after(kDiskPause, [this] {
    removal_timer_.reset();
    remove_files();
  });
}

std::string ObjectStore::path_of(uint64_t version) const {
  return folder_ + "/" + std::to_string(version);
}

}  // namespace lambent::objects
