// Everything that a stream can do, as values: the API functions check their arguments, build one of
// these and enqueue it; the thread that reaches it performs it. Any thread.
//
// To add one: a struct with what the work needs, an alternative of Operation, and an overload of
// perform() beside the struct.
#pragma once

#include <memory>
#include <variant>
#include <vector>

#include "emulator/emulated_cuda/copies.h"
#include "emulator/emulated_cuda/kernel_launch.h"
#include "emulator/emulated_cuda/managed.h"
#include "emulator/emulated_cuda/memory_operations.h"
#include "emulator/emulated_cuda/stream.h"
#include "gpu/cuda_abi/driver_types.h"

namespace lambent::emulated_cuda {

class Event;
struct GraphRun;

// One launch of an executable graph (graph_run.h).
struct GraphLaunch {
  std::shared_ptr<const GraphRun> run;
  CompletionPtr after;  // the launch before it; null: none
};
int64_t perform(Process& process, Context& context, const GraphLaunch& launch, int64_t begin_ns);

// Nothing but its place in the order.
struct Empty {};

struct HostCall {
  CUhostFn function;
  void* user_data;
};

struct StreamCallback {
  CUstreamCallback function;
  CUstream stream;  // as the program named it
  void* user_data;
};

// The event stands for the end of this operation from the moment it is enqueued.
struct EventRecord {
  std::shared_ptr<Event> event;
  bool external = false;  // in a capture: a node, rather than a point in the capture
  uint64_t number = 0;    // of the record, where other processes see the event (events.h)
};

// Ends no earlier than what the event stood for when this was enqueued.
struct EventWait {
  std::shared_ptr<Event> event;
  bool external = false;  // likewise
};

struct MemoryFree {
  CUdeviceptr address;
};

// Prefetches and discards of managed memory.
struct MemoryMoves {
  std::vector<MemoryMove> moves;
};

// The two ends of the life of an allocation node's memory. What they do happens when the launch of
// their graph is submitted (graph_memory.h).
struct GraphAllocation {
  CUdeviceptr address;
  size_t bytes;
  CUmemPoolProps properties;
  std::vector<CUmemAccessDesc> access;
  std::shared_ptr<const void> hold;
};
struct GraphFree {
  CUdeviceptr address;
  std::shared_ptr<const void> hold;
};

using Operation = std::variant<Empty, KernelLaunch, Copy, Fill, HostCall, StreamCallback,
                               EventRecord, EventWait, MemoryFree, MemoryOperations,
                               GraphAllocation, GraphFree, GraphLaunch, MemoryMoves, CopyBatch>;

// Puts the operation into the stream: behind what was put there before, and behind what the legacy
// stream imposes. `end`, if given, is its completion, for callers that wait. While the stream
// captures the operation becomes a node of a graph instead, and `end` stays null.
CUresult enqueue(Process& process, const std::shared_ptr<Context>& context,
                 const std::shared_ptr<Stream>& stream, Operation operation,
                 CompletionPtr* end = nullptr);

// Does the operation, which may begin at the virtual instant `begin_ns`, on this thread; returns
// when it ended.
int64_t perform(Process& process, Context& context, const Operation& operation, int64_t begin_ns);

}  // namespace lambent::emulated_cuda
