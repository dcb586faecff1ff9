#include "gpu/forward_server/host_functions.h"

namespace lambent::forward_server {
namespace {

using forward_ring::CallCode;

constexpr size_t kMostHeld = size_t{1} << 16;  // functions that were queued and have not run

}  // namespace

bool HostFunctions::handle(const Call& call) {
  switch (static_cast<CallCode>(call.code)) {
    case CallCode::kHostFunction:
      answers_.note(add(call));
      return true;
    case CallCode::kNextHostFunction:
      tell_next(call);
      return true;
    case CallCode::kHostFunctionDone:
      answers_.note(has_returned(call));
      return true;
    default:
      return false;
  }
}

// The stream waits at a gate until the process says that its function has returned: a function that
// never does holds up only its own stream, and no thread.
CUresult HostFunctions::add(const Call& call) {
  const uint64_t token = call.arguments[1];
  if (token == 0 || (token & forward_ring::kGraphToken) != 0) return CUDA_ERROR_INVALID_VALUE;
  CUstream stream = nullptr;
  if (const CUresult result = streams_.use(call.arguments[0], &stream)) return result;
  if (held_.count(token) != 0) return CUDA_ERROR_INVALID_VALUE;
  size_t gate = 0;
  if (const CUresult result = gates_.take(&gate)) return result;
  const uint32_t turn = gates_.shut(gate);
  held_[token] = {gate, turn, token};
  completions_.when_done(stream, [this, token](CUresult result) {
    // After an error the driver calls no host function either.
    if (result == CUDA_SUCCESS) is_due(token);
  });
  return driver_->stream_wait_value_32(stream, gates_.address(gate), turn,
                                       CU_STREAM_WAIT_VALUE_GEQ);
}

bool HostFunctions::has_room_for(size_t functions) const {
  return held_.size() + functions <= kMostHeld;
}

void HostFunctions::add_of_graph(CUstream stream, size_t gate, uint64_t token) {
  const uint64_t ticket = ++last_ticket_;
  held_[ticket] = {gate, gates_.turn(gate), token, false, true};
  completions_.when_done(stream, [this, ticket](CUresult result) {
    if (result == CUDA_SUCCESS) is_due(ticket);
  });
}

bool HostFunctions::refuse_of_graph(uint64_t token) {
  if (held_.size() >= 2 * kMostHeld) return false;
  const uint64_t ticket = ++last_ticket_;
  held_[ticket] = {.token = token, .is_refused = true};
  is_due(ticket);
  return true;
}

void HostFunctions::is_due(uint64_t ticket) {
  if (!waiting_) return due_.push_back(ticket);
  const Call call = *waiting_;
  waiting_.reset();
  const auto held = held_.find(ticket);
  if (held == held_.end()) return answers_.answer(call, CUDA_ERROR_UNKNOWN);
  const uint64_t token = held->second.token;
  const bool is_refused = held->second.is_refused;
  held->second.handed_out = true;
  if (is_refused) held_.erase(held);
  answers_.answer(call, CUDA_SUCCESS, {token, ticket, is_refused ? uint64_t{1} : 0});
}

void HostFunctions::tell_next(const Call& call) {
  if (waiting_) return answers_.answer(call, CUDA_ERROR_ILLEGAL_STATE);
  waiting_ = call;
  if (due_.empty()) return;
  const uint64_t ticket = due_.front();
  due_.pop_front();
  is_due(ticket);
}

CUresult HostFunctions::has_returned(const Call& call) {
  const auto found = held_.find(call.arguments[0]);
  if (found == held_.end() || !found->second.handed_out) return CUDA_ERROR_INVALID_VALUE;
  const Held held = found->second;
  held_.erase(found);
  gates_.open(held.gate, held.turn);
  if (!held.is_of_graph) gates_.give_back(held.gate);
  return call.arguments[1] == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace lambent::forward_server
