#include "emulator/emulated_cuda/threads.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <system_error>
#include <thread>
#include <utility>

namespace lambent::emulated_cuda {

namespace {
constexpr int kMostTries = 200;
}  // namespace

void start_thread(std::function<void()> body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  for (int tries = 0;; ++tries) {
    try {
      std::thread(body).detach();
      break;
    } catch (const std::system_error&) {
      // A process that is becoming another program gets no more threads, and the calling one ends
      // in a moment.
      if (tries == kMostTries) throw;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void rest_for_ever() {
  for (;;) pause();
}

void ThreadCache::run(std::function<bool()> task) {
  const MutexLock lock(mutex_);
  tasks_.push_back(std::move(task));
  if (idle_ < tasks_.size() && threads_ < most_) {
    threads_++;
    start_thread([this] { work(); });
  } else {
    wake_.notify_one();
  }
}

void ThreadCache::work() {
  MutexLock lock(mutex_);
  for (;;) {
    idle_++;
    while (tasks_.empty()) wake_.wait(lock);
    idle_--;
    std::function<bool()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    bool usable = task();
    task = nullptr;
    lock.lock();
    if (usable) continue;
    threads_--;
    lock.unlock();
    rest_for_ever();
  }
}

}  // namespace lambent::emulated_cuda
