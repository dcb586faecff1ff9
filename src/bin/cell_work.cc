#include "bin/cell_work.h"

#include <thread>
#include <utility>

namespace lambent::bin {

CellWork::CellWork(std::vector<sweep::Cell> left, Simulate simulate, Keep keep)
    : left_(std::move(left)), simulate_(std::move(simulate)), keep_(std::move(keep)) {}

Result<void> CellWork::run(size_t jobs) {
  std::vector<std::thread> threads;
  for (size_t i = 1; i < jobs; ++i) threads.emplace_back([this] { work(); });
  work();
  for (std::thread& thread : threads) thread.join();
  const MutexLock lock(mutex_);
  if (failure_) return *failure_;
  return {};
}

void CellWork::work() {
  for (size_t index = next_++; index < left_.size(); index = next_++) {
    if (!keep(simulate_(left_[index]))) return;
  }
}

bool CellWork::keep(Result<sweep::CellResult> result) {
  const MutexLock lock(mutex_);
  if (failure_) return false;
  const auto kept = result.ok() ? keep_(*std::move(result)) : Result<void>(result.error());
  if (kept.ok()) return true;
  failure_ = kept.error();
  next_ = left_.size();
  return false;
}

}  // namespace lambent::bin
