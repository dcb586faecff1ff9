#include "executor/copier.h"

#include <algorithm>
#include <cstring>
#include <deque>

#include "executor/sealed_file.h"

namespace lambent::executor {
namespace {

constexpr size_t kSlots = 3;

}  // namespace

Result<void> read_source(const CopyIn& source, uint64_t offset, void* to, size_t size) {
  if (source.pointer != nullptr) {
    memcpy(to, static_cast<const char*>(source.pointer) + offset, size);
    return {};
  }
  if (source.fd >= 0) return read_fully(source.fd, offset, to, size);
  char* next = static_cast<char*>(to);
  for (size_t i = 0; i < size; ++i) next[i] = source.pattern[(offset + i) % source.pattern.size()];
  return {};
}

Result<std::unique_ptr<Copier>> Copier::create(const cuda::Driver& driver) {
  std::vector<Slot> slots;
  for (size_t i = 0; i < kSlots; ++i) {
    ASSIGN_OR_RETURN(auto memory, cuda::PinnedBuffer::allocate(driver, kCopyChunk));
    ASSIGN_OR_RETURN(auto free, cuda::Event::create(driver));
    slots.push_back({std::move(memory), std::move(free)});
  }
  return std::unique_ptr<Copier>(new Copier(std::move(slots)));
}

Result<void> Copier::copy_in(const cuda::Stream& stream, std::span<const CopyIn> pieces) {
  for (const CopyIn& piece : pieces) {
    for (uint64_t offset = 0; offset < piece.size.count; offset += kCopyChunk.count) {
      const size_t size = std::min(kCopyChunk.count, piece.size.count - offset);
      Slot& slot = slots_[next_++ % slots_.size()];
      RETURN_IF_ERROR(slot.free.synchronize());
      RETURN_IF_ERROR(read_source(piece, offset, slot.memory.pointer(), size));
      RETURN_IF_ERROR(stream.copy_to_device(piece.to + offset, slot.memory.pointer(), Bytes(size)));
      RETURN_IF_ERROR(stream.record(slot.free));
    }
  }
  return {};
}

Result<void> Copier::copy_out(const cuda::Stream& stream, std::span<const CopyOut> pieces) {
  struct UnderWay {
    const CopyOut* piece;
    uint64_t offset;
    size_t size;
    Slot* slot;
  };
  std::deque<UnderWay> under_way;
  const auto settle = [&]() -> Result<void> {
    const UnderWay chunk = under_way.front();
    under_way.pop_front();
    RETURN_IF_ERROR(chunk.slot->free.synchronize());
    const void* from = chunk.slot->memory.pointer();
    if (chunk.piece->pointer != nullptr) {
      memcpy(static_cast<char*>(chunk.piece->pointer) + chunk.offset, from, chunk.size);
      return {};
    }
    return write_fully(chunk.piece->fd, chunk.offset, from, chunk.size);
  };
  for (const CopyOut& piece : pieces) {
    for (uint64_t offset = 0; offset < piece.size.count; offset += kCopyChunk.count) {
      if (under_way.size() == slots_.size()) RETURN_IF_ERROR(settle());
      const size_t size = std::min(kCopyChunk.count, piece.size.count - offset);
      Slot& slot = slots_[next_++ % slots_.size()];
      RETURN_IF_ERROR(slot.free.synchronize());
      RETURN_IF_ERROR(stream.copy_to_host(slot.memory.pointer(), piece.from + offset, Bytes(size)));
      RETURN_IF_ERROR(stream.record(slot.free));
      under_way.push_back({&piece, offset, size, &slot});
    }
  }
  while (!under_way.empty()) RETURN_IF_ERROR(settle());
  return {};
}

}  // namespace lambent::executor
