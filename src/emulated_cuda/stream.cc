#include "emulated_cuda/stream.h"

#include <signal.h>

#include <algorithm>
#include <thread>

namespace lambent::emulated_cuda {

CompletionPtr Stream::submit(int64_t now_ns, std::vector<CompletionPtr> after, Work work) {
  auto completion = std::make_shared<Completion>();
  std::lock_guard lock(mutex_);
  if (!started_) start_thread();
  queue_.push_back({now_ns, std::move(after), std::move(work), completion});
  last_ = completion;
  wake_.notify_one();
  return completion;
}

CompletionPtr Stream::last() const {
  std::lock_guard lock(mutex_);
  return last_;
}

bool Stream::idle() const {
  CompletionPtr end = last();
  return !end || end->done();
}

void Stream::wait() const {
  if (CompletionPtr end = last()) end->wait();
}

void Stream::close() {
  std::lock_guard lock(mutex_);
  closing_ = true;
  wake_.notify_one();
}

// The program's signals are its own threads' business.
void Stream::start_thread() {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([self = shared_from_this()] { self->run(); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  started_ = true;
}

void Stream::run() {
  for (;;) {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [&] { return closing_ || !queue_.empty(); });
    if (queue_.empty()) return;
    Piece piece = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();

    int64_t begin_ns = std::max(piece.submitted_ns, last_finish_ns_);
    for (const CompletionPtr& other : piece.after) {
      other->wait();
      begin_ns = std::max(begin_ns, other->finish_ns());
    }
    last_finish_ns_ = piece.work(begin_ns);
    piece.work = nullptr;
    piece.completion->complete(last_finish_ns_);
  }
}

}  // namespace lambent::emulated_cuda
