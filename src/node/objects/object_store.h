// ObjectStore: a node's objects, immutable tensors in sealed memfds, spilled to files under
// pressure. Used by executors, frontends and the worker on the loop thread; reads and writes of the
// disk are done elsewhere (Disk).
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/fd.h"
#include "core/base/ids.h"
#include "core/base/log.h"
#include "core/base/result.h"
#include "core/domain/tensor_type.h"
#include "core/loop/event_loop.h"
#include "node/objects/object_index.h"
#include "node/objects/spill_folder.h"

namespace lambent::objects {

struct ObjectStoreOptions {
  // Of spilled objects; what an earlier worker left in it is removed. Empty: nothing is spilled.
  std::string folder;
  IndexOptions index;
};

// An object, open for reading.
struct OpenedObject {
  TensorType type;
  Bytes size;
  // The sealed memfd, a descriptor of the caller's own: it stays readable even if the object goes.
  OwnedFd memfd;
};

// What a wait is called, to end it early. 0: none.
using WaitId = uint64_t;

class ObjectStore {
 public:
  using Opened = std::function<void(Result<OpenedObject>)>;

  // The loop, the log and the disk outlive the store.
  ObjectStore(loop::EventLoop& loop, LogSink& log, Disk disk, ObjectStoreOptions options);
  ~ObjectStore();
  ObjectStore(const ObjectStore&) = delete;
  ObjectStore& operator=(const ObjectStore&) = delete;

  // As ObjectIndex::set_quota().
  void set_quota(TenantId tenant, std::optional<Bytes> quota) { index_.set_quota(tenant, quota); }
  Bytes used(TenantId tenant) const { return index_.used(tenant); }

  // Takes an object, or fulfils an expected one: clients that wait for it get it. It lives for
  // `time_to_live`, and longer while it is held. INVALID_ARGUMENT: `memfd` is no memfd sealed with
  // F_SEAL_WRITE, F_SEAL_SHRINK and F_SEAL_GROW, or has another size than its type. ALREADY_EXISTS.
  // RESOURCE_EXHAUSTED: the tenant's quota or the node's room is used up; what was expected stays
  // expected (then fail() it, or try again).
  Result<void> store(TenantId tenant, ObjectId object, TensorType type, OwnedFd memfd,
                     std::optional<Duration> time_to_live = std::nullopt);

  // The same for an object whose bytes are only on a device: they are brought when they are wanted
  // on the host, or when memory is short. Its room in memory is kept for it until then.
  Result<void> store_on_device(TenantId tenant, ObjectId object, TensorType type,
                               std::optional<Duration> time_to_live = std::nullopt);
  // Has such an object brought: came(), not_brought() or lose() follows, later.
  using Bring = std::function<void(TenantId, ObjectId)>;
  void bring_from_devices(Bring bring) { bring_ = std::move(bring); }
  // Its bytes, asked for or not: clients that wait for it get it. False if they are of no use: it
  // has gone, or was brought before. INVALID_ARGUMENT as for store().
  Result<bool> came(TenantId tenant, ObjectId object, OwnedFd memfd);
  // It could not be brought, but may be another time: clients that wait for it get `error`.
  void not_brought(TenantId tenant, ObjectId object, const Error& error);
  // It went with its device: all who ask from now on get `cause`. Nothing happens if its bytes are
  // in memory.
  void lose(TenantId tenant, ObjectId object, const Error& cause);

  // Where objects of other nodes come from: asked once for each object that is wanted and that is
  // unknown here. Unless it gives an error, store() or not_elsewhere() follows, later.
  using Seek = std::function<Result<void>(TenantId, ObjectId)>;
  void seek_elsewhere(Seek seek) { seek_ = std::move(seek); }
  // It will be wanted: if it is unknown here it is expected from now on, and sought elsewhere.
  // open() and await() do the same, and wait for it a while whatever their deadline. Nothing
  // happens if there is no elsewhere.
  // RESOURCE_EXHAUSTED if too much is sought already.
  Result<void> want(TenantId tenant, ObjectId object);
  // Whether it is sought elsewhere: then it does not lie here, and it is not made here.
  bool is_sought(TenantId tenant, ObjectId object) const;
  // Whether anybody waits for it.
  bool is_waited_for(TenantId tenant, ObjectId object) const;
  // What was sought is nowhere, or could not be brought: clients that wait for it get `error`.
  void not_elsewhere(TenantId tenant, ObjectId object, Error error);

  // A future: the object will be stored, or failed, by its caller. Nothing happens if it is
  // expected already; ALREADY_EXISTS if it was stored or has failed; RESOURCE_EXHAUSTED.
  Result<void> expect(TenantId tenant, ObjectId object);
  // It will never be: those who wait, and those who ask in the next minutes
  // (limits::kFailedObjectTimeToLive, or its time to live if that is less), get `cause` as it is.
  // Nothing happens to an object that exists, or that is not known.
  void fail(TenantId tenant, ObjectId object, Error cause);

  // Hands out the object as soon as it is there; `opened` is called exactly once, perhaps before
  // open() returns, unless the wait is cancelled. NOT_FOUND: unknown (at once; another tenant's is
  // unknown too), or expired. DEADLINE_EXCEEDED: still expected at `deadline` (kNever: as long as
  // it takes). DATA_LOSS: its file was damaged. The cause, if its producer failed.
  // RESOURCE_EXHAUSTED: too many wait, or there is no memory to read it back into.
  WaitId open(TenantId tenant, ObjectId object, Instant deadline, Opened opened);
  // As open(), but only says that the object is there (its type), without reading it from disk.
  WaitId await(TenantId tenant, ObjectId object, Instant deadline,
               std::function<void(Result<TensorType>)> there);
  // Its callback will not be called any more.
  void cancel(WaitId wait);

  // A reference: while an object (expected or not) is held as often as not released, it neither
  // expires nor is removed. NOT_FOUND as for open(); the cause, if its producer failed.
  Result<void> hold(TenantId tenant, ObjectId object);
  void release(TenantId tenant, ObjectId object);
  // The time to live of an object that is held begins again, unless it was removed meanwhile.
  void renew(TenantId tenant, ObjectId object);

  // It goes now, or when the last reference does. NOT_FOUND; FAILED_PRECONDITION if it is expected.
  Result<void> remove(TenantId tenant, ObjectId object);

  // Told of each object that existed and is no more; may not use the store. May be empty.
  using Gone = std::function<void(TenantId, ObjectId)>;
  void on_gone(Gone gone) { gone_ = std::move(gone); }

  // What is known of an object; NOT_FOUND as for open(). Failed and expected ones are known too.
  Result<ObjectStatus> status(TenantId tenant, ObjectId object) const;
  // In order of id, after `after` (none: from the start), at most `limit`.
  std::vector<ObjectStatus> list(TenantId tenant, std::optional<ObjectId> after,
                                 size_t limit) const;
  StoreStatistics statistics() const;
  const IndexOptions& options() const { return index_.options(); }

 private:
  using There = std::function<void(Result<TensorType>)>;
  // Exactly one of the two callbacks is set.
  struct Wait {
    ObjectKey key;
    Opened opened;
    There there;
    std::optional<loop::TimerId> timer;

    void fail(const Error& error);
  };
  // Of an object that exists.
  struct Content {
    // Shared because the disk may still be writing it when the object goes. None: it is on disk,
    // or on a device.
    std::shared_ptr<const OwnedFd> memfd;
    uint64_t version = 0;  // names its file; no two files ever have the same
    uint32_t checksum = 0;
    bool has_file = false;  // and it is whole
  };

  // No memfd: its bytes are on a device.
  Result<void> add(const ObjectKey& key, TensorType type, std::shared_ptr<const OwnedFd> memfd,
                   std::optional<Duration> time_to_live);
  WaitId start(const ObjectKey& key, Instant deadline, Wait wait);
  Wait take(WaitId wait);
  void settle(const ObjectKey& key);
  void fail_waits(const ObjectKey& key, const Error& error);
  void relieve(Bytes wanted);
  void spill(const ObjectKey& key);
  void ask_back(const ObjectKey& key);
  void start_reads();
  void read(const ObjectKey& key);
  void expire();
  void drop(const ObjectKey& key);
  void time_expiry();

  loop::EventLoop& loop_;
  LogSink& log_;
  SpillFolder folder_;
  ObjectIndex index_;
  std::map<ObjectKey, Content> contents_;
  Gone gone_;
  Bring bring_;
  Seek seek_;  // none: there is no other node
  std::set<ObjectKey> sought_;
  std::unordered_map<WaitId, Wait> waits_;
  std::set<std::pair<ObjectKey, WaitId>> waits_of_;
  WaitId next_wait_ = 1;
  std::deque<ObjectKey> reads_;  // of spilled objects, until there is room for them
  Instant spill_again_{};        // the disk could not take one: not before this
  Instant bring_again_{};        // the same, of devices
  loop::TimerId expiry_timer_;
  Instant expiry_due_ = kNever;
  uint64_t waits_begun_ = 0;
  uint64_t timed_out_ = 0;
};

}  // namespace lambent::objects
