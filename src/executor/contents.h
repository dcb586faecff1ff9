// Contents: brings to the device what requests share, constants and objects, each once, and asks
// the worker for objects. Of the loop thread; copies on another.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "base/fd.h"
#include "executor/copier.h"
#include "executor/device_store.h"
#include "executor/device_thread.h"
#include "executor/seat_loader.h"
#include "protocol/executor_message.h"

namespace lambent::executor {

class Contents {
 public:
  struct Hooks {
    std::function<void(ObjectId)> open;  // asks the worker; answered by opened()
    std::function<void()> progress;      // something is there, or failed: pin again
  };
  // `copies` is a thread of the copier's own.
  static Result<std::unique_ptr<Contents>> create(const cuda::Driver& driver, DeviceStore& store,
                                                  DeviceThread& copies, Hooks hooks);

  // The address, and the content is pinned there; none: not yet, pin again on progress. The error
  // of a content that could not be had goes to who pins it while its progress is told.
  Result<std::optional<CUdeviceptr>> pin_constant(const Constant& constant);
  // INVALID_ARGUMENT if the object is not of this type; raw bytes are of any type of their size.
  Result<std::optional<CUdeviceptr>> pin_object(ObjectId object, const TensorType& type);
  // The object's sealed file, null if it is not here yet, for content that goes to a place of the
  // request's own.
  Result<std::shared_ptr<OwnedFd>> host_object(ObjectId object, const TensorType& type);
  void unpin(const DeviceName& name) { store_.unpin(name); }

  // The worker's answer.
  void opened(const protocol::ObjectOpened& answer, OwnedFd file);

 private:
  struct HostObject {
    ObjectId object;
    std::shared_ptr<OwnedFd> file;  // shared with a copy under way
    TensorType type;
    Bytes size;
  };
  Contents(cuda::Stream stream, std::unique_ptr<Copier> copier, DeviceStore& store,
           DeviceThread& copies, Hooks hooks)
      : stream_(std::move(stream)),
        copier_(std::move(copier)),
        store_(store),
        copies_(copies),
        hooks_(std::move(hooks)) {}

  // The most recently used one from now on; null, and the worker is asked, if it is not here.
  HostObject* on_host(ObjectId object);
  Result<std::optional<CUdeviceptr>> pin_filled(DeviceStore::Entry& entry, const DeviceName& name);
  // Makes a place and has it filled by the other thread; `owner` lives until then.
  Result<void> fill(const DeviceName& name, Bytes size, CopyIn source, TensorType type,
                    std::shared_ptr<OwnedFd> owner);
  void tell(const DeviceName& name, std::optional<Error> error);
  void keep_on_host(HostObject object);

  cuda::Stream stream_;
  std::unique_ptr<Copier> copier_;
  DeviceStore& store_;
  DeviceThread& copies_;
  const Hooks hooks_;
  std::unordered_map<DeviceName, Error, DeviceNameHash> errors_;  // while progress is told
  std::unordered_set<ObjectId> asked_;
  std::list<HostObject> host_;  // the most recently used first
  std::unordered_map<ObjectId, std::list<HostObject>::iterator> on_host_;
  Bytes host_size_;
};

}  // namespace lambent::executor
