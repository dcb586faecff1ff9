#include "forwarded_cuda/state.h"

#include <cstdlib>
#include <cstring>
#include <new>

namespace lambent::forwarded_cuda {
namespace {

pthread_mutex_t g_mutex = PTHREAD_MUTEX_INITIALIZER;
uint32_t g_connection = 0;  // whose state this is

// Contexts are found by their place, so that a stale handle is told from a live one. A place is
// used again only when all others have been.
constexpr unsigned kPlaces = 1024;

alignas(State) char g_state_bytes[sizeof(State)];
State* g_state = nullptr;
Context* g_places = nullptr;
unsigned g_next_place = 0;
bool g_handles_forks = false;

void after_fork() { g_mutex = PTHREAD_MUTEX_INITIALIZER; }

thread_local ThreadState t_thread;

}  // namespace

StateLock::StateLock() {
  pthread_mutex_lock(&g_mutex);
  if (g_state != nullptr && g_connection == connection_number()) return;
  // The first call, or the first after a fork: nothing of the parent's is ours. What it had is
  // leaked: once for each fork.
  if (!g_handles_forks) g_handles_forks = pthread_atfork(nullptr, nullptr, after_fork) == 0;
  g_state = new (g_state_bytes) State;
  g_connection = connection_number();
  g_places = new (std::nothrow) Context[kPlaces];
  g_next_place = 0;
}

StateLock::~StateLock() { pthread_mutex_unlock(&g_mutex); }

State& state() { return *g_state; }

ThreadState& thread_state() {
  if (t_thread.connection != connection_number()) {
    std::memset(&t_thread, 0, sizeof(t_thread));
    t_thread.connection = connection_number();
  }
  return t_thread;
}

Context* State::create_context(unsigned flags, unsigned api_version, CUresult* result) {
  *result = CUDA_ERROR_OUT_OF_MEMORY;
  if (g_places == nullptr) return nullptr;
  unsigned looked = 0;
  while (looked < kPlaces && g_places[g_next_place].number != 0) {
    g_next_place = (g_next_place + 1) % kPlaces;
    ++looked;
  }
  if (looked == kPlaces) return nullptr;
  uint64_t values[2] = {};
  *result = ask(make_call(CallCode::kCreateContext), values, 2);
  if (*result != CUDA_SUCCESS) return nullptr;
  Context& context = g_places[g_next_place];
  g_next_place = (g_next_place + 1) % kPlaces;
  context = Context{};
  context.number = values[0];
  context.default_stream = values[1];
  context.flags = flags;
  context.api_version = api_version;
  context.id = ++last_id;
  return &context;
}

Context* State::find_context(CUcontext handle) {
  const auto address = reinterpret_cast<uintptr_t>(handle);
  const auto first = reinterpret_cast<uintptr_t>(g_places);
  if (g_places == nullptr || address < first) return nullptr;
  if (address >= first + kPlaces * sizeof(Context)) return nullptr;
  if ((address - first) % sizeof(Context) != 0) return nullptr;
  Context* context = context_of(handle);
  return context->number == 0 ? nullptr : context;
}

void State::forget_context(Context& context) {
  const uint64_t number = context.number;
  streams.erase_if([&](uint64_t, const StreamRecord& each) { return each.context == number; });
  events.erase_if([&](uint64_t, const EventRecord& each) { return each.context == number; });
  functions.erase_if([&](uint64_t, FunctionRecord& each) {
    const ModuleRecord* module = modules.find(each.module);
    if (module != nullptr && module->context != number) return false;
    std::free(each.parameters);
    return true;  // the name may still be used by the program
  });
  modules.erase_if([&](uint64_t, const ModuleRecord& each) { return each.context == number; });
  device_ranges.erase_if([&](const Range& each) { return each.context == number; });
  if (primary == &context) primary = nullptr;
  context = Context{};
}

CUresult State::destroy_context(CUcontext handle) {
  uint64_t number = 0;
  {
    const StateLock lock;
    Context* context = state().find_context(handle);
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    number = context->number;
    state().forget_context(*context);
  }
  return ask(make_call(CallCode::kDestroyContext, number));
}

CUresult current_context(Context** context) {
  const ThreadState& thread = thread_state();
  if (thread.depth == 0 || thread.stack[thread.depth - 1] == nullptr) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  *context = state().find_context(thread.stack[thread.depth - 1]);
  return *context == nullptr ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_SUCCESS;
}

CUresult require_context() {
  WITH_CONTEXT();
  return CUDA_SUCCESS;
}

CUresult resolve_known_stream(CUstream stream, const Context& context, uint64_t* number) {
  if (stream == nullptr || stream == CU_STREAM_LEGACY) {
    *number = context.default_stream;
    return CUDA_SUCCESS;
  }
  if (stream == CU_STREAM_PER_THREAD) return CUDA_ERROR_NOT_READY;
  *number = number_of(stream);
  const bool known = state().streams.find(*number) != nullptr;
  return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult resolve_stream(CUstream stream, uint64_t* number) {
  uint64_t context_number = 0;
  {
    WITH_CONTEXT();
    const CUresult known = resolve_known_stream(stream, *context, number);
    if (known != CUDA_ERROR_NOT_READY) return known;
    context_number = context->number;
  }
  ThreadState& thread = thread_state();
  if (thread.stream == 0 || thread.stream_context != context_number) {
    const CUresult result = ask(make_call(CallCode::kCreateStream, context_number), number, 1);
    if (result != CUDA_SUCCESS) return result;
    thread.stream = *number;
    thread.stream_context = context_number;
  }
  *number = thread.stream;
  return CUDA_SUCCESS;
}

}  // namespace lambent::forwarded_cuda
