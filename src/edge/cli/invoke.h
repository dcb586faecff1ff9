// lambent invoke and lambent result: run a function, or fetch what an asynchronous one answered.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/base/time.h"
#include "edge/cli/console.h"
#include "edge/cli/transport.h"

namespace lambent::cli {

struct InvokeOptions {
  std::string name;
  std::optional<std::string> payload;  // -d; @FILE and - as event_text() has them
  std::optional<std::string> file;     // --file; "-" is standard input
  bool raw = false;                    // the payload need not be JSON
  bool asynchronous = false;
  bool log = false;
  bool streams = false;               // what the function streams is shown as it comes
  std::optional<std::string> output;  // a file for the answer
  std::string content_type;
  Duration timeout = std::chrono::hours(2);
  // Another connection to the worker, to ask what the call waits for; empty: nothing is said of it.
  std::function<std::unique_ptr<Transport>()> connect = {};
  Duration notice_every = seconds(1);  // the first after as long
};

int run_invoke(Transport& transport, Console& console, const InvokeOptions& options);

struct ResultOptions {
  std::string id;
  bool wait = false;
  std::optional<std::string> output;
  Duration poll_every = milliseconds(200);
  Duration timeout = std::chrono::hours(2);
};

// An invocation that still runs, without `wait`: exit code of UNAVAILABLE.
int run_result(Transport& transport, Console& console, const ResultOptions& options);

}  // namespace lambent::cli
