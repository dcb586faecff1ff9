#include "gpu/forward_server/served_process.h"

#include <time.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/check.h"
#include "gpu/cuda_abi/context_errors.h"

namespace lambent::forward_server {
namespace {

using forward_ring::Answered;
using forward_ring::CallCode;
using forward_ring::CallReader;

// What waits for the device. Who has more of it waits as one does whose ring is full, unless the
// device may wait for one of its functions: that it has returned stands in the ring, too.
constexpr size_t kMostPending = 1 << 15;
// Calls that are read before completions are looked for again.
constexpr int kCallsInARow = 256;
// A process may write over the flag that wakes the thread: then it looks after so long.
constexpr int kLongestSleep_ms = 500;

}  // namespace

ServedProcess::ServedProcess(ServerContext& server_context, std::shared_ptr<ClientMemory> memory,
                             std::shared_ptr<ClientPool> pool, std::shared_ptr<ClientShare> share,
                             std::shared_ptr<forward_ring::SharedMemory> shared, OnEnd on_end)
    : server_context_(server_context),
      driver_(server_context.driver),
      memory_(std::move(memory)),
      pool_(std::move(pool)),
      share_(std::move(share)),
      shared_(std::move(shared)),
      pages_(*shared_->pages()),
      on_end_(std::move(on_end)),
      reader_(&pages_),
      data_(forward_ring::kMostInlineBytes),
      streams_(driver_, *share_, memory_->quotas.streams),
      events_(&memory_->quotas.events),
      modules_(&memory_->quotas.modules),
      functions_(&memory_->quotas.functions),
      thread_([this] { serve(); }) {}

void ServedProcess::Release::operator()(ServedProcess* process) const {
  process->thread_.join();
  if (!process->is_abandoned_) delete process;
}

void ServedProcess::stop() {
  stopping_ = true;
  open_all_gates();
  forward_ring::wake(pages_.control.server_sleeps);
}

void ServedProcess::tell_broken(CUresult why) {
  pages_.control.broken.store(static_cast<uint32_t>(why));
  for (auto& slot : pages_.slots) forward_ring::wake(slot.client_sleeps);
  for (auto& chunk : pages_.chunks) forward_ring::wake(chunk.client_sleeps);
  forward_ring::wake(pages_.control.client_waits_for_room);
}

void ServedProcess::serve() {
  CUresult begun = server_context_.context.enter().ok() ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
  if (begun == CUDA_SUCCESS) {
    begun = driver_->stream_create(&memory_stream_, CU_STREAM_NON_BLOCKING);
  }
  if (begun == CUDA_SUCCESS) begun = driver_->stream_create(&free_stream_, CU_STREAM_NON_BLOCKING);
  completions_ = std::make_unique<Completions>(
      driver_, [shared = shared_] { forward_ring::wake(shared->pages()->control.server_sleeps); });
  if (begun != CUDA_SUCCESS) {
    seen(begun);
    if (broken_ == CUDA_SUCCESS) stopping_ = true;
  }
  ++server_context_.awake;
  uint32_t steps = 0;
  while (!stopping_ && !malformed_ && broken_ == CUDA_SUCCESS) {
    const bool did_something = read_calls() | completions_->poll();
    if (did_something) {
      if (steps > 0) budget_.came_after(steps);
      steps = 0;
      continue;
    }
    const bool may_spin = 2 * server_context_.awake.load() <= server_context_.cores;
    if (pages_.control.may_spin.load(std::memory_order_relaxed) != may_spin) {
      pages_.control.may_spin.store(may_spin, std::memory_order_relaxed);
    }
    if (may_spin && steps < budget_.steps()) {
      ++steps;
      forward_ring::pause_briefly();
      continue;
    }
    if (may_spin) budget_.did_not_come();
    steps = 0;
    completions_->hand_over();
    sleep();
  }
  --server_context_.awake;
  if (malformed_) {
    memory_->lose_process();  // before it can say that it failed
    tell_broken(CUDA_ERROR_UNKNOWN);
  }
  is_served_ = false;
  bool hangs = false;
  // In a broken context nothing can be freed: it goes with the executor.
  if (broken_ == CUDA_SUCCESS) {
    open_all_gates();
    hangs = !wait_until_idle();
    if (!hangs && broken_ == CUDA_SUCCESS) release_all();
  }
  const ProcessEnd how = broken_ != CUDA_SUCCESS ? ProcessEnd::kBroken
                         : hangs                 ? ProcessEnd::kHangs
                         : malformed_            ? ProcessEnd::kMalformed
                                                 : ProcessEnd::kGone;
  is_abandoned_ = hangs || broken_ != CUDA_SUCCESS;
  on_end_(how, broken_);
}

void ServedProcess::look_for_finished_kernels() {
  if (!has_unfinished_kernels()) return;
  for (CUstream stream : streams_.all()) {
    if (seen(driver_->stream_query(stream)) != CUDA_SUCCESS) return;
  }
  finished_ = launched_.load();
}

void ServedProcess::sleep() {
  look_for_finished_kernels();
  if (broken_ != CUDA_SUCCESS) return;
  streams_.release_idle();
  forward_ring::SleepFlag& flag = pages_.control.server_sleeps;
  flag.store(1, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if ((may_read() && !reader_.is_empty()) || completions_->has_mail() || stopping_) {
    flag.store(0);
    return;
  }
  --server_context_.awake;
  forward_ring::sleep_while_set(flag, kLongestSleep_ms);
  ++server_context_.awake;
}

bool ServedProcess::may_read() const {
  return completions_->size() < kMostPending || !held_.empty();
}

bool ServedProcess::read_calls() {
  bool any = false;
  for (int i = 0; i < kCallsInARow && !stopping_ && broken_ == CUDA_SUCCESS; ++i) {
    if (!may_read()) return any;
    Call call;
    const auto next = reader_.next(call, data_.data());
    if (next == CallReader::Next::kNothing) return any;
    if (next == CallReader::Next::kMalformed) {
      malformed_ = true;
      return true;
    }
    any = true;
    const auto code = static_cast<CallCode>(call.code);
    const Answered answered = forward_ring::answered_how(code);
    // A slot or chunk that is still waited for cannot be named again.
    if (call.slot != forward_ring::kNoSlot) {
      if (std::exchange(slot_busy_[call.slot], true)) malformed_ = true;
    }
    if (answered == Answered::kChunk || answered == Answered::kSlotChunk) {
      const uint64_t chunk = call.arguments[forward_ring::chunk_argument(code)];
      if (std::exchange(chunk_busy_[chunk], true)) malformed_ = true;
    }
    if (malformed_) return true;
    handle(call);
  }
  return any;
}

void ServedProcess::answer(const Call& call, CUresult result,
                           std::initializer_list<uint64_t> values) {
  // In a broken context the executor says so to all, when the worker knows of it.
  if (seen(result); broken_ != CUDA_SUCCESS) return;
  forward_ring::AnswerSlot& slot = pages_.slots[call.slot];
  slot.result = result;
  std::copy(values.begin(), values.end(), slot.values);
  slot_busy_[call.slot] = false;
  slot.answered.store(++answered_[call.slot], std::memory_order_release);
  forward_ring::wake(slot.client_sleeps);
}

void ServedProcess::answer_with_earlier(const Call& call, CUresult result,
                                        std::initializer_list<uint64_t> values) {
  if (earlier_ != CUDA_SUCCESS && result == CUDA_SUCCESS) {
    result = std::exchange(earlier_, CUDA_SUCCESS);
  }
  answer(call, result, values);
}

void ServedProcess::let_chunk_go(uint32_t chunk, CUresult result) {
  if (seen(result); broken_ != CUDA_SUCCESS) return;
  forward_ring::ChunkState& state = pages_.chunks[chunk];
  state.result.store(result, std::memory_order_relaxed);
  chunk_busy_[chunk] = false;
  state.done.store(++done_[chunk], std::memory_order_release);
  forward_ring::wake(state.client_sleeps);
}

void ServedProcess::note(CUresult result) {
  if (seen(result) != CUDA_SUCCESS && earlier_ == CUDA_SUCCESS) earlier_ = result;
}

CUresult ServedProcess::seen(CUresult result) {
  if (broken_ != CUDA_SUCCESS || !may_tell_of_broken_context(result)) return result;
  // Some calls answer so to odd requests too; a broken context does to every call.
  const CUresult state = driver_->stream_query(nullptr);
  if (state != CUDA_SUCCESS && state != CUDA_ERROR_NOT_READY) broken_ = result;
  return result;
}

bool ServedProcess::wait_until_idle() {
  const Instant until = server_context_.clock.now() + server_context_.drain;
  const auto busy = [&] {
    completions_->poll();
    for (CUstream stream : streams_.all()) {
      const CUresult result = driver_->stream_query(stream);
      if (result == CUDA_ERROR_NOT_READY) return true;
      seen(result);
    }
    return !completions_->is_empty();
  };
  while (busy()) {
    if (broken_ != CUDA_SUCCESS) return true;
    if (server_context_.clock.now() > until) return false;
    const timespec pause = {0, 1'000'000};
    nanosleep(&pause, nullptr);
    open_all_gates();
  }
  return true;
}

void ServedProcess::release_all() {
  std::vector<uint64_t> contexts;
  for (const auto& [context, stream] : contexts_) contexts.push_back(context);
  for (const uint64_t context : contexts) clear_context(context);
  // None, if the thread could not begin: the driver would take it for everybody's.
  if (free_stream_ != nullptr) driver_->stream_synchronize(free_stream_);
  completions_.reset();
  if (free_stream_ != nullptr) driver_->stream_destroy(free_stream_);
  if (memory_stream_ != nullptr) driver_->stream_destroy(memory_stream_);
  if (pages_locked_) driver_->mem_host_unregister(pages_.chunk_bytes);
  {
    const MutexLock lock(gates_mutex_);
    gates_.clear();  // for stop()
  }
  for (void* page : gate_pages_) driver_->mem_free_host(page);
  memory_->give_back_upload(Bytes(image_.size()));
}

void ServedProcess::handle(const Call& call) {
  switch (static_cast<CallCode>(call.code)) {
    case CallCode::kCreateContext:
      return create_context(call);
    case CallCode::kDestroyContext:
      return destroy_context(call);
    case CallCode::kSynchronizeContext:
      return synchronize_context(call);
    case CallCode::kMemoryInfo:
      return memory_info(call);
    case CallCode::kAllocate:
      return allocate(call, false);
    case CallCode::kAllocateAsync:
      return allocate(call, true);
    case CallCode::kFree:
      return free(call);
    case CallCode::kFreeAsync:
      return note(free_in_order(call));
    case CallCode::kCopyInline:
      return note(copy_inline(call));
    case CallCode::kCopyIn:
      return copy_chunk(call, true);
    case CallCode::kCopyOut:
      return copy_chunk(call, false);
    case CallCode::kCopyRows:
      return note(copy_rows(call));
    case CallCode::kFill:
      return note(fill(call));
    case CallCode::kCreateStream:
      return create_stream(call);
    case CallCode::kDestroyStream:
      return note(streams_.destroy(call.arguments[0]));
    case CallCode::kSynchronizeStream:
      return synchronize_stream(call);
    case CallCode::kQueryStream:
      return query_stream(call);
    case CallCode::kWaitEvent:
      return note(wait_event(call));
    case CallCode::kCreateEvent:
      return create_event(call);
    case CallCode::kDestroyEvent:
      return note(destroy_event(call));
    case CallCode::kRecordEvent:
      return note(record_event(call));
    case CallCode::kQueryEvent:
      return query_event(call);
    case CallCode::kSynchronizeEvent:
      return synchronize_event(call);
    case CallCode::kElapsedTime:
      return elapsed_time(call);
    case CallCode::kUpload:
      return upload(call);
    case CallCode::kLoadModule:
      return load_module(call);
    case CallCode::kUnloadModule:
      return unload_module(call);
    case CallCode::kFindFunction:
      return find_function(call);
    case CallCode::kFindGlobal:
      return find_global(call);
    case CallCode::kListFunctions:
      return list_functions(call);
    case CallCode::kFunctionName:
      return function_name(call);
    case CallCode::kFunctionParameters:
      return function_parameters(call);
    case CallCode::kFunctionAttribute:
      return function_attribute(call);
    case CallCode::kSetFunctionAttribute:
      return set_function_attribute(call);
    case CallCode::kSetCacheConfig:
      return set_cache_config(call);
    case CallCode::kOccupancy:
      return occupancy(call);
    case CallCode::kOccupancySharedMemory:
      return occupancy_shared_memory(call);
    case CallCode::kLaunch:
      return note(launch(call));
    case CallCode::kHostFunction:
      return note(host_function(call));
    case CallCode::kNextHostFunction:
      return next_host_function(call);
    case CallCode::kHostFunctionDone:
      return note(host_function_done(call));
    case CallCode::kInstantiateGraph:
      return instantiate_graph(call);
    case CallCode::kUpdateGraph:
      return update_graph(call);
    case CallCode::kSetGraphNode:
      return set_graph_node(call);
    case CallCode::kEnableGraphNode:
      return enable_graph_node(call);
    case CallCode::kUploadGraph:
      return note(upload_graph(call));
    case CallCode::kLaunchGraph:
      return note(launch_graph(call));
    case CallCode::kDestroyGraph:
      return note(destroy_graph(call));
  }
}

}  // namespace lambent::forward_server
