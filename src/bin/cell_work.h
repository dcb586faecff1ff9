// CellWork: the cells of a sweep that are left, simulated each once by several threads. Made and
// run by one thread; what is given to it says on which threads it is called.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/result.h"
#include "sim/sweep/figures.h"

namespace lambent::bin {

class CellWork {
 public:
  // By several threads at once.
  using Simulate = std::function<Result<sweep::CellResult>(const sweep::Cell&)>;
  // By one thread at a time, in the order in which cells finish; an error ends the sweep.
  using Keep = std::function<Result<void>(sweep::CellResult)>;

  CellWork(std::vector<sweep::Cell> left, Simulate simulate, Keep keep);
  CellWork(const CellWork&) = delete;
  CellWork& operator=(const CellWork&) = delete;

  // On so many threads, the caller's included. Returns when no cell is left, or with the first
  // error once every simulation that had begun has ended; nothing is kept after it.
  Result<void> run(size_t jobs);

 private:
  void work();
  // False: this cell failed, or one before it.
  bool keep(Result<sweep::CellResult> result);

  const std::vector<sweep::Cell> left_;
  const Simulate simulate_;
  const Keep keep_;
  std::atomic<size_t> next_ = 0;
  Mutex mutex_;  // held while one is kept
  std::optional<Error> failure_ GUARDED_BY(mutex_);
};

}  // namespace lambent::bin
