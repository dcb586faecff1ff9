// Memory that was freed in the order of a stream which has not got there yet, or that cannot be
// given back while a stream is captured. A list in order of time; not synchronised.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

namespace lambent::shim {

// A stream as a call names it: the same handle means another stream in the calls for per-thread
// default streams.
struct Stream {
  void* handle = nullptr;
  bool per_thread = false;
  bool operator==(const Stream&) const = default;
};

struct PendingFree {
  uint64_t base = 0;
  uint64_t number = 0;    // of the allocation: others may come to lie there
  uint64_t room = 0;      // what it takes, rounded up
  void* event = nullptr;  // the free has happened once this has; null: once the context is at rest
  void* context = nullptr;  // of the event, or the one that has to come to rest
  Stream stream;
};

class PendingFrees {
 public:
  PendingFrees() = default;
  PendingFrees(const PendingFrees&) = delete;
  PendingFrees& operator=(const PendingFrees&) = delete;
  ~PendingFrees() { free(frees_); }

  // Makes sure that the next add() has room; false if there is no memory.
  bool prepare() {
    if (size_ < capacity_) return true;
    const size_t capacity = capacity_ == 0 ? 16 : capacity_ * 2;
    void* frees = realloc(static_cast<void*>(frees_), capacity * sizeof(PendingFree));
    if (frees == nullptr) return false;
    frees_ = static_cast<PendingFree*>(frees);
    capacity_ = capacity;
    return true;
  }
  bool add(const PendingFree& added) {
    if (!prepare()) return false;
    frees_[size_++] = added;
    return true;
  }
  PendingFree take(size_t index) {
    const PendingFree taken = frees_[index];
    memmove(frees_ + index, frees_ + index + 1, (size_ - index - 1) * sizeof(PendingFree));
    --size_;
    return taken;
  }
  void hand_over(void* context, void* heir) {
    for (size_t i = 0; i < size_; ++i) {
      if (frees_[i].context == context) frees_[i].context = heir;
    }
  }
  size_t size() const { return size_; }
  const PendingFree& operator[](size_t index) const { return frees_[index]; }

 private:
  PendingFree* frees_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace lambent::shim
