// Contents: brings to the device what requests share, constants and objects, each once, and asks
// the worker for objects. Of the loop thread.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "core/base/fd.h"
#include "core/protocol/executor_message.h"
#include "gpu/executor/device_store.h"
#include "gpu/executor/importer.h"
#include "gpu/executor/instance_loader.h"
#include "gpu/executor/transfer_engine.h"

namespace lambent::executor {

class Contents {
 public:
  struct Hooks {
    std::function<void(ObjectId)> open;  // asks the worker; answered by opened()
    // An object was shared, and is not needed there any more.
    std::function<void(ObjectId)> export_ended;
    // It has come to lie on the device, and takes so much of it.
    std::function<void(ObjectId, Bytes)> arrived;
    // Something is on its way, there, or failed: who waits looks again.
    std::function<void()> progress;
  };
  // A content that is pinned.
  struct Content {
    CUdeviceptr address = 0;
    bool is_here = false;
    // If it is not here: it is there for what begins after this event. Null: not yet on its way.
    const cuda::Event* arrival = nullptr;
  };
  // `importer`: null if this device cannot import from others.
  Contents(DeviceStore& store, TransferEngine& engine, Importer* importer, Hooks hooks)
      : store_(store), engine_(engine), importer_(importer), hooks_(std::move(hooks)) {}

  // Pins the constant where it lies or will lie, and has it brought, when it is `owner`'s turn, if
  // it was not before. The error of a content that could not be had goes to who asks for it while
  // its progress is told.
  Result<Content> pin_constant(const Constant& constant, uint64_t owner);
  // How a pinned one is now; it is brought again if that failed.
  Result<Content> look(const Constant& constant, uint64_t owner);
  // The address, and the content is pinned there; none: not yet, pin again on progress.
  // INVALID_ARGUMENT if the object is not of this type; raw bytes are of any type of their size.
  Result<std::optional<CUdeviceptr>> pin_object(ObjectId object, const TensorType& type,
                                                uint64_t owner);
  // The object's sealed file, null if it is not here yet, for content that goes to a place of the
  // request's own.
  Result<std::shared_ptr<OwnedFd>> host_object(ObjectId object, const TensorType& type);
  // Whether the content, which has a place, is in it.
  bool is_here(const DeviceName& name) const { return store_.find(name)->filled; }
  // While its error is told: whether that is what became of the object.
  bool has_failed(ObjectId object) const;
  void unpin(const DeviceName& name) { store_.unpin(name); }

  // The worker's answer. `shared`: device memory of another executor that the object lies in, if
  // the answer says so.
  void opened(const protocol::ObjectOpened& answer, OwnedFd file, OwnedFd shared);
  // Has an object brought that was not asked for, from device memory of another executor, unless
  // something would have to go for it.
  void take(const protocol::TakeObject& message, OwnedFd shared);
  // Closes its file, for which the worker can be asked again.
  void close_file(ObjectId object);
  // It is no more: its file is closed, and its place free as soon as it is not used.
  void forget(ObjectId object);

 private:
  // Over when no request has it any more.
  struct Export {
    ObjectId object;
    OwnedFd memory;
    Bytes size;
    const Hooks& hooks;
    ~Export() { hooks.export_ended(object); }
  };
  struct HostObject {
    ObjectId object;
    std::shared_ptr<OwnedFd> file;  // shared with a copy under way
    TensorType type;
    Bytes size;
    std::shared_ptr<Export> object_export = nullptr;  // while it is shared as well
  };
  // Where the bytes come from, which live as long as this does.
  struct Source {
    std::shared_ptr<OwnedFd> file;  // null: the pattern
    std::string pattern;
    Bytes size;
    TensorType type;                                  // of an object
    std::shared_ptr<Export> object_export = nullptr;  // from there instead, if that can be
  };

  // The most recently used one from now on; null, and the worker is asked, if it is not here.
  HostObject* on_host(ObjectId object);
  Content content_of(const DeviceName& name);
  // Whether the content has a place and is in it, or is on its way there.
  bool is_brought(const DeviceName& name);
  // Makes a place if there is none, and has it filled.
  Result<void> bring(const DeviceName& name, const Source& source, uint64_t owner);
  bool import(const DeviceName& name, const Source& source);
  void ended(const DeviceName& name, Result<void> outcome);
  void tell(const DeviceName& name, std::optional<Error> error, bool failed = false);
  void keep_on_host(HostObject object);

  DeviceStore& store_;
  TransferEngine& engine_;
  Importer* const importer_;
  const Hooks hooks_;
  // On their way; the event that they are there after, once there is one.
  std::unordered_map<DeviceName, const cuda::Event*, DeviceNameHash> arrivals_;
  struct Problem {
    Error error;
    bool failed = false;
  };
  std::unordered_map<DeviceName, Problem, DeviceNameHash> errors_;  // while progress is told
  std::unordered_set<ObjectId> asked_;
  std::list<HostObject> host_;  // the most recently used first
  std::unordered_map<ObjectId, std::list<HostObject>::iterator> on_host_;
  Bytes host_size_;
};

}  // namespace lambent::executor
