#include "forward_server/completions.h"

#include <utility>

namespace lambent::forward_server {

Completions::~Completions() {
  for (const Pending& pending : pending_) {
    if (pending.event != nullptr) driver_->event_destroy(pending.event);
    if (pending.notifier != nullptr) driver_->stream_destroy(pending.notifier);
  }
  for (CUevent event : free_events_) driver_->event_destroy(event);
  for (CUstream stream : free_notifiers_) driver_->stream_destroy(stream);
}

CUresult Completions::take_event(CUevent* event) {
  if (free_events_.empty()) return driver_->event_create(event, CU_EVENT_DISABLE_TIMING);
  *event = free_events_.back();
  free_events_.pop_back();
  return CUDA_SUCCESS;
}

CUresult Completions::take_notifier(CUstream* stream) {
  if (free_notifiers_.empty()) return driver_->stream_create(stream, CU_STREAM_NON_BLOCKING);
  *stream = free_notifiers_.back();
  free_notifiers_.pop_back();
  return CUDA_SUCCESS;
}

void Completions::add(CUstream stream, CUstream notifier, Then then) {
  Pending pending{nullptr, notifier, std::move(then)};
  CUresult result = take_event(&pending.event);
  if (result == CUDA_SUCCESS) result = driver_->event_record(pending.event, stream);
  if (result != CUDA_SUCCESS) return finish(std::move(pending), result);
  pending_.push_back(std::move(pending));
}

void Completions::when_done(CUstream stream, Then then) { add(stream, nullptr, std::move(then)); }

void Completions::when_all_done(const std::vector<CUstream>& streams, Then then) {
  CUstream notifier = nullptr;
  CUresult result = take_notifier(&notifier);
  for (CUstream stream : streams) {
    CUevent mark = nullptr;
    if (result == CUDA_SUCCESS) result = take_event(&mark);
    if (result == CUDA_SUCCESS) result = driver_->event_record(mark, stream);
    // Once it waits, the event may be used again: the wait is for what was recorded by then.
    if (result == CUDA_SUCCESS) result = driver_->stream_wait_event(notifier, mark, 0);
    if (mark != nullptr) free_events_.push_back(mark);
  }
  if (result != CUDA_SUCCESS) return finish({nullptr, notifier, std::move(then)}, result);
  add(notifier, notifier, std::move(then));
}

void Completions::when_done(CUevent event, Then then) {
  CUstream notifier = nullptr;
  CUresult result = take_notifier(&notifier);
  if (result == CUDA_SUCCESS) result = driver_->stream_wait_event(notifier, event, 0);
  if (result != CUDA_SUCCESS) return finish({nullptr, notifier, std::move(then)}, result);
  add(notifier, notifier, std::move(then));
}

void Completions::finish(Pending pending, CUresult result) {
  if (pending.event != nullptr) free_events_.push_back(pending.event);
  if (pending.notifier != nullptr) free_notifiers_.push_back(pending.notifier);
  pending.then(result);
}

bool Completions::poll() {
  bool any = false;
  std::vector<Mail> mails;
  if (handed_ > 0) {
    const std::lock_guard lock(inbox_->mutex);
    mails.swap(inbox_->mails);
  }
  for (Mail& mail : mails) {
    --handed_;
    any = true;
    finish(std::move(mail.pending), mail.result);
  }
  for (size_t i = 0; i < pending_.size();) {
    const CUresult result = driver_->event_query(pending_[i].event);
    if (result == CUDA_ERROR_NOT_READY) {
      ++i;
      continue;
    }
    any = true;
    Pending done = std::move(pending_[i]);
    // In their order: of two calls that wait for one stream the first is answered first.
    pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(i));
    finish(std::move(done), result);
  }
  return any;
}

void Completions::told(CUstream, CUresult result, void* user_data) {
  const std::unique_ptr<Told> told(static_cast<Told*>(user_data));
  {
    const std::lock_guard lock(told->inbox->mutex);
    told->inbox->mails.push_back({std::move(told->pending), result});
  }
  told->inbox->wake();
}

void Completions::hand_over() {
  std::vector<Pending> pending = std::move(pending_);
  pending_.clear();
  for (Pending& each : pending) {
    CUresult result = CUDA_SUCCESS;
    if (each.notifier == nullptr) {
      result = take_notifier(&each.notifier);
      if (result == CUDA_SUCCESS) {
        result = driver_->stream_wait_event(each.notifier, each.event, 0);
      }
    }
    if (result != CUDA_SUCCESS) {
      finish(std::move(each), result);
      continue;
    }
    CUstream notifier = each.notifier;
    auto told = std::make_unique<Told>(Told{inbox_, std::move(each)});
    result = driver_->stream_add_callback(notifier, &Completions::told, told.get(), 0);
    if (result != CUDA_SUCCESS) {
      finish(std::move(told->pending), result);
      continue;
    }
    told.release();
    ++handed_;
  }
}

bool Completions::has_mail() const {
  if (handed_ == 0) return false;
  const std::lock_guard lock(inbox_->mutex);
  return !inbox_->mails.empty();
}

}  // namespace lambent::forward_server
