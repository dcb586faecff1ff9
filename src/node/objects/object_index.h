// ObjectIndex: the decisions of the object store: who may bring what, what expires, which object
// leaves memory. Pure: no clock, file or descriptor; used only by ObjectStore.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/base/units.h"
#include "core/domain/tensor_type.h"
#include "node/objects/limits.h"

namespace lambent::objects {

// Two tenants may use one id without seeing each other.
struct ObjectKey {
  TenantId tenant;
  ObjectId object;

  constexpr auto operator<=>(const ObjectKey&) const = default;
};

struct IndexOptions {
  // Of host memory. The least recently used objects are written to disk from three quarters of it
  // on; what is on its way there does not count, but is at most half of it.
  Bytes memory = Bytes::gib(1);
  Bytes disk = Bytes::gib(8);  // zero: nothing is spilled
  // Each object in memory is an open file.
  size_t most_in_memory = 10'000;
  // Of one tenant, in memory and on disk, unless set_quota() said otherwise.
  Bytes tenant_quota = Bytes::gib(8);
  Duration time_to_live = limits::kObjectTimeToLive;  // unless the object brings its own
};

enum class ObjectState : uint8_t { kExpected, kFailed, kExists };
std::string_view name_of(ObjectState state);  // "expected", "failed", "exists"

// Where the bytes of an object are. While they travel they are at both places. On a device are
// those that are nowhere else; their room in memory is kept for them, so that they can always come.
enum class ObjectPlace : uint8_t {
  kNowhere,
  kMemory,
  kSpilling,
  kDisk,
  kReading,
  kDevice,
  kComing,
};
// "nowhere", "memory", "spilling", "disk", "reading", "device", "coming"
std::string_view name_of(ObjectPlace place);
bool is_only_on_device(ObjectPlace place);

struct ObjectStatus {
  ObjectId object;
  ObjectState state = ObjectState::kExpected;
  ObjectPlace place = ObjectPlace::kNowhere;
  TensorType type;
  Bytes size;
  uint32_t references = 0;
  Instant created{};           // stored, failed, or expected
  Instant expires = kNever;    // unless it is held then
  std::optional<Error> cause;  // why it failed
};

// Now, and since the store began.
struct StoreStatistics {
  uint64_t objects = 0;  // that exist
  uint64_t expected = 0;
  Bytes memory;
  Bytes disk;
  Bytes device;  // only there
  uint64_t waiting = 0;

  uint64_t stored = 0;
  uint64_t failed = 0;
  uint64_t expired = 0;  // or removed
  uint64_t spilled = 0;
  uint64_t read_back = 0;
  uint64_t lost = 0;     // damaged on disk
  uint64_t refused = 0;  // for want of room
  uint64_t waits = 0;
  uint64_t timed_out = 0;
};

class ObjectIndex {
 public:
  explicit ObjectIndex(IndexOptions options) : options_(options) {}

  // Nothing: the tenant has the quota of the options. Objects that it has stay.
  void set_quota(TenantId tenant, std::optional<Bytes> quota);

  Result<void> expect(const ObjectKey& key, Instant now);
  // Whether it may come, if memory is found for it: ALREADY_EXISTS, RESOURCE_EXHAUSTED (the
  // tenant's quota, the number of objects, its own or the node's), OUT_OF_RANGE (its size).
  Result<void> may_come(const ObjectKey& key, Bytes size) const;
  // The object exists, in memory or on a device. As may_come(), and RESOURCE_EXHAUSTED if memory is
  // full.
  Result<void> add(const ObjectKey& key, TensorType type, Bytes size,
                   std::optional<Duration> time_to_live, Instant now,
                   ObjectPlace place = ObjectPlace::kMemory);
  // False if it was not expected.
  bool fail(const ObjectKey& key, Error cause, Instant now);

  // NOT_FOUND, saying whether it is unknown or expired.
  Result<const ObjectStatus*> find(const ObjectKey& key) const;
  // It was used just now: others leave memory before it.
  void touch(const ObjectKey& key);
  Result<void> hold(const ObjectKey& key);
  void release(const ObjectKey& key);
  // Its time to live begins again, if it is held; what was removed, or is not there, stays so.
  void renew(const ObjectKey& key, Instant now);
  // Lets it expire.
  Result<void> remove(const ObjectKey& key, Instant now);

  // Takes out what is over by now; what held its bytes may go.
  std::vector<ObjectKey> expire(Instant now);
  // When expire() will find something, if nothing changes; kNever if nothing will be.
  Instant next_expiry() const;

  // Who is to be written to disk now so that `wanted` bytes more find room in memory, least
  // recently used first: they are kSpilling from now on. The last one used stays unless it is in
  // the way.
  std::vector<ObjectKey> choose_spills(Bytes wanted);
  // It lies on disk now, and in memory no more; or stays, for the disk could not take it.
  void spilled(const ObjectKey& key);
  void spill_failed(const ObjectKey& key);
  // Takes room in memory for bringing it back (kReading); false if there is none now.
  bool start_reading(const ObjectKey& key);
  // Whether room may still come of itself: something is on its way to or from the disk, or from a
  // device.
  bool room_may_come() const { return spilling_count_ + reading_count_ + coming_count_ > 0; }
  // It is asked for from its device (kComing).
  void start_coming(const ObjectKey& key);
  // It is in memory, and may go from its device; or stays only there.
  void came(const ObjectKey& key);
  void coming_failed(const ObjectKey& key);
  // Who is to come from a device so that it can be spilled, and `wanted` bytes more find room: the
  // least recently used, if those that come already are too few and nothing is left to spill; null
  // if none is.
  const ObjectKey* choose_to_come(Bytes wanted) const;
  // It is in memory again, and its file may go; or is no more, and asking says why.
  void read_back(const ObjectKey& key);
  void lose(const ObjectKey& key, Error cause, Instant now);
  // It could not be read now, but may be another time.
  void reading_failed(const ObjectKey& key);

  std::vector<ObjectStatus> list(TenantId tenant, std::optional<ObjectId> after,
                                 size_t limit) const;
  StoreStatistics statistics() const;
  Bytes used(TenantId tenant) const;  // in memory and on disk
  const IndexOptions& options() const { return options_; }

 private:
  struct Entry {
    ObjectStatus status;
    uint64_t last_use = 0;  // its key in recent_ or on_device_, if it is there
    Duration time_to_live{};
    bool removed = false;  // when the last reference goes
  };
  using Entries = std::map<ObjectKey, Entry>;

  Bytes quota_of(TenantId tenant) const;
  Result<void> check_count(TenantId tenant) const;
  Result<void> check_room(Bytes size) const;
  Error not_found(const ObjectKey& key) const;
  void forgive(const ObjectKey& key);
  void set_expiry(const ObjectKey& key, Entry& entry, Instant instant);
  void place(const ObjectKey& key, Entry& entry, ObjectPlace place);
  void take_out(Entries::iterator found);
  bool pressed(Bytes wanted) const;
  bool is_short(Bytes wanted, Bytes leaving, size_t count) const;

  const IndexOptions options_;
  Entries entries_;
  std::map<uint64_t, ObjectKey> recent_;  // in memory and at rest, by last use
  uint64_t next_use_ = 1;
  std::map<uint64_t, ObjectKey> on_device_;           // and not coming, by last use
  std::set<std::pair<Instant, ObjectKey>> expiries_;  // of those that are not held
  std::unordered_map<TenantId, Bytes> quotas_;        // of tenants that have one of their own
  std::unordered_map<TenantId, Bytes> used_;
  std::unordered_map<TenantId, size_t> counts_;  // of entries
  // Bytes that are in memory (with those that travel), on their way to disk, and on disk.
  Bytes memory_;
  Bytes spilling_;
  Bytes disk_;
  Bytes device_;  // of memory_: only reserved
  Bytes coming_;  // of device_
  size_t in_memory_ = 0;
  size_t spilling_count_ = 0;
  size_t reading_count_ = 0;
  size_t coming_count_ = 0;
  // Those that expired last, so that asking for them says so.
  std::deque<ObjectKey> forgotten_;
  std::set<ObjectKey> forgotten_set_;
  StoreStatistics counted_;
};

}  // namespace lambent::objects
