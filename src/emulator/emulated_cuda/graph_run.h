// One launch of an executable graph: what runs, and the ends of its event nodes. Made when the
// launch is submitted, performed in its stream: nodes run as soon as what they depend on has ended,
// side by side where they can.
#pragma once

#include <optional>
#include <unordered_map>

#include "emulator/emulated_cuda/graph_exec.h"

namespace lambent::emulated_cuda {

struct GraphRun {
  std::shared_ptr<const GraphExec> exec;  // kept until the launch is over
  std::shared_ptr<const ExecBody> body;
  int64_t ready_ns = 0;         // when the overhead of the launch is over
  std::optional<int> priority;  // of all kernels; empty: each has its own
  struct Record {
    CompletionPtr end;
    std::shared_ptr<Event> event;
    uint64_t number;
  };
  std::unordered_map<uint32_t, Record> recorded;        // ends of event records, by node
  std::unordered_map<uint32_t, CompletionPtr> awaited;  // what event waits wait for, likewise
};

}  // namespace lambent::emulated_cuda
