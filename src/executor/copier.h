// Copier: moves bytes between the host and the device through page-locked memory, a chunk being
// filled or emptied while the one before is on its way. Blocks; one thread at a time, whose current
// context is the device's.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "cuda/device.h"
#include "cuda/stream.h"

namespace lambent::executor {

constexpr Bytes kCopyChunk = Bytes::mib(2);

// Host bytes that go to the device: those at `pointer`, else of the file, else the pattern again
// and again.
struct CopyIn {
  CUdeviceptr to = 0;
  Bytes size;
  const void* pointer = nullptr;
  int fd = -1;
  std::string pattern;
};
// Device bytes that go to memory, or else into a file from its beginning.
struct CopyOut {
  CUdeviceptr from = 0;
  Bytes size;
  void* pointer = nullptr;
  int fd = -1;
};

// Fills `to` with `size` bytes of the source from `offset` on.
Result<void> read_source(const CopyIn& source, uint64_t offset, void* to, size_t size);

class Copier {
 public:
  static Result<std::unique_ptr<Copier>> create(const cuda::Driver& driver);

  // Returns when all is queued in the stream; the sources may go then.
  Result<void> copy_in(const cuda::Stream& stream, std::span<const CopyIn> pieces);
  // Returns when all is where it belongs.
  Result<void> copy_out(const cuda::Stream& stream, std::span<const CopyOut> pieces);

 private:
  struct Slot {
    cuda::PinnedBuffer memory;
    cuda::Event free;  // marks the end of the last copy that uses it
  };
  explicit Copier(std::vector<Slot> slots) : slots_(std::move(slots)) {}

  std::vector<Slot> slots_;
  size_t next_ = 0;
};

}  // namespace lambent::executor
