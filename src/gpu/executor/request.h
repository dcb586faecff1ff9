// RequestUnderWay: one request to an instance, from its message to its answer: what the loop thread
// has to remember between the device's answers. Requests owns it; no behaviour of its own.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/protocol/executor_message.h"
#include "decide/kernel_graph/request.h"
#include "gpu/executor/program_run.h"
#include "gpu/executor/request_buffers.h"

namespace lambent::executor {

// What the driver's thread needs to answer a request by itself.
struct EarlyAnswer {
  protocol::Finished finished;  // but for its payload
  const kernel_graph::RequestCodec* codec = nullptr;
  std::vector<kernel_graph::AnswerOutput> outputs;  // in the instance's page-locked memory
};

struct RequestUnderWay {
  enum class Stage : uint8_t {
    kContents,  // waits for objects and constants
    kCopyIn,    // its inputs are copied, or its message is read by another thread
    kRunning,   // the device works, or waits for constants
    kCopyOut,   // its outputs are copied, or another thread writes its answer
  };

  RequestUnderWay(uint64_t the_number, RequestedInstance the_instance, DeviceStore& store,
                  Contents& contents, LayeredMemory* layers, std::function<void(CUresult)> on_layer)
      : number(the_number),
        instance(the_instance),
        buffers(the_instance, store, contents, layers),
        run(the_instance.id, the_instance.loaded, contents, layers, std::move(on_layer)) {}

  const uint64_t number;  // of this executor
  const RequestedInstance instance;
  protocol::Run message;
  Stage stage = Stage::kContents;
  kernel_graph::Request request;
  RequestBuffers buffers;
  ProgramRun run;
  WantedOutputs outputs;
  // It waits for contents, and may have places already: there is room when an export has ended, or
  // free pages of layers have gone.
  bool awaits_room = false;
  bool has_asked_for_pages = false;
  std::optional<Error> failure;  // answered when the device has done what was queued

  // Called by the driver, on a thread of its own, when the device has done what was queued.
  std::function<void(CUresult)> on_device;
  std::unique_ptr<EarlyAnswer> early;  // set with its last work if that thread can answer

  Instant received, began, launched_at, ran;
};

// What is known of a request's answer before its end.
protocol::Finished begin_finished(const RequestUnderWay& request);

}  // namespace lambent::executor
