// Requests: the requests that run in an executor's instances, one in each, from a Run message to
// its Finished. All on the loop thread, which never waits for the device: each stage asks another
// thread or the device to do something, and its answer on the loop begins the next.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "gpu/cuda/driver.h"
#include "gpu/executor/answer_writer.h"
#include "gpu/executor/connection.h"
#include "gpu/executor/context_watch.h"
#include "gpu/executor/device_thread.h"
#include "gpu/executor/early_answers.h"
#include "gpu/executor/exports.h"
#include "gpu/executor/kept_objects.h"
#include "gpu/executor/request.h"

namespace lambent::executor {

class Requests {
 public:
  // All outlive the requests.
  struct Dependencies {
    loop::EventLoop& loop;
    const cuda::Driver& driver;
    const cuda::Context& context;
    ContextWatch& watch;
    Connection& connection;
    DeviceStore& store;
    Contents& contents;
    LayeredMemory* layers;  // if there is any
    const Exports& exports;
    KeptObjects& kept;
    TransferEngine &to_device, &to_host;
  };
  struct Hooks {
    // A request is over, answered or not; its instance may go.
    std::function<void(SandboxId)> ended;
    // Memory has been freed: who waits for contents or memory looks again.
    std::function<void()> progress;
  };
  // With `pipelined`, a request begins before all of its instance's constants are there.
  Requests(Dependencies dependencies, bool pipelined, Hooks hooks);
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;

  // Runs the request, which the worker sent at `received`, in an instance that has none.
  void start(const RequestedInstance& instance, Instant received, protocol::Run message,
             std::vector<OwnedFd> fds);
  // Answers one that cannot run.
  void send_error(const InvocationId& invocation, Error error);
  bool has(SandboxId instance) const { return requests_.contains(instance); }
  // The instance is to go: its request ends as soon as the device has done what is queued for it,
  // with an error.
  void withdraw(SandboxId instance);

  // A content came nearer, or failed, or memory has been freed: requests that wait look again.
  void progress();
  // The memory of a layer is there, or will not be.
  void layer_came(SandboxId instance);
  // Releases what early answers have ended. Before the next message: the worker counts on what its
  // last answer has reported as over.
  void settle_answered();
  // Looks for streams that report a broken context, which ends the executor.
  void look_for_faults();
  // The context is broken. The suspect's request gets the error if it is the only one: every
  // stream reports a fault, so that it is known to have done it.
  void blame(SandboxId suspect, const Error& error);

  // Waits for the work of other threads, which use what the instances hold. Nothing follows.
  void stop();

 private:
  RequestUnderWay* find(SandboxId instance);
  RequestUnderWay* find(SandboxId instance, uint64_t number);

  // From the message to the device.
  void decode(RequestUnderWay& request);
  void decode_elsewhere(RequestUnderWay& request, OwnedFd payload);
  void gather(RequestUnderWay& request);
  bool await_room(RequestUnderWay& request, const Error& error);
  void copy_in(RequestUnderWay& request, std::vector<TransferPiece> pieces);
  void copied_in(RequestUnderWay& request);
  void advance(RequestUnderWay& request);
  Result<void> end_program(RequestUnderWay& request);
  Result<void> call_back(RequestUnderWay& request);

  // From the device's answer to ours (request_answers.cc).
  std::function<void(CUresult)> when_device_answers(RequestUnderWay& request);
  void answered_early(std::string unsent);
  void device_answered(SandboxId instance, uint64_t number, CUresult result);
  void layer_ended(SandboxId instance, uint64_t number, CUresult result);
  void send(RequestUnderWay& request, AnswerWriter::Answer answer);
  void fail(RequestUnderWay& request, Error error);
  void end_withdrawn(RequestUnderWay& request);
  void release(RequestUnderWay& request);

  const Dependencies with_;
  const bool pipelined_;
  const Hooks hooks_;
  uint64_t last_number_ = 0;
  uint32_t pages_asked_ = 0;  // for the device, and not there yet
  bool has_printed_apart_ = false;
  EarlyAnswers early_;  // before the requests
  std::unordered_map<SandboxId, std::unique_ptr<RequestUnderWay>> requests_;
  std::unique_ptr<DeviceThread> decodes_;
  std::unique_ptr<AnswerWriter> writer_;
};

}  // namespace lambent::executor
