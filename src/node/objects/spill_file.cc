#include "node/objects/spill_file.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <span>
#include <vector>

#include "core/base/sealed_memory.h"

namespace lambent::objects {
namespace {

constexpr size_t kPiece = 1 << 20;

// Reads `size` bytes piece by piece; the checksum of all. OUT_OF_RANGE if there are fewer.
Result<uint32_t> copy(int from, Bytes size,
                      const std::function<Result<void>(std::string_view)>& take) {
  std::vector<char> piece(std::min<size_t>(kPiece, size.count));
  uint32_t checksum = 0;
  uint64_t done = 0;
  while (done < size.count) {
    const size_t most = std::min<uint64_t>(piece.size(), size.count - done);
    const ssize_t got = pread(from, piece.data(), most, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return error_from_errno("read", errno);
    if (got == 0) return Error{ErrorCode::kOutOfRange, "it is shorter than it was"};
    const std::string_view bytes(piece.data(), static_cast<size_t>(got));
    checksum = static_cast<uint32_t>(
        crc32_z(checksum, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
    RETURN_IF_ERROR(take(bytes));
    done += bytes.size();
  }
  return checksum;
}

Error lost(const std::string& why) {
  return {ErrorCode::kDataLoss, "the object was damaged on disk: " + why};
}

}  // namespace

Result<uint32_t> write_spill_file(const std::string& path, int memfd, Bytes size) {
  const OwnedFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.valid()) return error_from_errno("open " + path, errno);
  auto checksum =
      copy(memfd, size, [&](std::string_view bytes) { return write_all(file.get(), bytes); });
  if (checksum.ok()) return checksum;
  unlink(path.c_str());
  return checksum.error().with_context("write " + path);
}

Result<OwnedFd> read_spill_file(const std::string& path, Bytes size, uint32_t checksum) {
  const OwnedFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) {
    if (errno == ENOENT) return lost("its file is gone");
    return error_from_errno("open " + path, errno);
  }
  ASSIGN_OR_RETURN(OwnedFd memory, new_memory(size));
  bool written = true;
  const auto found = copy(file.get(), size, [&](std::string_view bytes) {
    auto result = write_all(memory.get(), bytes);
    written = result.ok();
    return result;
  });
  if (!written) {
    return Error{ErrorCode::kResourceExhausted,
                 "no memory to read the object back into: " + found.error().message};
  }
  if (!found.ok()) return lost("its file: " + found.error().message);
  if (*found != checksum) return lost("its file has other bytes than were written");
  RETURN_IF_ERROR(seal(memory.get()));
  return memory;
}

}  // namespace lambent::objects
