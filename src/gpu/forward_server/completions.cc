#include "gpu/forward_server/completions.h"

#include <utility>

namespace lambent::forward_server {
namespace {

// Events that are kept for the next: after a flood they go.
constexpr size_t kMostFreeEvents = 1024;

}  // namespace

void Completions::release() {
  for (const auto& [stream, queue] : queues_) {
    for (const Pending& pending : queue.pending) driver_->event_destroy(pending.event);
    if (queue.is_notifier) driver_->stream_destroy(stream);
  }
  for (CUevent event : free_events_) driver_->event_destroy(event);
  for (CUstream stream : free_notifiers_) driver_->stream_destroy(stream);
  queues_.clear();
  ordered_.clear();
  free_events_.clear();
  free_notifiers_.clear();
  size_ = told_ = 0;
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

void Completions::add(CUstream stream, bool is_notifier, Then then) {
  CUevent event = nullptr;
  CUresult result = take_event(&event);
  if (result == CUDA_SUCCESS) result = driver_->event_record(event, stream);
  if (result != CUDA_SUCCESS) {
    if (event != nullptr) free_events_.push_back(event);
    if (is_notifier && !queues_.contains(stream)) free_notifiers_.push_back(stream);
    return then(result);
  }
  Queue& queue = queues_[stream];
  queue.is_notifier = is_notifier;
  queue.pending.push_back({event, std::move(then)});
  ++size_;
}

void Completions::when_done(CUstream stream, Then then) { add(stream, false, std::move(then)); }

CUresult Completions::wait_for(CUstream notifier, const std::vector<CUstream>& streams) {
  CUresult result = CUDA_SUCCESS;
  for (CUstream stream : streams) {
    CUevent mark = nullptr;
    if (result == CUDA_SUCCESS) result = take_event(&mark);
    if (result == CUDA_SUCCESS) result = driver_->event_record(mark, stream);
    // Once it waits, the event may be used again: the wait is for what was recorded by then.
    if (result == CUDA_SUCCESS) result = driver_->stream_wait_event(notifier, mark, 0);
    if (mark != nullptr) free_events_.push_back(mark);
  }
  return result;
}

void Completions::when_all_done(const std::vector<CUstream>& streams, Then then) {
  CUstream notifier = nullptr;
  CUresult result = take_notifier(&notifier);
  if (result == CUDA_SUCCESS) result = wait_for(notifier, streams);
  if (result == CUDA_SUCCESS) return add(notifier, true, std::move(then));
  if (notifier != nullptr) free_notifiers_.push_back(notifier);
  then(result);
}

void Completions::when_all_done_in_order(CUstream stream, const std::vector<CUstream>& others,
                                         Then then) {
  const auto used = ordered_.find(stream);
  CUstream notifier = used == ordered_.end() ? nullptr : used->second;
  const bool is_new = notifier == nullptr;
  CUresult result = is_new ? take_notifier(&notifier) : CUDA_SUCCESS;
  if (result == CUDA_SUCCESS) result = wait_for(notifier, others);
  if (result == CUDA_SUCCESS) result = wait_for(notifier, {stream});
  if (result != CUDA_SUCCESS) {
    if (is_new && notifier != nullptr) free_notifiers_.push_back(notifier);
    return then(result);
  }
  add(notifier, true, std::move(then));
  if (queues_.contains(notifier)) ordered_[stream] = notifier;
}

size_t Completions::notifiers() const {
  size_t used = 0;
  for (const auto& [stream, queue] : queues_) used += queue.is_notifier ? 1 : 0;
  return used + free_notifiers_.size();
}

void Completions::when_done(CUevent event, Then then) {
  CUstream notifier = nullptr;
  CUresult result = take_notifier(&notifier);
  if (result == CUDA_SUCCESS) result = driver_->stream_wait_event(notifier, event, 0);
  if (result == CUDA_SUCCESS) return add(notifier, true, std::move(then));
  if (notifier != nullptr) free_notifiers_.push_back(notifier);
  then(result);
}

// What is done then may ask for more, also of this stream.
void Completions::finish_first(Queue& queue, CUresult result) {
  Pending done = std::move(queue.pending.front());
  queue.pending.pop_front();
  --size_;
  if (free_events_.size() < kMostFreeEvents) {
    free_events_.push_back(done.event);
  } else {
    driver_->event_destroy(done.event);
  }
  done.then(result);
}

bool Completions::take_mails() {
  if (told_ == 0) return false;
  std::vector<Mail> mails;
  {
    const MutexLock lock(inbox_->mutex);
    mails.swap(inbox_->mails);
  }
  for (const Mail& mail : mails) {
    --told_;
    queues_.at(mail.stream).is_told = false;
    if (mail.notifier != mail.stream) free_notifiers_.push_back(mail.notifier);
  }
  return !mails.empty();
}

bool Completions::poll() {
  bool any = take_mails();
  // Those that come meanwhile do not invalidate the place.
  for (auto each = queues_.begin(); each != queues_.end();) {
    Queue& queue = each->second;
    while (!queue.pending.empty()) {
      const CUresult result = driver_->event_query(queue.pending.front().event);
      if (result == CUDA_ERROR_NOT_READY) break;
      any = true;
      finish_first(queue, result);
    }
    if (!queue.pending.empty() || queue.is_told) {
      ++each;
      continue;
    }
    if (queue.is_notifier) {
      std::erase_if(ordered_, [&](const auto& one) { return one.second == each->first; });
      free_notifiers_.push_back(each->first);
    }
    each = queues_.erase(each);
  }
  return any;
}

void Completions::told(CUstream, CUresult, void* user_data) {
  const std::unique_ptr<Told> told(static_cast<Told*>(user_data));
  {
    const MutexLock lock(told->inbox->mutex);
    told->inbox->mails.push_back(told->mail);
  }
  told->inbox->wake();
}

CUresult Completions::ask_to_be_told(CUstream stream, Queue& queue) {
  // Not on the client's stream, which a callback would hold up, nor behind what comes after the
  // first.
  CUstream notifier = stream;
  CUresult result = CUDA_SUCCESS;
  if (!queue.is_notifier || queue.pending.size() > 1) {
    result = take_notifier(&notifier);
    if (result != CUDA_SUCCESS) return result;
    result = driver_->stream_wait_event(notifier, queue.pending.front().event, 0);
  }
  auto told = std::make_unique<Told>(Told{inbox_, {stream, notifier}});
  if (result == CUDA_SUCCESS) {
    result = driver_->stream_add_callback(notifier, &Completions::told, told.get(), 0);
  }
  if (result != CUDA_SUCCESS) {
    if (notifier != stream) free_notifiers_.push_back(notifier);
    return result;
  }
  told.release();
  queue.is_told = true;
  ++told_;
  return CUDA_SUCCESS;
}

void Completions::hand_over() {
  for (auto each = queues_.begin(); each != queues_.end(); ++each) {
    Queue& queue = each->second;
    while (!queue.pending.empty() && !queue.is_told) {
      if (const CUresult result = ask_to_be_told(each->first, queue)) finish_first(queue, result);
    }
  }
}

bool Completions::has_mail() const {
  if (told_ == 0) return false;
  const MutexLock lock(inbox_->mutex);
  return !inbox_->mails.empty();
}

}  // namespace lambent::forward_server
