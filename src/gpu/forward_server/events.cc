#include "gpu/forward_server/events.h"

#include <bit>
#include <utility>

namespace lambent::forward_server {

using forward_ring::CallCode;

bool Events::handle(const Call& call) {
  switch (static_cast<CallCode>(call.code)) {
    case CallCode::kCreateEvent: {
      uint64_t number = 0;
      const CUresult result = create(call, &number);
      answers_.answer(call, result, {number});
      return true;
    }
    case CallCode::kDestroyEvent:
      answers_.note(destroy(call.arguments[0]));
      return true;
    case CallCode::kRecordEvent:
      answers_.note(record(call));
      return true;
    case CallCode::kWaitEvent:
      answers_.note(wait(call));
      return true;
    case CallCode::kQueryEvent:
      query(call);
      return true;
    case CallCode::kSynchronizeEvent:
      synchronize(call);
      return true;
    case CallCode::kElapsedTime:
      elapsed_time(call);
      return true;
    default:
      return false;
  }
}

const SharedEvent* Events::find(uint64_t number) {
  const Entry* entry = table_.find(number);
  return entry == nullptr ? nullptr : &entry->event;
}

void Events::destroy_all_of(uint64_t context) {
  table_.for_each([&](uint64_t number, Entry& entry) {
    if (entry.context != context) return;
    keep_counted(entry.event, quota_);  // graphs of other contexts may have it
    table_.erase(number);
  });
}

CUresult Events::create(const Call& call, uint64_t* number) {
  if (!streams_.has_context(call.arguments[0])) return CUDA_ERROR_INVALID_CONTEXT;
  const auto flags = static_cast<uint32_t>(call.arguments[1]);
  // Events of other processes cannot be shared through here.
  if ((flags & CU_EVENT_INTERPROCESS) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  Entry entry{nullptr, call.arguments[0]};
  if (const CUresult result = make_event(driver_, flags, &entry.event)) return result;
  *number = table_.add(std::move(entry));
  return *number == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult Events::destroy(uint64_t number) {
  const SharedEvent* event = find(number);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  keep_counted(*event, quota_);
  table_.erase(number);
  return CUDA_SUCCESS;
}

CUresult Events::record(const Call& call) {
  const SharedEvent* event = find(call.arguments[0]);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  CUstream stream = nullptr;
  if (const CUresult result = streams_.use(call.arguments[1], &stream)) return result;
  return driver_->event_record(event->get(), stream);
}

CUresult Events::wait(const Call& call) {
  const SharedEvent* event = find(call.arguments[1]);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  CUstream stream = nullptr;
  if (const CUresult result = streams_.use(call.arguments[0], &stream)) return result;
  return driver_->stream_wait_event(stream, event->get(), 0);
}

void Events::query(const Call& call) {
  const SharedEvent* event = find(call.arguments[0]);
  if (event == nullptr) return answers_.answer(call, CUDA_ERROR_INVALID_HANDLE);
  answers_.answer_with_earlier(call, driver_->event_query(event->get()));
}

void Events::synchronize(const Call& call) {
  const SharedEvent* event = find(call.arguments[0]);
  if (event == nullptr) return answers_.answer(call, CUDA_ERROR_INVALID_HANDLE);
  const CUresult result = driver_->event_query(event->get());
  if (result != CUDA_ERROR_NOT_READY) return answers_.answer_with_earlier(call, result);
  completions_.when_done(event->get(),
                         [this, call](CUresult done) { answers_.answer_with_earlier(call, done); });
}

void Events::elapsed_time(const Call& call) {
  const SharedEvent* begin = find(call.arguments[0]);
  const SharedEvent* end = find(call.arguments[1]);
  if (begin == nullptr || end == nullptr) return answers_.answer(call, CUDA_ERROR_INVALID_HANDLE);
  float elapsed_ms = 0;
  const CUresult result = driver_->event_elapsed_time(&elapsed_ms, begin->get(), end->get());
  answers_.answer(call, result, {std::bit_cast<uint32_t>(elapsed_ms)});
}

}  // namespace lambent::forward_server
