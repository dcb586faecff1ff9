// EarlyAnswers: what needs only the bytes that the device has written is answered by the driver's
// own thread when it calls back, before the loop has woken. The loop is told behind the answer, and
// releases what the request held. Of the loop thread, but for answer().
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/base/mutex.h"
#include "core/base/time.h"
#include "gpu/executor/connection.h"
#include "gpu/executor/request.h"

namespace lambent::executor {

class EarlyAnswers {
 public:
  // Both outlive this; this outlives all requests and the streams that they ran on, because the
  // driver's thread may be here until the last of them is gone.
  EarlyAnswers(const Connection& connection, const Clock& clock)
      : connection_(connection), clock_(clock) {}
  EarlyAnswers(const EarlyAnswers&) = delete;
  EarlyAnswers& operator=(const EarlyAnswers&) = delete;

  // Gives a request whose last work is being queued all that the driver's thread needs, if that can
  // answer it: its answer is short and by value, and goes through page-locked memory.
  static void prepare(RequestUnderWay& request);

  // On the driver's thread, when the device has done the last work. What could not be sent of the
  // answer; none: the loop has to answer. Otherwise the loop may take the request away at any time.
  std::optional<std::string> answer(RequestUnderWay& request);

  // The instances whose requests were answered here since the last call.
  std::vector<SandboxId> take_answered();

 private:
  const Connection& connection_;
  const Clock& clock_;
  Mutex mutex_;
  std::vector<SandboxId> answered_ GUARDED_BY(mutex_);
};

}  // namespace lambent::executor
