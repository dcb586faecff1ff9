// ObjectExports: objects that an executor exports to another on a device, so that they need not
// come from the host: who is asked for one, and when it gets it back. Used by ExecutorHost and
// ElasticObjects on the loop thread.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "core/base/fd.h"
#include "core/base/ids.h"
#include "core/base/units.h"
#include "core/loop/event_loop.h"
#include "node/worker/executor_supervisor.h"
#include "node/worker/object_places.h"

namespace lambent::worker {

class ObjectExports {
 public:
  // Device memory that an object lies at the beginning of.
  struct Export {
    Bytes size;
    OwnedFd memory;      // not valid: it did not come, and the export goes back
    DeviceId from = {};  // where it lies; set here
  };
  // Called once; none: it comes from the host.
  using Callback = std::function<void(std::optional<Export>)>;
  // An export of what moves is over; the importer has it if it has said so by now.
  using OnMoved = std::function<void(const objects::ObjectKey&, const ExecutorKey& exporter,
                                     const ExecutorKey& importer)>;

  // All outlive it.
  ObjectExports(loop::EventLoop& loop, ExecutorSupervisor& supervisor, ObjectPlaces& places,
                OnMoved on_moved)
      : loop_(loop), supervisor_(supervisor), places_(places), on_moved_(std::move(on_moved)) {}
  ObjectExports(const ObjectExports&) = delete;
  ObjectExports& operator=(const ObjectExports&) = delete;

  // Asks who has it nearest for an export; false if there is none to ask, or if the importer has
  // one of this object, or will: it says when it has done with it only by the object's name.
  bool import(ObjectId object, const ExecutorKey& importer, Callback done);
  // Asks this one, which has it, so that it can move to the other; none at once if the other has a
  // export of it, or will.
  void share(ObjectId object, const ExecutorKey& exporter, const ExecutorKey& importer,
             Callback done);

  // What executors say.
  void shared(const ExecutorKey& exporter, ObjectId object, Result<Export> object_export);
  void ended(const ExecutorKey& importer, ObjectId object);
  void executor_ended(const ExecutorKey& key);

 private:
  struct Request {  // that is not answered yet
    uint64_t number = 0;
    ObjectId object;
    ExecutorKey exporter, importer;
    bool moves = false;
    Callback done;  // empty: too late, the export goes back at once
  };
  struct Out {
    ObjectId object;
    ExecutorKey exporter, importer;
    bool moves = false;
    SandboxId process;  // of the exporter
  };
  const ExecutorKey* nearest(const objects::ObjectKey& object, const ExecutorKey& importer) const;
  bool has_export(const ExecutorKey& importer, ObjectId object) const;
  void ask(Request request);
  void give_back(const Out& object_export);
  void count(const Out& object_export, bool begins);

  loop::EventLoop& loop_;
  ExecutorSupervisor& supervisor_;
  ObjectPlaces& places_;
  const OnMoved on_moved_;
  std::list<Request> requests_;  // in the order in which each exporter was asked
  std::vector<Out> out_;
  uint64_t last_request_ = 0;
  // So that a late timer finds this gone.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace lambent::worker
