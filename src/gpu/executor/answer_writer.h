// AnswerWriter: makes the answer of a request whose kernels have run: copies its outputs to the
// host, seals those that become objects, and encodes the rest. Of the loop thread; what takes long
// is done by others.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/fd.h"
#include "core/base/result.h"
#include "gpu/executor/device_thread.h"
#include "gpu/executor/output_memory.h"
#include "gpu/executor/request.h"
#include "gpu/executor/transfer_engine.h"

namespace lambent::executor {

class AnswerWriter {
 public:
  struct Answer {
    std::string payload;
    OwnedFd file;  // the payload, if it is too long for a message
  };
  // `to_host` outlives this.
  AnswerWriter(loop::EventLoop& loop, const cuda::Context& context, TransferEngine& to_host)
      : to_host_(to_host), thread_(loop, context), memory_(thread_) {}
  AnswerWriter(const AnswerWriter&) = delete;
  AnswerWriter& operator=(const AnswerWriter&) = delete;

  // Its kernels are queued: what is known of its answer by then is prepared. Without it, writing
  // takes longer.
  void prepare(RequestUnderWay& request);
  using Then = std::function<void(Result<Answer>)>;
  // Calls `then`, now or later, unless this ends before. Objects are in the files of the request's
  // outputs then. The request stays until then.
  void write(RequestUnderWay& request, Then then);

 private:
  void copy(RequestUnderWay& request, Then then);
  void seal_objects(RequestUnderWay& request, Then then);
  void encode(const RequestUnderWay& request, Then then);

  TransferEngine& to_host_;
  DeviceThread thread_;
  OutputMemory memory_;
};

}  // namespace lambent::executor
