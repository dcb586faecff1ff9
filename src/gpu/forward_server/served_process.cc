#include "gpu/forward_server/served_process.h"

#include <time.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "core/base/check.h"

namespace lambent::forward_server {
namespace {

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

ServedProcess::ServedProcess(ServerContext& server_context, ClientParts client,
                             std::shared_ptr<forward_ring::SharedMemory> shared, OnEnd on_end)
    : server_context_(server_context),
      driver_(server_context.driver),
      client_(std::move(client)),
      shared_(std::move(shared)),
      pages_(*shared_->pages()),
      on_end_(std::move(on_end)),
      reader_(&pages_),
      data_(forward_ring::kMostInlineBytes),
      answers_(driver_, pages_),
      completions_(
          driver_,
          [shared = shared_] { forward_ring::wake(shared->pages()->control.server_sleeps); }),
      upload_(*client_.memory, pages_, answers_),
      streams_(driver_, *client_.share, client_.memory->quotas.streams, completions_, answers_),
      events_(driver_, client_.memory->quotas.events, streams_, completions_, answers_),
      exports_(server_context.handles, {client_.number, client_.memory, client_.pool}, ranges_,
               streams_, answers_),
      process_memory_(driver_, {*client_.memory, *client_.pool, exports_}, ranges_, streams_,
                      completions_, answers_),
      functions_(driver_, *client_.memory, pages_, streams_, answers_),
      modules_(driver_, *client_.memory, pages_, ranges_, upload_, streams_, functions_, answers_),
      gates_(driver_),
      chunk_copies_(driver_, {client_.number, server_context.links}, pages_, ranges_, streams_,
                    completions_, gates_, answers_),
      host_functions_(driver_, streams_, completions_, gates_, answers_),
      graphs_(driver_, *client_.memory, upload_, streams_, completions_, {gates_, host_functions_},
              GraphChecker(ranges_, functions_, modules_, events_), answers_),
      thread_([this] { serve(); }) {}

void ServedProcess::Release::operator()(ServedProcess* process) const {
  process->thread_.join();
  if (!process->is_abandoned_) delete process;
}

void ServedProcess::stop() {
  stopping_ = true;
  gates_.open_all();
  forward_ring::wake(pages_.control.server_sleeps);
}

void ServedProcess::tell_broken(CUresult why) {
  pages_.control.broken.store(static_cast<uint32_t>(why));
  for (auto& slot : pages_.slots) forward_ring::wake(slot.client_sleeps);
  for (auto& chunk : pages_.chunks) forward_ring::wake(chunk.client_sleeps);
  forward_ring::wake(pages_.control.client_waits_for_room);
}

CUresult ServedProcess::begin() {
  if (!server_context_.context.enter().ok()) return CUDA_ERROR_UNKNOWN;
  return process_memory_.begin();
}

void ServedProcess::serve() {
  if (const CUresult begun = begin(); begun != CUDA_SUCCESS) {
    answers_.check(begun);
    if (answers_.broken() == CUDA_SUCCESS) stopping_ = true;
  }
  serve_calls();
  if (malformed_) {
    client_.memory->lose_process();  // before it can say that it failed
    tell_broken(CUDA_ERROR_UNKNOWN);
  }
  is_served_ = false;
  bool hangs = false;
  // In a broken context nothing can be freed: it goes with the executor.
  if (answers_.broken() == CUDA_SUCCESS) {
    gates_.open_all();
    hangs = !wait_until_idle();
    if (!hangs && answers_.broken() == CUDA_SUCCESS) release_all();
  }
  const bool is_broken = answers_.broken() != CUDA_SUCCESS;
  const ProcessEnd how = is_broken    ? ProcessEnd::kBroken
                         : hangs      ? ProcessEnd::kHangs
                         : malformed_ ? ProcessEnd::kMalformed
                                      : ProcessEnd::kGone;
  is_abandoned_ = hangs || is_broken;
  on_end_(how, answers_.broken());
}

void ServedProcess::serve_calls() {
  ++server_context_.awake;
  uint32_t steps = 0;
  while (!stopping_ && !malformed_ && answers_.broken() == CUDA_SUCCESS) {
    const bool did_something = read_calls() | completions_.poll();
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
    completions_.hand_over();
    sleep();
  }
  --server_context_.awake;
}

void ServedProcess::look_for_finished_kernels() {
  if (!has_unfinished_kernels()) return;
  for (CUstream stream : streams_.all()) {
    if (answers_.check(driver_->stream_query(stream)) != CUDA_SUCCESS) return;
  }
  finished_ = launched_.load();
}

void ServedProcess::sleep() {
  look_for_finished_kernels();
  if (answers_.broken() != CUDA_SUCCESS) return;
  streams_.release_idle();
  client_.pool->recycle(server_context_.clock.now());
  forward_ring::SleepFlag& flag = pages_.control.server_sleeps;
  flag.store(1, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if ((may_read() && !reader_.is_empty()) || completions_.has_mail() || stopping_) {
    flag.store(0);
    return;
  }
  --server_context_.awake;
  forward_ring::sleep_while_set(flag, kLongestSleep_ms);
  ++server_context_.awake;
}

bool ServedProcess::may_read() const {
  return completions_.size() < kMostPending || !host_functions_.is_empty();
}

bool ServedProcess::read_calls() {
  bool any = false;
  for (int i = 0; i < kCallsInARow && !stopping_ && answers_.broken() == CUDA_SUCCESS; ++i) {
    if (!may_read()) return any;
    Call call;
    const auto next = reader_.next(call, data_.data());
    if (next == CallReader::Next::kNothing) return any;
    if (next == CallReader::Next::kMalformed) {
      malformed_ = true;
      return true;
    }
    any = true;
    // A slot or chunk that is still waited for cannot be named again.
    malformed_ = !answers_.expect(call);
    if (malformed_) return true;
    handle(call);
  }
  return any;
}

bool ServedProcess::wait_until_idle() {
  const Instant until = server_context_.clock.now() + server_context_.drain;
  const auto busy = [&] {
    completions_.poll();
    for (CUstream stream : streams_.all()) {
      const CUresult result = driver_->stream_query(stream);
      if (result == CUDA_ERROR_NOT_READY) return true;
      answers_.check(result);
    }
    return !completions_.is_empty();
  };
  while (busy()) {
    if (answers_.broken() != CUDA_SUCCESS) return true;
    if (server_context_.clock.now() > until) return false;
    const timespec pause = {0, 1'000'000};
    nanosleep(&pause, nullptr);
    gates_.open_all();
  }
  return true;
}

void ServedProcess::release_all() {
  for (const uint64_t context : streams_.contexts()) clear_context(context);
  process_memory_.release();
  chunk_copies_.release();
  completions_.release();
  gates_.release();
  upload_.release();
}

void ServedProcess::handle(const Call& call) {
  const std::span data(data_.data(), call.bytes - sizeof(Call));
  switch (static_cast<CallCode>(call.code)) {
    case CallCode::kDestroyContext:
      return destroy_context(call);
    case CallCode::kUnloadModule:
      return unload_module(call);
    case CallCode::kLaunch:
    case CallCode::kLaunchGraph:
      ++launched_;
      break;
    default:
      break;
  }
  const bool is_handled = functions_.handle(call, data) || process_memory_.handle(call, data) ||
                          chunk_copies_.handle(call) || exports_.handle(call) ||
                          streams_.handle(call) || events_.handle(call) ||
                          graphs_.handle(call, data) || modules_.handle(call, data) ||
                          host_functions_.handle(call) || upload_.handle(call);
  CHECK(is_handled, "every call is one of the parts'");
}

void ServedProcess::destroy_context(const Call& call) {
  const uint64_t context = call.arguments[0];
  if (!streams_.has_context(context)) return answers_.answer(call, CUDA_ERROR_INVALID_CONTEXT);
  std::vector<CUstream> streams = streams_.all_of(context);
  // Streams of others may be about to copy from its memory, or to it.
  for (CUstream stream : streams_.using_memory(nullptr)) {
    if (std::find(streams.begin(), streams.end(), stream) == streams.end()) {
      streams.push_back(stream);
    }
  }
  // What is asked meanwhile comes too late: it would be done beside the end of what it is about.
  streams_.end_context(context);
  process_memory_.withdraw_all_of(context);
  completions_.when_all_done(streams, [this, call, context](CUresult result) {
    clear_context(context);
    answers_.forget_noted();
    answers_.answer(call, result);
  });
}

// Its work is over. Graphs use modules and events, so they go first.
void ServedProcess::clear_context(uint64_t context) {
  graphs_.release_all_of_context(context);
  modules_.unload_all_of(context);
  process_memory_.free_all_of(context);
  events_.destroy_all_of(context);
  streams_.destroy_context(context);
}

void ServedProcess::unload_module(const Call& call) {
  const uint64_t module = call.arguments[0];
  if (modules_.context_of(module) == 0) return answers_.answer(call, CUDA_ERROR_INVALID_HANDLE);
  // Kernels of it may still run on any stream.
  completions_.when_all_done(streams_.all(), [this, call, module](CUresult result) {
    graphs_.release_all_of_module(module);
    modules_.unload(module);
    answers_.answer(call, result);
  });
}

}  // namespace lambent::forward_server
