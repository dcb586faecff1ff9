// VolumeIndex: which files a volume has, and which contents. Pure; owned by VolumeStore, on the
// loop thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/crypto/crypto.h"
#include "core/domain/volume.h"

namespace lambent::volumes {

class VolumeIndex {
 public:
  // FAILED_PRECONDITION: the path is a folder's, or goes through a file. RESOURCE_EXHAUSTED: the
  // volume has as many files as it may.
  Result<void> can_put(std::string_view path) const;
  // Replaces the file of that path.
  void put(VolumeFile file);
  // Null: there is none.
  const VolumeFile* find(std::string_view path) const;
  // The file itself, or the files below a folder, in order.
  std::vector<std::string> paths_at(std::string_view path) const;
  void remove(const std::string& path);

  bool has_content(const std::string& sha256) const { return contents_.contains(sha256); }
  // Zero: there is none.
  Bytes size_of_content(const std::string& sha256) const;
  std::vector<VolumeFile> list(const std::string& prefix, const std::string& after,
                               size_t limit) const;
  uint64_t files() const { return files_.size(); }
  // Each content once.
  Bytes size() const { return size_; }
  // The same for the same files, however they came. A tenant that makes two sets of files of one
  // version harms itself only.
  std::string version() const;

 private:
  struct Content {
    uint64_t files = 0;
    Bytes size;
  };

  void change_version(const VolumeFile& file);

  std::map<std::string, VolumeFile, std::less<>> files_;  // by path
  std::map<std::string, Content> contents_;               // by digest
  Bytes size_;
  crypto::Digest version_{};  // the digests of all files, exclusive or
};

}  // namespace lambent::volumes
