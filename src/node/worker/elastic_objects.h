// ElasticObjects: keeps objects on the devices of a node as far as functions leave memory idle, and
// has them evicted before functions need it. Decides for all executors, by
// decide/scheduling/elastic_store.h (docs/decisions/0033). Used by ExecutorHost on the loop thread.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "core/loop/event_loop.h"
#include "decide/scheduling/elastic_store.h"
#include "node/objects/object_store.h"
#include "node/worker/executor_supervisor.h"
#include "node/worker/object_exports.h"
#include "node/worker/object_places.h"

namespace lambent::worker {

class ElasticObjects {
 public:
  // A device as functions leave it.
  struct DeviceMemory {
    DeviceId device;
    Bytes memory;
    Bytes needed;     // by functions, from now until the look-ahead has passed
    Bytes unclaimed;  // in no function's share, whether it needs that or not
  };
  // What moved since the worker's start, by Copy::Going.
  struct Moved {
    uint64_t objects = 0;
    Bytes bytes;
  };
  static constexpr size_t kWays = 3;  // it lies with a reader, on a neighbour, only on the host

  // All outlive it. `objects` may be null: then there is nothing to decide.
  ElasticObjects(loop::EventLoop& loop, ExecutorSupervisor& supervisor, ObjectPlaces& places,
                 ObjectExports& exports, objects::ObjectStore* objects,
                 scheduling::StoreOptions options)
      : loop_(loop),
        supervisor_(supervisor),
        places_(places),
        exports_(exports),
        objects_(objects),
        options_(options) {}
  ElasticObjects(const ElasticObjects&) = delete;
  ElasticObjects& operator=(const ElasticObjects&) = delete;

  // How things stand: gives objects the memory that is free, and takes it back.
  void look(std::vector<DeviceMemory> devices);

  // Whether some executor there has less room for objects than it had, and has not given back yet
  // what it has above that. One that says nothing for long hangs, and is not counted until it does.
  bool evicts(DeviceId device) const;
  // Waits until this one has gone through what it was told by now.
  void await(const ExecutorKey& key);
  // It says that it has.
  void made_way(const ExecutorKey& key);

  // An export of an object that made way is over.
  void moved(const objects::ObjectKey& object, const ExecutorKey& exporter,
             const ExecutorKey& importer);
  // It says that it has it, taking so much, or has it no more: zero.
  void held(const objects::ObjectKey& object, const ExecutorKey& holder, Bytes size);
  void executor_ended(const ExecutorKey& key);

  const std::array<Moved, kWays>& moves() const { return moves_; }

 private:
  using Copy = ObjectPlaces::Copy;
  // What elastic_store.h decides on, and whose each of its objects is.
  struct View {
    std::vector<scheduling::StoreDevice> devices;
    std::vector<scheduling::StoredObject> objects;
    struct Named {
      objects::ObjectKey object;
      ExecutorKey holder;
    };
    std::vector<Named> names;
  };
  View view();
  uint64_t may_lie(TenantId tenant, uint32_t from, const std::vector<ExecutorKey>& ready) const;
  std::optional<uint32_t> index_of(DeviceId device) const;
  std::optional<ExecutorKey> taker(const ExecutorKey& from, DeviceId device) const;

  void give_rooms();
  void tell_room(const ExecutorKey& key, Bytes room, bool is_smaller);
  void relieve(uint32_t device);
  void perform(const View::Named& named, bool is_spare, uint32_t to);
  void send_to(const objects::ObjectKey& object, const ExecutorKey& holder,
               const ExecutorKey& taker);
  void tell_to_go(const objects::ObjectKey& object, const ExecutorKey& holder, Copy::Going why);

  loop::EventLoop& loop_;
  ExecutorSupervisor& supervisor_;
  ObjectPlaces& places_;
  ObjectExports& exports_;
  objects::ObjectStore* objects_;
  const scheduling::StoreOptions options_;
  std::vector<DeviceMemory> devices_;
  std::vector<Bytes> needed_then_;      // at the last relief that was looked for
  uint64_t changes_then_ = 0;           // and what was known of objects
  std::map<ExecutorKey, Bytes> rooms_;  // beside what functions have there, as told
  bool rooms_are_due_ = false;
  std::set<ExecutorKey> due_;  // that are yet to be told of a smaller one
  // Those that have not said yet that all is so: of how many smaller ones, and since when they have
  // said nothing.
  struct Asked {
    unsigned times = 0;
    Instant since;
  };
  std::map<ExecutorKey, Asked> asked_;
  std::array<Moved, kWays> moves_;
  // So that a late timer finds this gone.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace lambent::worker
