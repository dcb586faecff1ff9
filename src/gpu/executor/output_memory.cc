#include "gpu/executor/output_memory.h"

#include <fcntl.h>

#include <cerrno>

#include "core/base/sealed_memory.h"
#include "gpu/executor/limits.h"

namespace lambent::executor {
namespace {

// Of smaller ones the pages take less than a thread's wake-up.
constexpr Bytes kLeastEarly = Bytes::kib(256);

}  // namespace

// What is written meanwhile waits for the pages, or makes them itself if the thread has not begun:
// then there is nothing left to do. Without room the writing fails, and says so.
Result<EarlyMemory> OutputMemory::make(Bytes size) {
  ASSIGN_OR_RETURN(OwnedFd file, new_memory(size));
  const bool is_early = size >= kLeastEarly && size <= limits::kExecutorEarlyBytes &&
                        *early_ <= limits::kExecutorEarlyBytes - size;
  // The file may be gone by then.
  auto pages = std::make_shared<OwnedFd>(is_early ? fcntl(file.get(), F_DUPFD_CLOEXEC, 0) : -1);
  if (!pages->valid()) return EarlyMemory(std::move(file), Bytes(0), nullptr);
  *early_ += size;
  thread_.run(
      [pages, size] {
        while (fallocate(pages->get(), 0, 0, static_cast<off_t>(size.count)) != 0) {
          if (errno != EINTR) break;
        }
        pages->reset();
      },
      [] {});
  return EarlyMemory(std::move(file), size, early_);
}

}  // namespace lambent::executor
