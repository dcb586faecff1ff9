// HostFunctions: the host functions that streams and graphs of one process wait for. When one is
// due the process is told, runs it and reports that it has returned. Each stream waits at a gate
// until then. A resource of the process's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>

#include "gpu/cuda/driver.h"
#include "gpu/forward_ring/calls.h"
#include "gpu/forward_server/answers.h"
#include "gpu/forward_server/completions.h"
#include "gpu/forward_server/gates.h"
#include "gpu/forward_server/streams.h"

namespace lambent::forward_server {

class HostFunctions {
 public:
  using Call = forward_ring::Call;

  // All outlive it.
  HostFunctions(const cuda::Driver& driver, Streams& streams, Completions& completions,
                Gates& gates, Answers& answers)
      : driver_(driver),
        streams_(streams),
        completions_(completions),
        gates_(gates),
        answers_(answers) {}
  HostFunctions(const HostFunctions&) = delete;
  HostFunctions& operator=(const HostFunctions&) = delete;

  // False if the call is not one about host functions.
  bool handle(const Call& call);

  // Whether the process has functions to run, now or later.
  bool is_empty() const { return held_.empty(); }
  // Whether a graph with so many functions may be launched.
  bool has_room_for(size_t functions) const;
  // The function of a graph's node is due once the stream has come so far; the gate, which the
  // graph keeps, is opened when it has returned. `token` is the process's name for it.
  void add_of_graph(CUstream stream, size_t gate, uint64_t token);
  // How many graphs have added, ever.
  uint64_t added_of_graphs() const { return last_ticket_ - forward_ring::kGraphToken; }
  // Tells the process that a graph's function will not be due, because its launch was refused.
  // False if too many are to be told already.
  bool refuse_of_graph(uint64_t token);

 private:
  struct Held {
    size_t gate = 0;
    uint32_t turn = 0;
    uint64_t token = 0;
    bool handed_out = false;   // the process was told to run the function
    bool is_of_graph = false;  // which keeps its gate
    bool is_refused = false;   // with its launch: it holds nothing, and the process is told
  };
  CUresult add(const Call& call);
  void tell_next(const Call& call);
  CUresult has_returned(const Call& call);
  void is_due(uint64_t ticket);

  const cuda::Driver& driver_;
  Streams& streams_;
  Completions& completions_;
  Gates& gates_;
  Answers& answers_;
  // By ticket: that of a stream's function is its token.
  std::unordered_map<uint64_t, Held> held_;
  uint64_t last_ticket_ = forward_ring::kGraphToken;  // of a graph's function
  std::deque<uint64_t> due_;                          // tickets that the process was not told of
  std::optional<Call> waiting_;                       // the process's call for the next one
};

}  // namespace lambent::forward_server
