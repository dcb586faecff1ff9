// Timeline: what ran where and when, as Chrome trace events, which Perfetto and chrome://tracing
// open. Pure but for the stream that it is given; remembers only what is under way.
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <unordered_map>
#include <vector>

#include "decide/dispatch/dispatcher.h"

namespace lambent::journal {

// A process for each device and one for the queue. On a device a row is a place that one sandbox
// after the other takes, with spans for its cold start and its runs; a track for each invocation
// from its arrival to its outcome; counters for what waits and runs, tokens, utilisation and the
// global virtual time.
class Timeline {
 public:
  using NameOf = std::function<std::string(FunctionId)>;

  // `out` outlives it. What is not finished when it is destroyed is not a JSON document.
  explicit Timeline(std::ostream& out);

  // Takes up the sandboxes that there are; before the first event, and after a gap.
  void begin(const dispatch::Dispatcher& dispatcher, Instant now, const NameOf& name_of);
  void add(const dispatch::Event& event, Instant now, const std::vector<dispatch::Action>& actions,
           const dispatch::Dispatcher& dispatcher, const NameOf& name_of);
  // Ends the spans that are open, and the document.
  void finish();

 private:
  struct Place {  // of a sandbox
    uint32_t device = 0;
    uint32_t row = 0;
    FunctionId function;
    Instant since{};  // when it was started, or its invocation
    InvocationId invocation;
    bool starting = false;
    bool running = false;
  };
  struct Waiting {
    FunctionId function;
    bool began = false;  // its track was opened
  };

  void start(const dispatch::StartSandbox& action, const dispatch::Dispatcher& dispatcher,
             const NameOf& name_of);
  void run(const dispatch::StartInvocation& action);
  void complete(const dispatch::CompleteInvocation& action, const NameOf& name_of);
  void memory_moment(SandboxId sandbox, std::string_view what);
  void leave(SandboxId sandbox, const NameOf& name_of);
  Place& place_of(SandboxId sandbox, DeviceId device);
  void take_row(Place& place, DeviceId device);
  void join(const dispatch::StartInvocation& action);
  void leave_joined(InvocationId invocation, std::string_view how, const NameOf& name_of);
  void close_span(Place& place, std::string_view how, const NameOf& name_of);
  void counters(const dispatch::Dispatcher& dispatcher);
  void counter(uint32_t process, std::string_view name, double value);
  void process(uint32_t process, const std::string& name);
  // One event; `rest` is the inside of a JSON object after the common fields.
  void put(std::string_view phase, Instant at, uint32_t process, uint32_t row,
           const std::string& rest);

  std::ostream& out_;
  bool first_ = true;
  Instant now_{};
  std::vector<bool> processes_;          // by device: named
  std::vector<std::vector<bool>> rows_;  // by device: taken
  std::unordered_map<SandboxId, Place> places_;
  std::unordered_map<InvocationId, SandboxId> running_;
  std::unordered_map<InvocationId, Place> joined_;  // each in a row of its own
  std::unordered_map<InvocationId, Waiting> invocations_;
  std::unordered_map<std::string, double> last_counters_;
};

}  // namespace lambent::journal
