#include "node/volumes/volume_index.h"

#include <utility>

#include "core/domain/limits.h"

namespace lambent::volumes {

Result<void> VolumeIndex::can_put(std::string_view path) const {
  for (size_t slash = path.find('/'); slash != std::string_view::npos;
       slash = path.find('/', slash + 1)) {
    if (!files_.contains(path.substr(0, slash))) continue;
    return Error{ErrorCode::kFailedPrecondition, "'" + std::string(path.substr(0, slash)) +
                                                     "' is a file, so '" + std::string(path) +
                                                     "' cannot be put below it; remove it first"};
  }
  if (files_.contains(path)) return {};
  const std::string below = std::string(path) + "/";
  const auto next = files_.lower_bound(below);
  if (next != files_.end() && next->first.starts_with(below)) {
    return Error{ErrorCode::kFailedPrecondition,
                 "'" + std::string(path) + "' is a folder; remove it first, or name a file in it"};
  }
  if (files_.size() < limits::kFilesPerVolume) return {};
  return Error{ErrorCode::kResourceExhausted,
               "the volume has " + std::to_string(limits::kFilesPerVolume) +
                   " files, and none may have more; use another one, or pack files together"};
}

// A file that comes and goes leaves nothing behind, so that the order does not matter.
void VolumeIndex::change_version(const VolumeFile& file) {
  const auto digest =
      crypto::sha256(file.path + "\n" + std::to_string(file.size.count) + "\n" + file.sha256);
  for (size_t i = 0; i < version_.size(); ++i) version_[i] ^= digest[i];
}

std::string VolumeIndex::version() const { return crypto::to_hex(version_); }

void VolumeIndex::put(VolumeFile file) {
  remove(file.path);
  change_version(file);
  Content& content = contents_[file.sha256];
  if (content.files++ == 0) {
    content.size = file.size;
    size_ += file.size;
  }
  files_.insert_or_assign(file.path, std::move(file));
}

const VolumeFile* VolumeIndex::find(std::string_view path) const {
  const auto found = files_.find(path);
  return found == files_.end() ? nullptr : &found->second;
}

std::vector<std::string> VolumeIndex::paths_at(std::string_view path) const {
  std::vector<std::string> paths;
  if (files_.contains(path)) paths.emplace_back(path);
  const std::string below = std::string(path) + "/";
  for (auto at = files_.lower_bound(below); at != files_.end() && at->first.starts_with(below);
       ++at) {
    paths.push_back(at->first);
  }
  return paths;
}

void VolumeIndex::remove(const std::string& path) {
  const auto found = files_.find(path);
  if (found == files_.end()) return;
  const auto content = contents_.find(found->second.sha256);
  if (--content->second.files == 0) {
    size_ -= content->second.size;
    contents_.erase(content);
  }
  change_version(found->second);
  files_.erase(found);
}

Bytes VolumeIndex::size_of_content(const std::string& sha256) const {
  const auto found = contents_.find(sha256);
  return found == contents_.end() ? Bytes() : found->second.size;
}

std::vector<VolumeFile> VolumeIndex::list(const std::string& prefix, const std::string& after,
                                          size_t limit) const {
  std::vector<VolumeFile> listed;
  auto at = after < prefix ? files_.lower_bound(prefix) : files_.upper_bound(after);
  for (; at != files_.end() && listed.size() < limit; ++at) {
    if (!at->first.starts_with(prefix)) break;
    listed.push_back(at->second);
  }
  return listed;
}

}  // namespace lambent::volumes
