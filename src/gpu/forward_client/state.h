// What the library knows of its own contexts, streams, events, modules, functions and memory, so
// that a call with a wrong handle or address fails at once, as the driver's does. Under one lock;
// the executor checks everything again.
#pragma once

#include <cstdint>

#include "gpu/cuda_abi/driver_types.h"
#include "gpu/forward_client/connection.h"
#include "gpu/forward_client/graph.h"
#include "gpu/forward_client/state_lock.h"
#include "gpu/forward_client/table.h"

namespace lambent::forward_client {

struct Context {
  uint64_t number = 0;  // the executor's; 0: it does not exist
  uint64_t default_stream = 0;
  unsigned flags = 0;
  unsigned api_version = 0;
  unsigned users = 0;  // how often the primary context is retained
  uint64_t id = 0;     // never the same twice
  bool primary = false;
  CUfunc_cache cache = CU_FUNC_CACHE_PREFER_NONE;
};

struct StreamRecord {
  uint64_t context;  // its number
  unsigned flags;
  int priority;
  uint64_t id;
};
struct EventRecord {
  uint64_t context;
  unsigned flags;
  bool recorded;
};
struct ModuleRecord {
  uint64_t context;
  bool library;
};
struct FunctionRecord {
  uint64_t module;
  forward_ring::ParameterPlace* parameters;
  uint32_t parameter_count, parameter_bytes;
  int attributes[CU_FUNC_ATTRIBUTE_MAX];
  char* name;  // null until asked for
};
// What a host function is to be called with; a callback is one with a stream and a status. A graph
// may also have a copy here, for only this process reaches its memory.
struct HostCall {
  CUhostFn function = nullptr;
  CUstreamCallback callback = nullptr;
  CUstream stream = nullptr;
  void* user_data = nullptr;
  uint64_t context = 0;  // of a copy; else 0
  RowCopy copy;
  bool disabled = false;
  uint64_t pending = 0;  // launches of its graph that have not come to it
  bool retired = false;  // no launch will come any more
};

// Of a range that was opened, and is another process's too.
constexpr uint32_t kOpenedRange = 1;

struct Executable;
struct Capture;
struct CapturePoint;

// Of one connection: a fork's child begins with an empty one. Its functions are called, and what
// they return used, while a StateLock is held, if nothing else is said.
struct State {
  Context* create_context(unsigned flags, unsigned api_version, CUresult* result)
      REQUIRES(state_mutex);
  // Null if the handle is none, or of a context that is gone.
  Context* find_context(CUcontext handle) REQUIRES(state_mutex);
  static bool has_context(uint64_t number) REQUIRES(state_mutex);
  // The least number of a context that is greater than this one. 0 if there is none.
  static uint64_t next_context(uint64_t number) REQUIRES(state_mutex);
  // The executor frees what belongs to it.
  static CUresult destroy_context(CUcontext handle) EXCLUDES(state_mutex);
  void forget_context(Context& context) REQUIRES(state_mutex);

  Table<StreamRecord> streams;
  Table<EventRecord> events;
  Table<ModuleRecord> modules;
  Table<FunctionRecord> functions;
  RangeTable device_ranges;
  RangeTable host_ranges;  // page-locked, as the program believes
  Context* primary = nullptr;
  unsigned primary_flags = 0;
  uint64_t last_id = 0;
  Table<HostCall> host_calls;  // that have not begun, by token
  uint64_t last_token = 0;
  bool has_runner = false;  // a thread for them
  uint64_t last_graph_token = 0;
  Table<uint64_t> copy_streams;  // by context, for copies in graphs

  Table<Graph*> graphs;
  Table<GraphNode*> graph_nodes;
  uint64_t last_graph_number = 0;
  Table<Executable*> executables;
  List<Capture*> captures;  // that have not ended
  Table<CapturePoint*> captured_streams, captured_events;
  uint64_t last_capture = 0;
};
State& state() REQUIRES(state_mutex);

inline CUcontext handle_of(Context* context) { return reinterpret_cast<CUcontext>(context); }
inline Context* context_of(CUcontext handle) { return reinterpret_cast<Context*>(handle); }

// Libraries and kernels are modules and functions; their handles differ in the last bits.
constexpr uint64_t kLibraryBit = 1, kKernelBit = 2, kHandleBits = 15;
template <typename Handle>
uint64_t number_of(Handle handle) {
  return reinterpret_cast<uint64_t>(handle) & ~kHandleBits;
}
template <typename Handle>
Handle handle_for(uint64_t number, uint64_t bits = 0) {
  return reinterpret_cast<Handle>(number | bits);
}

// A thread's default stream in one context.
struct ThreadStream {
  uint64_t context;  // its number
  uint64_t number;
  ThreadStream* next;
};

// The calling thread's own stack of contexts and default streams, which end with it.
struct ThreadState {
  static constexpr unsigned kMostContexts = 64;
  CUcontext stack[kMostContexts];
  unsigned depth;
  ThreadStream* streams;  // those it asked for
  uint32_t connection;    // what it belongs to
};
ThreadState& thread_state();

// The thread's current context. INVALID_CONTEXT if it has none, CONTEXT_IS_DESTROYED if that is
// gone.
CUresult current_context(Context** context) REQUIRES(state_mutex);
// The number of a stream that a program names, default ones included.
CUresult resolve_stream(CUstream stream, uint64_t* number) EXCLUDES(state_mutex);
// The same for streams that are there: NOT_READY for the thread's own, which
// resolve_stream() may have to make.
CUresult resolve_known_stream(CUstream stream, const Context& context, uint64_t* number)
    REQUIRES(state_mutex);

// Declares `context`, the current one, and a lock that is held to the end of the block; or returns.
#define WITH_CONTEXT()                                                                        \
  if (const CUresult result_ = ::lambent::forward_client::connection_state()) return result_; \
  ::lambent::forward_client::StateLock lock_;                                                 \
  ::lambent::forward_client::Context* context = nullptr;                                      \
  if (const CUresult result_ = ::lambent::forward_client::current_context(&context)) return result_
// Only that there is one.
CUresult require_context();

}  // namespace lambent::forward_client
