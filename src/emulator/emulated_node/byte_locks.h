// Locks of single bytes of the node file, as open-file-description locks: of the node, of its
// making, and of each process's row. Used by Node, any thread.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace lambent::emulated_node {

// Lock bytes lie past every offset that holds data.
constexpr off_t kLockByte = off_t{1} << 40;
constexpr off_t kCreationByte = kLockByte + 1;
constexpr off_t kFirstRowByte = kLockByte + 1024;

// False if another holds it, or the file cannot be locked.
bool try_lock(int fd, off_t byte);
// The same after waiting, at most for so long. Who holds a lock may be stopped, or may have taken
// it to stop others: so every wait has an end. A waiter looks again after at most a millisecond.
bool lock_within(int fd, off_t byte, int64_t most_ns);
void unlock(int fd, off_t byte);
// Whether another open file than `fd` has locked one of the `count` bytes from `first` on.
bool is_locked_by_others(int fd, off_t first, off_t count);

}  // namespace lambent::emulated_node
