// KeptObjects: the objects that are only on a device, in which executor, and what becomes of them:
// they are brought to the host, go without ever having been there, or are lost with their executor.
// Used by ExecutorObjects on the loop thread.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "core/base/fd.h"
#include "core/base/units.h"
#include "core/loop/event_loop.h"
#include "core/protocol/executor_message.h"
#include "node/objects/object_store.h"
#include "node/worker/executor_supervisor.h"

namespace lambent::worker {

class KeptObjects {
 public:
  // What became of an object. Each of those that were kept has one of the others later.
  enum class Event : uint8_t {
    kKept,
    kRead,     // it was wanted on the host
    kEvicted,  // its executor needed the memory
    kAvoided,  // it went from the device and was never copied to the host
    kLost,     // with its executor
  };
  static constexpr size_t kEvents = 5;
  struct Counted {
    uint64_t objects = 0;
    Bytes bytes;
  };

  // All outlive it. `store` may be null: then there are no objects.
  KeptObjects(loop::EventLoop& loop, ExecutorSupervisor& supervisor, objects::ObjectStore* store);
  ~KeptObjects();
  KeptObjects(const KeptObjects&) = delete;
  KeptObjects& operator=(const KeptObjects&) = delete;

  // Stores an object that a request of this executor made and that lies only there. As
  // ObjectStore::store(); after an error the executor is to be told that it has no use for it.
  Result<void> store(const objects::ObjectKey& object, const ExecutorKey& holder,
                     const TensorType& type, std::optional<Duration> time_to_live);
  // What the executor says, with the object's memfd: it is on the host from now on, or could not be
  // written. It is told which.
  void on(const ExecutorKey& key, const protocol::ObjectWritten& message, std::vector<OwnedFd> fds);
  // The object is no more.
  void gone(const objects::ObjectKey& object);
  // What was only there is lost, for this reason.
  void executor_ended(const ExecutorKey& key, const Error& cause);

  bool any_of(const ExecutorKey& key) const { return holders_.contains(key); }
  // Has all brought that is only there; false if nothing is. ExecutorSupervisor::cleared() follows.
  bool clear(const ExecutorKey& key);

  // Since the worker's start, by Event.
  const std::array<Counted, kEvents>& counted() const { return counted_; }

 private:
  struct Kept {
    ExecutorKey holder;
    Bytes size;
  };
  // An executor that keeps some.
  struct Holder {
    std::set<ObjectId> objects;
    std::set<ObjectId> asked;     // of these: the executor was asked for them, and has not answered
    std::set<ObjectId> awaited;   // of these: the store awaits them
    Instant silent_since{};       // while it awaits some
    loop::TimerId silence_timer;  // runs meanwhile
    loop::TimerId pause_timer;    // runs after one could not be written
    bool is_pausing = false;
  };
  using Objects = std::map<objects::ObjectKey, Kept>;

  void bring(const objects::ObjectKey& object);
  void watch_silence(const ExecutorKey& key, Duration left);
  void ask_for_more(const ExecutorKey& key);
  void not_written(const ExecutorKey& key, ObjectId object, const Error& error);
  void acknowledge(const ExecutorKey& key, ObjectId object,
                   std::optional<Error> error = std::nullopt);
  void take_out(Objects::iterator found);
  void count(Event event, Bytes size);
  void tell_if_cleared(const ExecutorKey& key);

  loop::EventLoop& loop_;
  ExecutorSupervisor& supervisor_;
  objects::ObjectStore* const store_;
  Objects objects_;
  std::map<ExecutorKey, Holder> holders_;
  std::array<Counted, kEvents> counted_;
  // So that a late timer finds this gone.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace lambent::worker
