// RequestBuffers: where the buffers of one request lie: in objects and constants that others use
// too, or in places of the instance's own; and what is copied between them on the instance's
// stream. Holds what the request has pinned. Of the loop thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/fd.h"
#include "core/protocol/executor_message.h"
#include "decide/kernel_graph/request.h"
#include "gpu/executor/contents.h"
#include "gpu/executor/instance_loader.h"
#include "gpu/executor/kept_objects.h"
#include "gpu/executor/layered_memory.h"
#include "gpu/executor/output_memory.h"
#include "gpu/executor/reservation.h"

namespace lambent::executor {

// An output that the caller wants.
struct WantedOutput {
  uint32_t buffer = 0;
  Bytes size;
  bool as_object = false;
  bool is_kept = false;  // an object that is not copied to the host
  TensorType type;       // of an object
  ObjectId object;
  DeviceName lies;                   // until it goes by the object's name
  bool stays = true;                 // as an object it stays there; else its content is another's
  CUdeviceptr from = 0;              // where it is copied to the host from
  uint64_t offset = 0;               // in the instance's page-locked memory, if all go through that
  std::unique_ptr<char[]> bytes;     // else, by value
  std::optional<EarlyMemory> early;  // an object's, until it is copied
  OwnedFd file;                      // an object's
};

struct WantedOutputs {
  std::vector<WantedOutput> all;  // in the caller's order
  bool are_inline = true;         // all go through the instance's page-locked memory
};

// The instance that a request runs in. All stays as long as the request.
struct RequestedInstance {
  SandboxId id;
  Bytes memory;  // that its requests may pin
  LoadedInstance& loaded;
  Reservation& reserved;
};

class RequestBuffers {
 public:
  // All outlive this. `layers` may be null if the instance has none.
  RequestBuffers(RequestedInstance instance, DeviceStore& store, Contents& contents,
                 LayeredMemory* layers);
  ~RequestBuffers() { release(); }
  RequestBuffers(const RequestBuffers&) = delete;
  RequestBuffers& operator=(const RequestBuffers&) = delete;

  // Pins constants and objects, and has those brought that are not on the device. False if some are
  // not there yet: to be called again on progress. With `pipelined`, constants may still be on
  // their way.
  Result<bool> gather(const kernel_graph::Request& request, bool pipelined);
  // What the error of gather() is about.
  protocol::ErrorSubject subject() const { return subject_; }
  // Once all is gathered: places the rest, or begins its layers. After an error it may be called
  // again.
  Result<void> place();
  // Queues the inputs that are short and those that lie on the device; returns the rest.
  Result<std::vector<TransferPiece>> queue_inputs(const kernel_graph::Request& request);
  // Behind the kernels. Objects are named after the invocation; those that are to be kept on the
  // device are, as far as `kept` has room.
  Result<WantedOutputs> queue_outputs(const kernel_graph::Request& request,
                                      const InvocationId& invocation, const KeptObjects& kept);

  // Where each buffer lies once it is placed, until the next request.
  std::span<const CUdeviceptr> addresses() const { return addresses_; }
  // What is pinned, in all.
  Bytes pinned_size() const;
  // Outputs become objects where they lie; returns how much of pinned_size() these take.
  Bytes keep_objects(std::span<const WantedOutput> outputs);
  void release();

 private:
  Result<bool> gather_constants(bool pipelined);
  Result<bool> gather_object(const kernel_graph::RequestInput& input, const TensorType& type);
  Result<bool> gather_file(size_t number, ObjectId object, const TensorType& type);
  // `overwritten`: so much at its beginning has other contents before a kernel reads it. Copies
  // from the host do not wait for the zeros behind them.
  Result<void> place_own(uint32_t buffer, Bytes size, Bytes overwritten, CUdeviceptr* address);
  bool has_share_for(const DeviceName& name, Bytes size) const;
  Result<void> move_input(uint32_t buffer, Bytes size);
  // The input of this number in the request.
  Result<std::optional<TransferPiece>> queue_input(const kernel_graph::Request& request,
                                                   size_t number);
  Result<void> copy_output(WantedOutput& output);
  // What one request of a batch has made; `number` is the output's in the request.
  Result<void> copy_part(WantedOutput& output, size_t number, bool on_device, Bytes keeps,
                         const KeptObjects& kept);
  void pin(const DeviceName& name);

  const RequestedInstance instance_;
  DeviceStore& store_;
  Contents& contents_;
  LayeredMemory* const layers_;
  protocol::ErrorSubject subject_ = protocol::ErrorSubject::kRequest;
  // By buffer: where it lies in this request, 0 if not yet.
  std::vector<CUdeviceptr> addresses_;
  std::vector<CUdeviceptr> contents_at_;  // of shared content that is there, pinned
  // By number of the input: objects that are copied to the request's own place.
  struct CopiedObject {
    std::shared_ptr<OwnedFd> file;
    bool is_kept = false;  // it is copied from where it lies
  };
  std::vector<CopiedObject> copied_;
  uint64_t elements_ = 0;  // that the request brings; 0 without variants
  std::vector<DeviceName> pinned_;
  std::vector<DeviceName> parts_;  // places of what requests of a batch have made
  std::vector<uint64_t> needs_;    // objects on the device that are wanted there, but not pinned
};

}  // namespace lambent::executor
