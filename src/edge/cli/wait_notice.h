// WaitNotice: tells a person at a terminal what a call waits for, once it has waited for a second:
// its place in the queue, the start of a sandbox, its own run. Asks the worker on a thread and a
// connection of its own, while the caller's thread waits for the answer.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <ostream>
#include <string>
#include <thread>

#include "core/base/mutex.h"
#include "core/base/time.h"
#include "edge/cli/transport.h"

namespace lambent::cli {

// "a sandbox is being started", of an answer of /v1/activity/live about one function; empty if
// nothing is known. Of several calls it is the one that came when this one did.
std::string notice_of(const nlohmann::ordered_json& live, Duration waited);

class WaitNotice {
 public:
  struct Options {
    std::string function;
    Duration every = seconds(1);  // it asks; the first time after as long
  };

  // Nothing is said, and no thread runs, without a transport.
  WaitNotice(std::unique_ptr<Transport> transport, std::ostream& err, Options options);
  ~WaitNotice() { stop(); }
  WaitNotice(const WaitNotice&) = delete;
  WaitNotice& operator=(const WaitNotice&) = delete;

  // The answer is there: nothing more is said. May be called again.
  void stop();

 private:
  void watch();
  // Whether it was stopped meanwhile.
  bool stopped_within(Duration time);

  const std::unique_ptr<Transport> transport_;
  std::ostream& err_;
  const Options options_;
  Mutex mutex_;
  Condition changed_;
  bool stopped_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace lambent::cli
