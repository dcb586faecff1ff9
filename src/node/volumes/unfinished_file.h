// UnfinishedFile: the bytes of one upload on the disk, and their digest. Its calls block; they come
// on the thread of volumes, one after the other.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/fd.h"
#include "core/base/result.h"
#include "core/base/units.h"
#include "core/crypto/sha256.h"

namespace lambent::volumes {

class UnfinishedFile {
 public:
  // `left_free`: of the disk, for others.
  UnfinishedFile(std::string path, Bytes left_free)
      : path_(std::move(path)), left_free_(left_free) {}

  // Ready for bytes from `offset` on: zero begins again. What an earlier worker left is digested
  // first. ABORTED: another number of bytes is there.
  Result<void> open_at(Bytes offset);
  // The bytes that came, opened or not.
  Result<Bytes> measure();
  // STORAGE_FULL: with so much more the disk would not have enough left for others. Opened only.
  Result<void> check_space(Bytes more) const;
  // STORAGE_FULL, as check_space(): what came before stays.
  Result<void> append(std::string_view bytes);
  // Durable, and the digest of all bytes that came.
  Result<std::string> finish();
  void remove();
  Bytes size() const { return size_; }

 private:
  Result<void> digest_again();

  const std::string path_;
  const Bytes left_free_;
  OwnedFd file_;  // not valid: not opened yet
  crypto::Sha256 digest_;
  Bytes size_;
  std::optional<Error> failure_;  // of an append; the next one would leave a gap
};

}  // namespace lambent::volumes
