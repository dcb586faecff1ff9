// The two ends of the ring of calls. CallWriter is the client's, under its lock; CallReader the
// server's, of one thread. Neither allocates, throws or makes a system call unless the other
// sleeps.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/forward_ring/calls.h"
#include "gpu/forward_ring/layout.h"

namespace lambent::forward_ring {

class CallWriter {
 public:
  CallWriter() = default;
  explicit CallWriter(SharedPages* pages) : pages_(pages) {}

  // Whether a call with so much data fits now. One of kMostInlineBytes does at last, once the
  // server has read the ring empty; wait on control.client_waits_for_room for that.
  bool has_room(size_t data_bytes) const;
  // Writes the call with its data in two parts, makes it visible and wakes the server. There is
  // room.
  void write(Call call, const void* data = nullptr, size_t bytes = 0, const void* more = nullptr,
             size_t more_bytes = 0);

 private:
  void append(const void* from, size_t bytes, uint64_t at);

  SharedPages* pages_ = nullptr;
  uint64_t written_ = 0;
};

class CallReader {
 public:
  explicit CallReader(SharedPages* pages) : pages_(pages) {}

  enum class Next : uint8_t { kNothing, kCall, kMalformed };
  // Copies the next call and its data out of the ring: what the client does to them afterwards
  // changes nothing. `data` has room for kMostInlineBytes. After kMalformed nothing can be read any
  // more.
  Next next(Call& call, char* data);
  // Gives the space of what was read back, and wakes a client that waits for it. next() does so by
  // itself from time to time, and when there is nothing.
  void publish();
  // Whether next() would find something.
  bool is_empty() const;

 private:
  void copy_out(void* to, size_t bytes, uint64_t at) const;

  SharedPages* pages_;
  uint64_t consumed_ = 0, published_ = 0, submitted_ = 0;
};

}  // namespace lambent::forward_ring
