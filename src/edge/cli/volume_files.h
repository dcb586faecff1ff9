// Files on this machine that go into volumes, or come from them. Free functions that block; verbs
// use them on their thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/base/fd.h"
#include "core/base/result.h"
#include "core/base/units.h"
#include "core/crypto/sha256.h"

namespace lambent::cli {

struct LocalFile {
  std::string local;
  std::string path;  // in the volume
};

// The file, or the regular files of a folder in order, under the paths that `path` and their names
// give. INVALID_ARGUMENT: a name that no volume can have, or a link that leads out of the folder,
// unless links are followed.
Result<std::vector<LocalFile>> files_to_put(const std::string& local, const std::string& path,
                                            bool follow_links);

struct MeasuredFile {
  Bytes size;
  std::string sha256;
};
// Calls `progress` with the bytes that were read.
Result<MeasuredFile> measure_file(const std::string& local,
                                  const std::function<void(Bytes)>& progress);

// A file that is being received: NAME.part beside it until it is whole. What an earlier run left of
// the same content goes on.
class PartFile {
 public:
  explicit PartFile(std::string local) : local_(std::move(local)) {}

  // Makes the folders, opens the part and digests it; begins again if that is more than `size`.
  Result<void> open(Bytes size);
  Bytes size() const { return size_; }
  Result<void> append(std::string_view bytes);
  // DATA_LOSS, and the part is removed: it has another digest.
  Result<void> finish(const std::string& sha256);

 private:
  Result<void> begin_again();
  std::string part() const { return local_ + ".part"; }

  const std::string local_;
  OwnedFd file_;
  crypto::Sha256 digest_;
  Bytes size_;
};

}  // namespace lambent::cli
