// Sealed memory: memfds that cannot be changed any more, and their mappings; so that several
// processes read the same bytes without a copy and without trust. Used by makers and readers of
// objects; any thread.
#pragma once

#include <string>
#include <string_view>

#include "core/base/fd.h"
#include "core/base/result.h"
#include "core/base/units.h"

namespace lambent {

// A new memfd of so many zero bytes, which can be written and then sealed.
Result<OwnedFd> new_memory(Bytes size);
// From now on it has this content and this size for ever. FAILED_PRECONDITION while a process has
// it mapped for writing.
Result<void> seal(int memfd);
// A sealed copy of `bytes`.
Result<OwnedFd> sealed_memory(std::string_view bytes);

// Its size. INVALID_ARGUMENT if it is no memfd sealed against writing, shrinking and growing.
Result<Bytes> check_sealed(int memfd);

// A read-only mapping of a whole memfd; may be empty. Its bytes must not be used after it.
class MappedMemory {
 public:
  MappedMemory() = default;
  MappedMemory(MappedMemory&& other) noexcept;
  MappedMemory& operator=(MappedMemory&& other) noexcept;
  ~MappedMemory();

  static Result<MappedMemory> map(int memfd, Bytes size);
  std::string_view bytes() const { return {static_cast<const char*>(address_), size_}; }

 private:
  void* address_ = nullptr;
  size_t size_ = 0;
};

// A copy of a part, which must lie inside.
Result<std::string> read_memory(int memfd, Bytes offset, Bytes size);

}  // namespace lambent
