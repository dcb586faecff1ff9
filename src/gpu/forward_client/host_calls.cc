#include "gpu/forward_client/host_calls.h"

#include <pthread.h>
#include <signal.h>

#include "gpu/forward_client/connection.h"
#include "gpu/forward_client/copies.h"
#include "gpu/forward_client/executables.h"
#include "gpu/forward_client/state.h"

namespace lambent::forward_client {
namespace {

bool is_of_graph(uint64_t token) { return (token & forward_ring::kGraphToken) != 0; }

bool take_host_call(uint64_t token, HostCall* call) {
  const StateLock lock;
  const HostCall* found = state().host_calls.find(token);
  if (found == nullptr) return false;
  *call = *found;
  if (!is_of_graph(token)) state().host_calls.erase(token);
  return true;
}

// Only of this thread, so that no other work is waited for.
CUresult find_copy_stream(uint64_t context, uint64_t* stream) {
  {
    const StateLock lock;
    if (const uint64_t* found = state().copy_streams.find(context)) {
      *stream = *found;
      return CUDA_SUCCESS;
    }
  }
  const Call create = make_call(CallCode::kCreateStream, context, CU_STREAM_NON_BLOCKING);
  if (const CUresult result = ask(create, stream, 1)) return result;
  const StateLock lock;
  return state().copy_streams.add(context, *stream) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult copy(const HostCall& call) {
  uint64_t stream = 0;
  const CUresult result = find_copy_stream(call.context, &stream);
  return result == CUDA_SUCCESS ? copy_now(call.copy, stream) : result;
}

void* run_host_functions(void*) {
  uint64_t values[3] = {};  // a token, a ticket, whether it was refused
  while (ask(make_call(CallCode::kNextHostFunction), values, 3) == CUDA_SUCCESS) {
    HostCall call;
    CUresult result = CUDA_SUCCESS;
    const bool is_refused = values[2] != 0;
    if (!is_refused && take_host_call(values[0], &call)) {
      if (call.context != 0 && !call.disabled) result = copy(call);
      enter_host_function();
      if (call.function != nullptr) call.function(call.user_data);
      if (call.callback != nullptr) call.callback(call.stream, CUDA_SUCCESS, call.user_data);
      leave_host_function();
    }
    if (!is_refused) {
      send(make_call(CallCode::kHostFunctionDone, values[1], result == CUDA_SUCCESS ? 0 : 1));
    }
    if (!is_of_graph(values[0])) continue;
    const StateLock lock;
    came_by(values[0]);
  }
  return nullptr;
}

}  // namespace

// The program's signals are not for our thread.
bool start_host_calls() {
  if (state().has_runner) return true;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const bool started = pthread_create(&thread, nullptr, run_host_functions, nullptr) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!started) return false;
  pthread_detach(thread);
  state().has_runner = true;
  return true;
}

}  // namespace lambent::forward_client
