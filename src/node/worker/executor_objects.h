// ExecutorObjects: the objects that executors ask for, share, keep on devices and must drop, and
// how much of each device they may take. Used by ExecutorHost on the loop thread.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "core/loop/event_loop.h"
#include "core/protocol/executor_message.h"
#include "node/objects/object_store.h"
#include "node/worker/elastic_objects.h"
#include "node/worker/executor_plan.h"
#include "node/worker/executor_supervisor.h"
#include "node/worker/kept_objects.h"
#include "node/worker/object_exports.h"
#include "node/worker/object_places.h"

namespace lambent::worker {

class ExecutorObjects {
 public:
  struct Setting {
    bool shares = false;   // executors import objects from each other's device memory
    bool elastic = false;  // objects stay on devices while functions leave them memory
    scheduling::StoreOptions store = {};
  };

  // All outlive it. `store` may be null: then there are no objects.
  ExecutorObjects(loop::EventLoop& loop, ExecutorSupervisor& supervisor,
                  objects::ObjectStore* store, Setting setting);
  ~ExecutorObjects();
  ExecutorObjects(const ExecutorObjects&) = delete;
  ExecutorObjects& operator=(const ExecutorObjects&) = delete;

  // What an executor sent.
  void on(const ExecutorKey& key, const protocol::OpenObject& message);
  void on(const ExecutorKey& key, const protocol::ObjectShared& message, std::vector<OwnedFd> fds);
  void on(const ExecutorKey& key, const protocol::ObjectHeld& message);
  void on(const ExecutorKey& key, const protocol::ExportEnded& message);
  void on(const ExecutorKey& key, const protocol::ObjectWritten& message,
          std::vector<OwnedFd> fds) {
    kept_.on(key, message, std::move(fds));
  }
  // What only it had is lost, for this reason.
  void executor_ended(const ExecutorKey& key, const Error& cause);
  // An instance has left it, and its memory with it: what starts there waits until objects that
  // are only there have been written.
  void instance_left(const ExecutorKey& key) {
    if (kept_.any_of(key)) elastic_.await(key);
  }
  // As KeptObjects::clear().
  bool clear(const ExecutorKey& key) { return kept_.clear(key); }
  // A request of that executor has ended: what it read may be released.
  void may_release(const ExecutorKey& key) { places_.may_release(key); }

  // Stores the objects that a request of that executor made, one memfd for each that is not kept.
  // An error: none of those that follow the stored ones exists.
  Result<void> store(const ExecutorKey& key, const protocol::Finished& message,
                     std::vector<OwnedFd> memfds, std::optional<Duration> time_to_live);
  // Objects that were made and are kept nowhere: the executor drops those from `first` on.
  void discard(const ExecutorKey& key, const std::vector<protocol::OutputObject>& made,
               size_t first);

  // A request that is queued for a kernel function will read these, or has ended: executors keep
  // what they have of them on a device rather than other objects.
  void need(TenantId tenant, const std::vector<ObjectId>& objects, bool begins);

  // Whether objects on devices may have to be evicted, or can have more memory, so that look() is
  // due.
  bool is_look_due();
  // How functions leave the devices: lets objects have the memory that is left, and takes it back.
  void look(std::vector<ElasticObjects::DeviceMemory> devices);
  const scheduling::StoreOptions& store_options() const { return setting_.store; }
  // Whether objects still lie there, or memory that they had, where they are to be evicted.
  bool evicts(DeviceId device) const { return elastic_.evicts(device); }

  Bytes on_devices() const { return places_.on_devices(); }
  // What moved: see ElasticObjects.
  const std::array<ElasticObjects::Moved, ElasticObjects::kWays>& moves() const {
    return elastic_.moves();
  }
  const std::array<KeptObjects::Counted, KeptObjects::kEvents>& kept() const {
    return kept_.counted();
  }
  // Objects that executors asked for, by where they were had from: their device, another one, the
  // host.
  const std::array<ElasticObjects::Moved, 3>& reads() const { return reads_; }

 private:
  void answer_open(const ExecutorKey& key, ObjectId object, Result<objects::OpenedObject> opened,
                   std::optional<ObjectExports::Export> object_export);
  void count_read(const ExecutorKey& key, Bytes size,
                  const std::optional<ObjectExports::Export>& object_export);
  Result<void> store_one(const ExecutorKey& key, const protocol::OutputObject& output,
                         std::vector<OwnedFd>& memfds, std::optional<Duration> time_to_live);
  Result<void> still_there(const objects::ObjectKey& object) const;
  void made(const ExecutorKey& key, const protocol::OutputObject& output);
  void tell_need(const objects::ObjectKey& object, const ExecutorKey& key);
  void object_gone(TenantId tenant, ObjectId object);

  loop::EventLoop& loop_;
  ExecutorSupervisor& supervisor_;
  objects::ObjectStore* const store_;
  const Setting setting_;
  ObjectPlaces places_;
  ObjectExports exports_;
  ElasticObjects elastic_;
  KeptObjects kept_;
  // What queued requests read, and which executors were told.
  struct Need {
    unsigned requests = 0;
    std::set<ExecutorKey> told;
  };
  std::map<objects::ObjectKey, Need> needs_;
  std::array<ElasticObjects::Moved, 3> reads_;
  std::optional<Instant> looked_;
  // So that what the disk answers later finds whether this is gone.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace lambent::worker
