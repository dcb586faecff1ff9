#include "emulator/emulated_cuda/stream.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cstring>

#include "emulator/emulated_cuda/threads.h"

namespace lambent::emulated_cuda {

namespace {

// Waking a sleeping thread takes tens of microseconds: what comes sooner is worth looking for. A
// few microseconds of looking, once for each wait.
template <class Condition>
void look_briefly(Condition condition) {
  constexpr int kLooks = 200;
  for (int i = 0; i < kLooks && !condition(); i++) __builtin_ia32_pause();
}

}  // namespace

void Completion::wait() const {
  look_briefly([this] { return done(); });
  for (uint32_t seen; !((seen = state_.load(std::memory_order_acquire)) & kDone);) {
    state_.wait(seen, std::memory_order_acquire);
  }
}

void Completion::wait_as_stream() {
  uint32_t seen = state_.load(std::memory_order_acquire);
  while (!(seen & kDone)) {
    if (!state_.compare_exchange_weak(seen, seen + kOneStream)) continue;
    ThreadClock::release();
    wait();
    ThreadClock::adopt(finish_ns_);
    return;
  }
}

void Completion::complete(int64_t finish_ns, ClockHolds& holds) {
  finish_ns_ = finish_ns;
  uint32_t seen = state_.load(std::memory_order_relaxed), held = 0;
  do {  // streams may still join while holds for the others are taken
    holds.add(finish_ns, static_cast<int>((seen - held) / kOneStream));
    held = seen;
  } while (!state_.compare_exchange_weak(seen, kDone, std::memory_order_acq_rel));
  state_.notify_all();
}

void Stream::wait_for_room() const {
  MutexLock lock(mutex_);
  while (queue_.size() >= kMostQueued) room_.wait(lock);
}

CompletionPtr Stream::submit(int64_t now_ns, std::vector<CompletionPtr> after, Work work) {
  auto completion = std::make_shared<Completion>();
  const MutexLock lock(mutex_);
  if (!started_) {
    started_ = true;
    start_thread([self = shared_from_this()] { self->run(); });
  }
  queue_.push_back({now_ns, std::move(after), std::move(work), completion});
  filled_.store(true, std::memory_order_release);
  last_ = completion;
  if (asleep_) {  // the thread wakes later than it may begin
    holds_.add(now_ns);
    asleep_ = false;
  }
  wake_.notify_one();
  return completion;
}

CompletionPtr Stream::last() const {
  const MutexLock lock(mutex_);
  return last_;
}

bool Stream::idle() const {
  CompletionPtr end = last();
  return !end || end->done();
}

void Stream::wait() const {
  if (CompletionPtr end = last()) end->wait();
}

void Stream::get_attribute(CUstreamAttrID id, CUstreamAttrValue* value) const {
  const MutexLock lock(mutex_);
  std::memset(value, 0, sizeof *value);
  auto it = attributes_.find(id);
  if (it != attributes_.end()) *value = it->second;
  if (id == CU_LAUNCH_ATTRIBUTE_PRIORITY) value->priority = priority;
  if (id == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY && it == attributes_.end()) {
    value->syncPolicy = CU_SYNC_POLICY_AUTO;
  }
}

void Stream::set_attribute(CUstreamAttrID id, const CUstreamAttrValue& value) {
  const MutexLock lock(mutex_);
  attributes_[id] = value;
}

void Stream::copy_attributes(const Stream& from) {
  if (this == &from) return;
  auto theirs = [&from] {
    const MutexLock lock(from.mutex_);
    return from.attributes_;
  }();
  const MutexLock lock(mutex_);
  attributes_ = std::move(theirs);
}

void Stream::close() {
  const MutexLock lock(mutex_);
  closing_ = true;
  wake_.notify_one();
}

void Stream::run() {
  // Modelled ends are waited for by sleeping: the usual slack of 50 us would show.
  prctl(PR_SET_TIMERSLACK, 1);
  ThreadClock::begin(&holds_);
  for (bool slept = true;; slept = false) {
    MutexLock lock(mutex_);
    if (queue_.empty()) {
      ThreadClock::release();
      asleep_ = slept = true;
      filled_.store(false, std::memory_order_relaxed);
      lock.unlock();
      look_briefly([this] { return filled_.load(std::memory_order_acquire); });
      lock.lock();
      while (!closing_ && queue_.empty()) wake_.wait(lock);
      if (queue_.empty()) return;
    }
    if (slept) ThreadClock::adopt(queue_.front().submitted_ns);  // held by submit()
    Piece piece = std::move(queue_.front());
    queue_.pop_front();
    if (queue_.size() + 1 == kMostQueued) room_.notify_all();
    lock.unlock();

    int64_t begin_ns = std::max(piece.submitted_ns, last_finish_ns_);
    for (const CompletionPtr& other : piece.after) {
      other->wait_as_stream();
      begin_ns = std::max(begin_ns, other->finish_ns());
    }
    ThreadClock::hold(begin_ns);
    last_finish_ns_ = piece.work(begin_ns);
    piece.work = nullptr;
    ThreadClock::hold(last_finish_ns_);
    piece.completion->complete(last_finish_ns_, holds_);
  }
}

}  // namespace lambent::emulated_cuda
