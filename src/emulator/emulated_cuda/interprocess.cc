#include "emulator/emulated_cuda/interprocess.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>

namespace lambent::emulated_cuda {

namespace {

constexpr uint64_t kPage = 4096;

// The file that the ticket names, if its owner still has it. -1: it has not.
int open_file(const MemoryTicket& ticket) {
  std::string path =
      "/proc/" + std::to_string(ticket.pid) + "/fd/" + std::to_string(ticket.descriptor);
  int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return -1;
  struct stat info;
  uint64_t behind = std::min(ticket.bytes, ticket.backing_bytes);
  bool same = fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode) &&
              static_cast<uint64_t>(info.st_ino) == ticket.file &&
              ticket.offset <= static_cast<uint64_t>(info.st_size) &&
              behind <= static_cast<uint64_t>(info.st_size) - ticket.offset;
  if (same) return descriptor;
  ::close(descriptor);
  return -1;
}

// Maps the ticket's bytes, repeating if there are fewer behind them. 0: the system cannot.
uintptr_t map_file(int descriptor, const MemoryTicket& ticket) {
  uint64_t before = ticket.offset % kPage;
  uint64_t total = ticket.bytes + before;
  void* at = mmap(nullptr, total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return 0;
  uintptr_t base = reinterpret_cast<uintptr_t>(at);
  bool repeated = ticket.backing_bytes < ticket.bytes;
  uint64_t step = repeated ? (ticket.backing_bytes + kPage - 1) / kPage * kPage : total;
  for (uint64_t done = 0; done < total; done += step) {
    void* part = mmap(reinterpret_cast<void*>(base + done), std::min(step, total - done),
                      PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, descriptor,
                      static_cast<off_t>(ticket.offset - before));
    if (part == MAP_FAILED) {
      munmap(at, total);
      return 0;
    }
  }
  madvise(at, total, MADV_DONTFORK);
  return base + before;
}

}  // namespace

std::optional<uintptr_t> OpenedMemory::open(const MemoryTicket& ticket, void* context,
                                            Memory& memory) {
  if (ticket.bytes == 0 || ticket.backing_bytes == 0 || ticket.bytes > SIZE_MAX / 2) {
    return std::nullopt;
  }
  const MutexLock lock(mutex_);
  int descriptor = open_file(ticket);
  if (descriptor < 0) return std::nullopt;
  auto [it, fresh] = opened_.try_emplace({ticket.file, ticket.offset}, Opened{0, 0});
  if (fresh) it->second.address = map_file(descriptor, ticket);
  ::close(descriptor);
  if (it->second.address == 0) {
    opened_.erase(it);
    return std::nullopt;
  }
  if (fresh) {
    Allocation entry{};
    entry.base = it->second.address;
    entry.bytes = ticket.bytes;
    entry.backing_bytes = std::min(ticket.bytes, ticket.backing_bytes);
    entry.kind = MemoryKind::kOpened;
    entry.device = ticket.device;
    entry.context = context;
    memory.enter(entry);
  }
  it->second.count++;
  return it->second.address;
}

bool OpenedMemory::close(uintptr_t address, Memory& memory) {
  const MutexLock lock(mutex_);
  for (auto it = opened_.begin(); it != opened_.end(); ++it) {
    if (it->second.address != address) continue;
    if (--it->second.count > 0) return true;
    memory.release(address, MemoryKind::kOpened);
    opened_.erase(it);
    return true;
  }
  return false;
}

}  // namespace lambent::emulated_cuda
