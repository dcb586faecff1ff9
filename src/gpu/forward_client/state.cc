#include "gpu/forward_client/state.h"

#include <cstdlib>
#include <cstring>
#include <new>

#include "gpu/forward_client/captures.h"
#include "gpu/forward_client/modules.h"

namespace lambent::forward_client {

PlainMutex state_mutex;

namespace {

uint32_t g_connection GUARDED_BY(state_mutex) = 0;  // whose state this is

// Contexts are found by their place, so that a stale handle is told from a live one. A place is
// used again only when all others have been.
constexpr unsigned kPlaces = 1024;

alignas(State) char g_state_bytes[sizeof(State)];
State* g_state GUARDED_BY(state_mutex) = nullptr;
Context* g_places GUARDED_BY(state_mutex) = nullptr;
unsigned g_next_place GUARDED_BY(state_mutex) = 0;
bool g_handles_forks GUARDED_BY(state_mutex) = false;

void after_fork() {
  state_mutex.free_in_child();
  upload_mutex.free_in_child();
}

thread_local ThreadState t_thread;

// Called when a thread ends that has default streams of its own.
pthread_key_t g_thread_end;
bool g_has_thread_end GUARDED_BY(state_mutex) = false;

void destroy_streams_of_thread(void*) {
  const bool are_ours = t_thread.connection == connection_number();
  while (ThreadStream* stream = t_thread.streams) {
    t_thread.streams = stream->next;
    bool is_there = false;
    if (are_ours) {
      const StateLock lock;
      is_there = State::has_context(stream->context);
    }
    if (is_there) send(make_call(CallCode::kDestroyStream, stream->number));
    std::free(stream);
  }
}

// Also forgets those of contexts that are gone. OUT_OF_MEMORY if this one cannot be remembered.
CUresult remember_thread_stream(uint64_t context, uint64_t number) {
  ThreadState& thread = thread_state();
  const StateLock lock;
  for (ThreadStream** each = &thread.streams; *each != nullptr;) {
    ThreadStream* stream = *each;
    if (State::has_context(stream->context)) {
      each = &stream->next;
    } else {
      *each = stream->next;
      std::free(stream);
    }
  }
  if (!g_has_thread_end) {
    g_has_thread_end = pthread_key_create(&g_thread_end, destroy_streams_of_thread) == 0;
  }
  if (!g_has_thread_end || pthread_setspecific(g_thread_end, &thread) != 0) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  auto* stream = static_cast<ThreadStream*>(std::malloc(sizeof(ThreadStream)));
  if (stream == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *stream = {context, number, thread.streams};
  thread.streams = stream;
  return CUDA_SUCCESS;
}

}  // namespace

StateLock::StateLock() {
  state_mutex.lock();
  if (g_state != nullptr && g_connection == connection_number()) return;
  // The first call, or the first after a fork: nothing of the parent's is ours. What it had is
  // leaked: once for each fork.
  if (!g_handles_forks) g_handles_forks = pthread_atfork(nullptr, nullptr, after_fork) == 0;
  g_state = new (g_state_bytes) State;
  g_connection = connection_number();
  // Zero, as a new Context is. The array form of new would need the C++ library.
  g_places = static_cast<Context*>(std::calloc(kPlaces, sizeof(Context)));
  g_next_place = 0;
}

StateLock::~StateLock() { state_mutex.unlock(); }

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

bool State::has_context(uint64_t number) {
  if (g_places == nullptr) return false;
  for (unsigned i = 0; i < kPlaces; ++i) {
    if (g_places[i].number == number) return true;
  }
  return false;
}

uint64_t State::next_context(uint64_t number) {
  uint64_t next = 0;
  for (unsigned i = 0; g_places != nullptr && i < kPlaces; ++i) {
    const uint64_t each = g_places[i].number;
    if (each > number && (next == 0 || each < next)) next = each;
  }
  return next;
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
  forget_captures_of(number);
  copy_streams.erase(number);
  streams.erase_if([&](uint64_t, const StreamRecord& each) { return each.context == number; });
  events.erase_if([&](uint64_t event, const EventRecord& each) {
    state_mutex.assert_held();
    if (each.context != number) return false;
    forget_captured_event(event);
    return true;
  });
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
  for (const ThreadStream* each = thread_state().streams; each != nullptr; each = each->next) {
    if (each->context != context_number) continue;
    *number = each->number;
    return CUDA_SUCCESS;
  }
  const Call create = make_call(CallCode::kCreateStream, context_number);
  if (const CUresult result = ask(create, number, 1)) return result;
  const CUresult result = remember_thread_stream(context_number, *number);
  if (result != CUDA_SUCCESS) send(make_call(CallCode::kDestroyStream, *number));
  return result;
}

}  // namespace lambent::forward_client
