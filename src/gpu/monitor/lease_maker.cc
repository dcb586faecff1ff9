#include "gpu/monitor/lease_maker.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace lambent::monitor {
namespace {

Result<OwnedFd> make_lease(Bytes bytes, bool sparse) {
  OwnedFd fd(memfd_create("lambent-lease", MFD_CLOEXEC));
  if (!fd.valid()) return error_from_errno("memfd_create", errno);
  const auto size = static_cast<off_t>(bytes.count);
  int status = 0;
  do {
    status = sparse ? ftruncate(fd.get(), size) : fallocate(fd.get(), 0, 0, size);
  } while (status != 0 && errno == EINTR);
  if (status != 0) {
    return Error{ErrorCode::kResourceExhausted,
                 "the host has no " + to_string(bytes) + " of memory for a lease"};
  }
  return fd;
}

}  // namespace

LeaseMaker::LeaseMaker(loop::EventLoop& loop, bool sparse)
    : loop_(loop), sparse_(sparse), thread_([this] { serve(); }) {}

LeaseMaker::~LeaseMaker() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  *alive_ = false;
  wake_.notify_one();
  thread_.join();
}

void LeaseMaker::make(Bytes bytes, Answer answer) {
  {
    const MutexLock lock(mutex_);
    orders_.push_back({bytes, std::move(answer)});
  }
  wake_.notify_one();
}

void LeaseMaker::serve() {
  MutexLock lock(mutex_);
  while (true) {
    while (!stopping_ && orders_.empty()) wake_.wait(lock);
    if (stopping_) return;
    Order order = std::move(orders_.front());
    orders_.pop_front();
    lock.unlock();
    // Shared, for a task can be copied and a descriptor cannot.
    auto made = std::make_shared<Result<OwnedFd>>(make_lease(order.bytes, sparse_));
    auto task = [alive = alive_, made, answer = std::move(order.answer)] {
      if (*alive) answer(std::move(*made));
    };
    while (!loop_.post(task)) {
      // The mailbox is full of answers to others; it empties with the next turn of the loop.
      lock.lock();
      if (!stopping_) wake_.wait_for(lock, milliseconds(1));
      if (stopping_) return;
      lock.unlock();
    }
    lock.lock();
  }
}

}  // namespace lambent::monitor
