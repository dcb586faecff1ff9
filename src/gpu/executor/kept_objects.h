// KeptObjects: outputs that stay on the device when their request is answered, with no copy on the
// host. One is written when the worker asks for it, when its memory is needed, or when all of them
// take too much. Of the loop thread; what takes long is done by others.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/fd.h"
#include "gpu/executor/device_store.h"
#include "gpu/executor/device_thread.h"
#include "gpu/executor/transfer_engine.h"

namespace lambent::executor {

class KeptObjects {
 public:
  struct Hooks {
    // The object's sealed file, which acknowledge() follows; or why it could not be written and is
    // still kept.
    std::function<void(ObjectId, Result<OwnedFd>)> written;
    // A write has ended: memory may have been freed.
    std::function<void()> progress;
  };
  // All outlive this; the store lies in the pool.
  KeptObjects(loop::EventLoop& loop, const cuda::Context& context, DeviceStore& store,
              const MemoryPool& pool, TransferEngine& to_host, Hooks hooks)
      : store_(store),
        pool_(pool),
        to_host_(to_host),
        hooks_(std::move(hooks)),
        thread_(loop, context) {}
  KeptObjects(const KeptObjects&) = delete;
  KeptObjects& operator=(const KeptObjects&) = delete;

  // Whether so much more may be kept: beyond three quarters of what the executor may have, outputs
  // are copied to the host at once.
  bool has_room(Bytes more) const;
  // The object, which lies on the device, stays there until the worker has its file, or it is
  // forgotten. Of more than half of what the executor may have, the least recently used are written
  // meanwhile.
  void keep(ObjectId object);
  bool has(ObjectId object) const { return objects_.contains(object); }
  // Hooks::written follows, before that of what was chosen here. NOT_FOUND if it is not kept here.
  void write(ObjectId object);
  // The worker has its file, or could not take it: then it is still kept.
  void acknowledge(ObjectId object, const std::optional<Error>& error);
  // It is no more; a write of it ends without a word.
  void forget(ObjectId object);

  // A place was not found: has some written, so that they can be evicted. False if none are being
  // written: there is nothing to wait for.
  bool make_room();
  // The store's limit may have fallen: what lies above it is written.
  void limit_changed() { write_oldest(pool_.used() - pool_.limit()); }
  bool is_writing() const { return writing_ > Bytes(0); }
  // Calls `then` when all that is being written now has been, or could not be; perhaps at once.
  void when_written(std::function<void()> then);

 private:
  enum class Stage : uint8_t {
    kLies,
    kQueued,  // until few enough others are written
    kWritten,
    kSent,  // to the worker, which has not acknowledged it
  };
  struct Kept {
    Bytes size;  // that it takes of the device
    Stage stage = Stage::kLies;
    bool is_gone = false;
    uint64_t failed_at = 0;  // successes_ at that time; not chosen again before another succeeds
  };
  struct Waiting {
    std::set<ObjectId> objects;
    std::function<void()> then;
  };

  // Until so much is being written, or all.
  void write_oldest(Bytes size);
  void queue(ObjectId object, Kept& kept, std::deque<ObjectId>& queue);
  bool may_begin(Bytes size) const;
  void begin_queued();
  void begin(ObjectId object, Kept& kept);
  void seal_file(ObjectId object, std::shared_ptr<OwnedFd> file);
  void end(ObjectId object, Result<OwnedFd> file);
  void not_written(ObjectId object);
  // It is not written any more, however that ended.
  void settle(Kept& kept);
  // What waits for that goes on, and others are begun.
  void tell(ObjectId object);
  void remove(ObjectId object);

  DeviceStore& store_;
  const MemoryPool& pool_;
  TransferEngine& to_host_;
  const Hooks hooks_;
  std::unordered_map<ObjectId, Kept> objects_;  // each pinned once
  Bytes size_, writing_;                        // writing_: of those queued too
  std::deque<ObjectId> asked_, chosen_;         // queued, by the worker and here
  size_t under_way_ = 0;                        // begun and not acknowledged
  Bytes host_memory_;                           // of their files
  uint64_t successes_ = 1;
  std::vector<Waiting> waiting_;
  DeviceThread thread_;
};

}  // namespace lambent::executor
