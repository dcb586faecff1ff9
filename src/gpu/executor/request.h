// RequestUnderWay: one request to an instance, from its message to its answer: what the loop thread
// has to remember between the device's answers. A value of the executor; no behaviour of its own.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/fd.h"
#include "core/protocol/executor_message.h"
#include "decide/kernel_graph/request.h"
#include "gpu/executor/device_store.h"

namespace lambent::executor {

// An output that the caller wants.
struct WantedOutput {
  uint32_t buffer = 0;
  Bytes size;
  bool as_object = false;
  ObjectId object;
  DeviceName lies;       // until it goes by the object's name
  CUdeviceptr from = 0;  // where it is copied to the host from
  uint64_t offset = 0;   // in the instance's page-locked memory, if all go through that
  std::string bytes;     // else, by value
  OwnedFd file;          // an object's
};

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

  uint64_t number = 0;  // of this executor
  protocol::Run message;
  Stage stage = Stage::kContents;
  kernel_graph::Request request;

  // By buffer: where it lies in this request, 0 if not yet.
  std::vector<CUdeviceptr> addresses;
  std::vector<CUdeviceptr> contents;            // of shared content that is there, pinned
  std::vector<std::shared_ptr<OwnedFd>> files;  // of objects that are copied to the request's own
  std::vector<DeviceName> pinned;
  std::vector<uint64_t> needs;  // objects on the device that are wanted there, but not pinned
  std::vector<WantedOutput> outputs;
  bool outputs_inline = true;

  // Where the program stands.
  uint32_t instruction = 0;
  uint64_t launched = 0;         // of the instruction's times
  uint64_t queued = 0;           // launches since the host last waited
  std::vector<uint64_t> rounds;  // left, of the loops around the instruction
  bool reads_flag = false;       // what the device does now ends with reading a flag
  // Of a cold request: constants, by index of the instance's, for which its stream does not wait
  // yet; the next kernel of the instruction's; and whether it waits for one that is not on its way.
  std::vector<uint32_t> coming;
  uint32_t kernel = 0;
  bool awaits_constant = false;
  bool awaits_layer = false;  // the memory of the next one
  // It waits for contents, and may have places already: there is room when an export has ended, or
  // free pages of layers have gone.
  bool awaits_room = false;
  bool has_asked_for_pages = false;
  std::optional<Error> failure;  // answered when the device has done what was queued
  protocol::ErrorSubject subject = protocol::ErrorSubject::kRequest;  // of an error, if it fails

  // Called by the driver, on a thread of its own, when the device has done what was queued.
  std::function<void(CUresult)> on_device;
  // Set with its last work if that thread can answer (executor_early.cc).
  std::unique_ptr<EarlyAnswer> early;
  std::atomic<bool> is_withdrawn = false;  // set before its loops are stopped
  // The same, when it has done a layer.
  std::function<void(CUresult)> on_layer;

  Instant received, began, launched_at, ran;
};

}  // namespace lambent::executor
