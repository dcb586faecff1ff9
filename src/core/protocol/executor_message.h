// What the worker and lambent-executor say to each other, and its codec: one message a packet,
// descriptors with it where a message says so. Values; decoding trusts nothing; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/state_archive.h"
#include "core/base/time.h"
#include "core/base/units.h"
#include "core/domain/tensor_type.h"

namespace lambent::protocol {

constexpr uint32_t kExecutorProtocolVersion = 7;
// Longer payloads travel in a memfd beside their message.
constexpr Bytes kInlinePayload = Bytes::kib(48);
// No message is longer.
constexpr Bytes kExecutorMessage = Bytes::kib(128);

// An instance is a function's place in an executor; to dispatch it is one of its sandboxes.
// --- From the worker ---

// Make this function ready: answered by InstanceReady or InstanceFailed. Its files come as
// descriptors, in the order of their names, open for reading.
struct AddInstance {
  SandboxId instance;
  std::string graph;               // which of the files is the graph
  std::vector<std::string> files;  // paths in the package
  // What the function may take of the device while its memory is in. The executor's pool never
  // holds more than all such instances together.
  Bytes memory;
  // How the emulated driver runs its kernels: true: they are not computed, only timed.
  bool modelled = false;
  // Of the multiprocessors, per cent, that its kernels may use at once.
  uint32_t share = 100;

  void archive(StateArchive& archive);
  bool operator==(const AddInstance&) const = default;
};
// The function leaves; what is cached only for it may go. An invocation that it runs ends when the
// device has done what is queued for it, loops when their round is over; then it is answered, with
// an error.
struct RemoveInstance {
  SandboxId instance;

  void archive(StateArchive& archive);
  bool operator==(const RemoveInstance&) const = default;
};
// Take what is cached for this instance out of the device's memory, down to what the others are
// allowed, or bring its constants back: answered by InstanceMoved.
struct MoveInstance {
  SandboxId instance;
  bool out = false;

  void archive(StateArchive& archive);
  bool operator==(const MoveInstance&) const = default;
};
// From the next request on, or a client's next calls. Answered by InstanceFailed where an instance
// cannot.
struct SetShare {
  SandboxId instance;
  uint32_t share = 100;

  void archive(StateArchive& archive);
  bool operator==(const SetShare&) const = default;
};
// A sandbox whose CUDA calls run in this executor: each of its processes connects to the listening
// socket that comes with the message, as its first descriptor; the second is the sandbox's memory
// ledger. Has no answer.
struct AddClient {
  SandboxId client;
  Bytes memory;  // that all its processes together may hold
  uint32_t share = 100;

  void archive(StateArchive& archive);
  bool operator==(const AddClient&) const = default;
};
// The sandbox is gone, or must be: what its processes held is freed. Has no answer.
struct RemoveClient {
  SandboxId client;

  void archive(StateArchive& archive);
  bool operator==(const RemoveClient&) const = default;
};
// Answered by Finished. Instances run at the same time, one invocation each.
struct Run {
  InvocationId invocation;
  SandboxId instance;
  std::string content_type;  // empty: application/json
  std::string payload;
  bool payload_attached = false;  // it comes as a memfd instead

  void archive(StateArchive& archive);
  bool operator==(const Run&) const = default;
};
// The answer to OpenObject; without an error, the object comes as a sealed memfd.
struct ObjectOpened {
  ObjectId object;
  std::optional<Error> error;
  TensorType type;
  // If not zero, another executor shares it: it lies at the beginning of so much device memory,
  // which comes as the second descriptor. Answered by ExportEnded.
  Bytes shared;
  // The error is what became of the object: its producer failed, or it was damaged.
  bool failed = false;

  void archive(StateArchive& archive);
  bool operator==(const ObjectOpened&) const = default;
};

// Export what lies here under this name to another executor of the tenant: answered by
// ObjectShared, and kept where it is until as many ExportEnded.
struct ShareObject {
  ObjectId object;

  void archive(StateArchive& archive);
  bool operator==(const ShareObject&) const = default;
};
// Also from the executor that imported it.
struct ExportEnded {
  ObjectId object;

  void archive(StateArchive& archive);
  bool operator==(const ExportEnded&) const = default;
};
// Keep this object, too, if there is room without letting others go: another executor shares it, as
// in ObjectOpened, in device memory that is the only descriptor. Answered by ObjectHeld if it has
// arrived, and in any case by ExportEnded after that.
struct TakeObject {
  ObjectId object;
  TensorType type;
  Bytes shared;

  void archive(StateArchive& archive);
  bool operator==(const TakeObject&) const = default;
};
// Release this object on the device. Answered by ObjectHeld: with what it takes, if it is in use
// and stays. What has no copy on the host is written before. No object at all is answered when all
// that earlier messages have sent away is gone. A `deleted` one is forgotten altogether, as soon as
// it is not used; that has no answer.
struct DropObject {
  ObjectId object;
  bool deleted = false;

  void archive(StateArchive& archive);
  bool operator==(const DropObject&) const = default;
};
// Write this object, which was kept on the device only, to the host: answered by ObjectWritten.
struct WriteObject {
  ObjectId object;

  void archive(StateArchive& archive);
  bool operator==(const WriteObject&) const = default;
};
// Requests that are queued will read this object, or do so no more: kept on the device rather than
// others, should it lie there or come to. Has no answer.
struct NeedObject {
  ObjectId object;
  bool needed = false;

  void archive(StateArchive& archive);
  bool operator==(const NeedObject&) const = default;
};
// Objects may take so much of the device beside what the instances may take. At first that is
// nothing.
struct SetObjectRoom {
  Bytes room;

  void archive(StateArchive& archive);
  bool operator==(const SetObjectRoom&) const = default;
};

// --- From the executor ---

// First of all, once the device's context is there.
struct ExecutorHello {
  uint32_t version = kExecutorProtocolVersion;
  Duration context_time{};
  // Other devices that it sees and whose memory its own can reach, by ordinal: what lies there can
  // be exported to it.
  std::vector<uint32_t> peers = {};

  void archive(StateArchive& archive);
  bool operator==(const ExecutorHello&) const = default;
};
struct InstanceReady {
  SandboxId instance;
  Duration elapsed{};
  Bytes constants;  // what its constants take of the device, whether it has requests or not

  void archive(StateArchive& archive);
  bool operator==(const InstanceReady&) const = default;
};
// It could not be made ready, or not be given its new share: then it answers requests as before
// until it is removed.
struct InstanceFailed {
  SandboxId instance;
  Error error;  // INVALID_ARGUMENT with the exact place in the graph, RESOURCE_EXHAUSTED, ...

  void archive(StateArchive& archive);
  bool operator==(const InstanceFailed&) const = default;
};
struct InstanceMoved {
  SandboxId instance;
  bool out = false;
  bool done = true;
  Bytes moved;
  Bytes left;  // of this instance's memory on the device after a move out
  Duration duration{};

  void archive(StateArchive& archive);
  bool operator==(const InstanceMoved&) const = default;
};
// An output that became an object. Its sealed memfd comes with the message, unless it is kept on
// the device only, until ObjectWritten.
struct OutputObject {
  ObjectId object;
  TensorType type;
  uint32_t output = 0;  // which of the request's
  bool kept = false;

  void archive(StateArchive& archive);
  bool operator==(const OutputObject&) const = default;
};
// What the error of a request is about.
enum class ErrorSubject : uint8_t {
  kRequest,      // itself, or its kernels
  kInput,        // an object that it names could not be had
  kFailedInput,  // an object that it names had failed: the error is that of who was to make it
};
struct Finished {
  InvocationId invocation;
  // Set if the request failed: the client's mistake (INVALID_ARGUMENT, NOT_FOUND), a limit
  // (RESOURCE_EXHAUSTED), or a kernel's fault (INTERNAL).
  std::optional<Error> error;
  ErrorSubject subject = ErrorSubject::kRequest;
  std::string content_type;
  std::string payload;                // the answer
  bool payload_attached = false;      // it comes as the first memfd instead
  std::vector<OutputObject> objects;  // memfds of those not kept follow, in this order
  // Where the time went, from receiving Run on.
  Duration objects_time{};   // until the inputs were there
  Duration copy_in_time{};   // to the device
  Duration run_time{};       // of kernels
  Duration copy_out_time{};  // from the device
  Bytes device_memory;       // of this instance, now
  Bytes device_memory_peak;

  void archive(StateArchive& archive);
  bool operator==(const Finished&) const = default;
};
// Hand me this object; answered by ObjectOpened, which may take long: it waits until it exists.
struct OpenObject {
  ObjectId object;

  void archive(StateArchive& archive);
  bool operator==(const OpenObject&) const = default;
};
// Without an error, the device memory that it lies at the beginning of comes with the message.
struct ObjectShared {
  ObjectId object;
  std::optional<Error> error;  // NOT_FOUND: it does not lie here any more, or not by itself
  Bytes shared;                // size of that memory

  void archive(StateArchive& archive);
  bool operator==(const ObjectShared&) const = default;
};
// This object has come to lie on the device, in memory of its own, or still does, and takes so much
// of it; zero: it lies there no more. Of those in a Finished only that they have gone is said.
struct ObjectHeld {
  ObjectId object;
  Bytes held;

  void archive(StateArchive& archive);
  bool operator==(const ObjectHeld&) const = default;
};
// A kept object is on the host now: its sealed memfd comes with the message. Answers WriteObject,
// or comes by itself where its memory is needed. With an error it could not be written; NOT_FOUND:
// it is not kept here. The worker says the same back, with no memfd: it has the object, or, with an
// error, could not take it. Until then the object stays on the device.
struct ObjectWritten {
  ObjectId object;
  std::optional<Error> error;

  void archive(StateArchive& archive);
  bool operator==(const ObjectWritten&) const = default;
};
// The device's context is broken (a kernel faulted) or a kernel hangs: this executor will end.
struct Broken {
  Error error;

  void archive(StateArchive& archive);
  bool operator==(const Broken&) const = default;
};

using ExecutorMessage =
    std::variant<AddInstance, RemoveInstance, MoveInstance, SetShare, AddClient, RemoveClient, Run,
                 ObjectOpened, ShareObject, ExportEnded, TakeObject, DropObject, WriteObject,
                 NeedObject, SetObjectRoom, ObjectShared, ObjectHeld, ObjectWritten, ExecutorHello,
                 InstanceReady, InstanceFailed, InstanceMoved, Finished, OpenObject, Broken>;

std::string encode(ExecutorMessage message);

// INVALID_ARGUMENT if the bytes are not exactly one message.
Result<ExecutorMessage> decode_executor_message(std::string_view bytes);

}  // namespace lambent::protocol
