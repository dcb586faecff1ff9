#include "core/crypto/copied_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <functional>
#include <string_view>

#include "core/base/fd.h"
#include "core/crypto/sha256.h"

namespace lambent::crypto {
namespace {

constexpr size_t kPiece = 1 << 20;

Result<Digest> read_rest(int file, const std::function<Result<void>(std::string_view)>& take) {
  Sha256 digest;
  std::string piece(kPiece, '\0');
  for (;;) {
    const ssize_t got = ::read(file, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return error_from_errno("read a file", errno);
    if (got == 0) return digest.digest();
    const auto bytes = std::string_view(piece).substr(0, static_cast<size_t>(got));
    digest.add(bytes);
    RETURN_IF_ERROR(take(bytes));
  }
}

}  // namespace

Result<Digest> digest_of_rest(int file) {
  return read_rest(file, [](std::string_view) { return Result<void>(); });
}

Result<Digest> digest_of_file(const std::string& path) {
  const OwnedFd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!file.valid()) return error_from_errno("open " + path, errno);
  auto digest = digest_of_rest(file.get());
  return digest.ok() ? std::move(digest) : digest.error().with_context(path);
}

Result<Digest> copy_rest(int from, const std::string& to) {
  struct stat status {};
  if (::fstat(from, &status) != 0) return error_from_errno("read a file", errno);
  const OwnedFd file(::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.valid()) return error_from_errno("create " + to, errno);
  auto digest =
      read_rest(from, [&file](std::string_view bytes) { return write_all(file.get(), bytes); });
  if (!digest.ok()) return digest.error().with_context("copy to " + to);
  const std::array times{status.st_atim, status.st_mtim};
  if (::fchmod(file.get(), status.st_mode & 07777U) != 0 ||
      ::futimens(file.get(), times.data()) != 0) {
    return error_from_errno("copy to " + to, errno);
  }
  return digest;
}

}  // namespace lambent::crypto
