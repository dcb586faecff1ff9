// ServedProcess: contexts, streams, events, launches and host functions.
#include <bit>
#include <cstring>
#include <vector>

#include "gpu/forward_server/served_process.h"

namespace lambent::forward_server {
namespace {

constexpr size_t kMostContexts = 64;
constexpr size_t kGates = 1024, kMostGatePages = 16;

uint32_t low(uint64_t value) { return static_cast<uint32_t>(value); }
uint32_t high(uint64_t value) { return static_cast<uint32_t>(value >> 32); }

}  // namespace

// To the driver there is one context, the executor's; a client's are what it groups things by.
void ServedProcess::create_context(const Call& call) {
  if (contexts_.size() == kMostContexts) return answer(call, CUDA_ERROR_OUT_OF_MEMORY);
  const uint64_t context = ++last_context_;
  uint64_t stream = 0;
  const CUresult result = streams_.create(context, 0, CU_STREAM_DEFAULT, 0, &stream);
  if (result == CUDA_SUCCESS) contexts_[context] = stream;
  answer(call, result, {context, stream});
}

void ServedProcess::destroy_context(const Call& call) {
  const uint64_t context = call.arguments[0];
  if (contexts_.count(context) == 0) return answer(call, CUDA_ERROR_INVALID_CONTEXT);
  completions_->when_all_done(streams_.all_of(context), [this, call, context](CUresult result) {
    clear_context(context);
    earlier_ = CUDA_SUCCESS;  // there is nobody left to tell
    answer(call, result);
  });
}

// Its work is over.
void ServedProcess::clear_context(uint64_t context) {
  release_graphs_if([&](const ExecutableGraph& graph) { return graph.context() == context; });
  modules_.for_each([&](uint64_t number, Module& module) {
    if (module.context == context) drop_module(number);
  });
  std::vector<CUdeviceptr> addresses;
  for (const auto& [address, range] : ranges_.all()) {
    if (range.context == context && range.module == 0) addresses.push_back(address);
  }
  for (const CUdeviceptr address : addresses) {
    note(driver_->mem_free_async(address, free_stream_));
    forget(address);
  }
  events_.for_each([&](uint64_t number, Event& event) {
    if (event.context != context) return;
    keep_counted(event.event, memory_->quotas.events);  // graphs of other contexts may have it
    events_.erase(number);
  });
  streams_.destroy_all_of(context);
  contexts_.erase(context);
}

void ServedProcess::synchronize_context(const Call& call) {
  if (contexts_.count(call.arguments[0]) == 0) return answer(call, CUDA_ERROR_INVALID_CONTEXT);
  std::vector<CUstream> busy;
  for (CUstream stream : streams_.all_of(call.arguments[0])) {
    const CUresult result = driver_->stream_query(stream);
    if (result == CUDA_ERROR_NOT_READY) busy.push_back(stream);
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) return answer(call, result);
  }
  if (busy.empty()) return answer_with_earlier(call, CUDA_SUCCESS);
  completions_->when_all_done(busy,
                              [this, call](CUresult result) { answer_with_earlier(call, result); });
}

void ServedProcess::create_stream(const Call& call) {
  const auto context = contexts_.find(call.arguments[0]);
  if (context == contexts_.end()) return answer(call, CUDA_ERROR_INVALID_CONTEXT);
  uint64_t number = 0;
  const CUresult result = streams_.create(context->first, context->second, low(call.arguments[1]),
                                          static_cast<int>(low(call.arguments[2])), &number);
  answer(call, result, {number});
}

// To ask a default stream is to ask those that it has to wait for.
CUresult ServedProcess::stream_to_ask(uint64_t number, CUstream* stream) {
  const Streams::Entry* entry = streams_.find(number);
  if (entry == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (entry->default_stream == number) return streams_.use(number, stream);
  *stream = entry->stream;
  return CUDA_SUCCESS;
}

void ServedProcess::synchronize_stream(const Call& call) {
  CUstream stream = nullptr;
  if (const CUresult found = stream_to_ask(call.arguments[0], &stream)) return answer(call, found);
  const CUresult result = driver_->stream_query(stream);
  if (result != CUDA_ERROR_NOT_READY) return answer_with_earlier(call, result);
  completions_->when_done(stream, [this, call](CUresult done) { answer_with_earlier(call, done); });
}

void ServedProcess::query_stream(const Call& call) {
  CUstream stream = nullptr;
  if (const CUresult found = stream_to_ask(call.arguments[0], &stream)) return answer(call, found);
  answer_with_earlier(call, driver_->stream_query(stream));
}

CUresult ServedProcess::wait_event(const Call& call) {
  Event* event = events_.find(call.arguments[1]);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  CUstream stream = nullptr;
  if (const CUresult result = streams_.use(call.arguments[0], &stream)) return result;
  return driver_->stream_wait_event(stream, event->event.get(), 0);
}

void ServedProcess::create_event(const Call& call) {
  if (contexts_.count(call.arguments[0]) == 0) return answer(call, CUDA_ERROR_INVALID_CONTEXT);
  const uint32_t flags = low(call.arguments[1]);
  // Events of other processes cannot be shared through here.
  if ((flags & CU_EVENT_INTERPROCESS) != 0) return answer(call, CUDA_ERROR_NOT_SUPPORTED);
  Event event{nullptr, call.arguments[0]};
  const CUresult result = make_event(driver_, flags, &event.event);
  if (result != CUDA_SUCCESS) return answer(call, result);
  const uint64_t number = events_.add(std::move(event));
  answer(call, number == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS, {number});
}

// A graph that has it in a node keeps it.
CUresult ServedProcess::destroy_event(const Call& call) {
  const Event* event = events_.find(call.arguments[0]);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  keep_counted(event->event, memory_->quotas.events);
  events_.erase(call.arguments[0]);
  return CUDA_SUCCESS;
}

CUresult ServedProcess::record_event(const Call& call) {
  Event* event = events_.find(call.arguments[0]);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  CUstream stream = nullptr;
  if (const CUresult result = streams_.use(call.arguments[1], &stream)) return result;
  return driver_->event_record(event->event.get(), stream);
}

void ServedProcess::query_event(const Call& call) {
  Event* event = events_.find(call.arguments[0]);
  if (event == nullptr) return answer(call, CUDA_ERROR_INVALID_HANDLE);
  answer_with_earlier(call, driver_->event_query(event->event.get()));
}

void ServedProcess::synchronize_event(const Call& call) {
  Event* event = events_.find(call.arguments[0]);
  if (event == nullptr) return answer(call, CUDA_ERROR_INVALID_HANDLE);
  const CUresult result = driver_->event_query(event->event.get());
  if (result != CUDA_ERROR_NOT_READY) return answer_with_earlier(call, result);
  completions_->when_done(event->event.get(),
                          [this, call](CUresult done) { answer_with_earlier(call, done); });
}

void ServedProcess::elapsed_time(const Call& call) {
  Event* begin = events_.find(call.arguments[0]);
  Event* end = events_.find(call.arguments[1]);
  if (begin == nullptr || end == nullptr) return answer(call, CUDA_ERROR_INVALID_HANDLE);
  float elapsed_ms = 0;
  const CUresult result =
      driver_->event_elapsed_time(&elapsed_ms, begin->event.get(), end->event.get());
  answer(call, result, {std::bit_cast<uint32_t>(elapsed_ms)});
}

CUresult ServedProcess::launch(const Call& call) {
  ++launched_;
  Function* function = functions_.find(call.arguments[0]);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  // As many bytes as the kernel itself takes: what lies where in them is its own layout's.
  if (data_bytes(call) != function->parameter_bytes) return CUDA_ERROR_INVALID_VALUE;
  CUstream stream = nullptr;
  if (const CUresult result = streams_.use(call.arguments[1], &stream)) return result;
  parameters_.clear();
  for (const auto& place : *function->parameters) {
    parameters_.push_back(data_.data() + place.offset);
  }
  const auto* a = call.arguments;
  if (a[6] != 0) {
    return driver_->launch_cooperative_kernel(function->function, low(a[2]), high(a[2]), low(a[3]),
                                              high(a[3]), low(a[4]), high(a[4]), low(a[5]), stream,
                                              parameters_.data());
  }
  return driver_->launch_kernel(function->function, low(a[2]), high(a[2]), low(a[3]), high(a[3]),
                                low(a[4]), high(a[4]), low(a[5]), stream, parameters_.data(),
                                nullptr);
}

// The stream is held at a word in page-locked memory until the process says that its function has
// returned: a function that never does holds up its own stream alone, and no thread.
CUresult ServedProcess::host_function(const Call& call) {
  const uint64_t token = call.arguments[1];
  if (token == 0 || (token & forward_ring::kGraphToken) != 0) return CUDA_ERROR_INVALID_VALUE;
  CUstream stream = nullptr;
  if (const CUresult result = streams_.use(call.arguments[0], &stream)) return result;
  if (held_.count(token) != 0) return CUDA_ERROR_INVALID_VALUE;
  size_t index = 0;
  if (const CUresult result = take_gate(&index)) return result;
  Gate& gate = gates_[index];
  {
    const MutexLock lock(gates_mutex_);
    ++gate.turn;
  }
  held_[token] = {index, gate.turn, token};
  completions_->when_done(stream, [this, token](CUresult result) {
    // After an error the driver calls no host function either.
    if (result == CUDA_SUCCESS) host_function_is_due(token);
  });
  return driver_->stream_wait_value_32(stream, gate.address, gate.turn, CU_STREAM_WAIT_VALUE_GEQ);
}

CUresult ServedProcess::take_gate(size_t* index) {
  if (free_gates_.empty()) {
    if (const CUresult result = add_gates()) return result;
  }
  *index = free_gates_.back();
  free_gates_.pop_back();
  return CUDA_SUCCESS;
}

CUresult ServedProcess::add_gates() {
  if (gate_pages_.size() == kMostGatePages) return CUDA_ERROR_OUT_OF_MEMORY;
  void* page = nullptr;
  CUdeviceptr address = 0;
  CUresult result =
      driver_->mem_host_alloc(&page, kGates * sizeof(uint32_t), CU_MEMHOSTALLOC_DEVICEMAP);
  if (result != CUDA_SUCCESS) return result;
  result = driver_->mem_host_get_device_pointer(&address, page, 0);
  if (result != CUDA_SUCCESS) {
    driver_->mem_free_host(page);
    return result;
  }
  std::memset(page, 0, kGates * sizeof(uint32_t));
  gate_pages_.push_back(page);
  const MutexLock lock(gates_mutex_);
  for (size_t i = 0; i < kGates; ++i) {
    free_gates_.push_back(gates_.size());
    gates_.push_back({static_cast<uint32_t*>(page) + i, address + i * sizeof(uint32_t)});
  }
  return CUDA_SUCCESS;
}

void ServedProcess::host_function_is_due(uint64_t ticket) {
  if (waits_for_function_) {
    const Call call = *waits_for_function_;
    waits_for_function_.reset();
    const auto held = held_.find(ticket);
    if (held == held_.end()) return answer(call, CUDA_ERROR_UNKNOWN);
    const uint64_t token = held->second.token;
    const bool is_refused = held->second.is_refused;
    held->second.handed_out = true;
    if (is_refused) held_.erase(held);
    return answer(call, CUDA_SUCCESS, {token, ticket, is_refused ? uint64_t{1} : 0});
  }
  due_functions_.push_back(ticket);
}

void ServedProcess::next_host_function(const Call& call) {
  if (waits_for_function_) return answer(call, CUDA_ERROR_ILLEGAL_STATE);
  waits_for_function_ = call;
  if (due_functions_.empty()) return;
  const uint64_t ticket = due_functions_.front();
  due_functions_.pop_front();
  host_function_is_due(ticket);
}

CUresult ServedProcess::host_function_done(const Call& call) {
  const auto found = held_.find(call.arguments[0]);
  if (found == held_.end() || !found->second.handed_out) return CUDA_ERROR_INVALID_VALUE;
  const Held held = found->second;
  held_.erase(found);
  *gates_[held.gate].word = held.turn;
  if (!held.is_of_graph) free_gates_.push_back(held.gate);
  return call.arguments[1] == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// Nobody will run their functions any more.
void ServedProcess::open_all_gates() {
  const MutexLock lock(gates_mutex_);
  for (const Gate& gate : gates_) *gate.word = gate.turn;
}

}  // namespace lambent::forward_server
