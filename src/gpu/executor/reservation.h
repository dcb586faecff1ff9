// Reservation: blocks of an executor's pool that are kept free for one instance until its first
// request places its buffers. Of the loop thread.
#pragma once

#include <vector>

#include "gpu/executor/memory_pool.h"

namespace lambent::executor {

class Reservation {
 public:
  // The pool outlives this.
  explicit Reservation(MemoryPool& pool) : pool_(pool) {}
  ~Reservation() { release(); }
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;

  // Reserves a block of this size; nothing happens if the pool has too little.
  void add(Bytes size);
  // The blocks lie free in the pool from now on.
  void release();

 private:
  MemoryPool& pool_;
  std::vector<CUdeviceptr> blocks_;
};

}  // namespace lambent::executor
