// VolumeStore: the tenants' volumes: what they have, in memory; their files, on the disk, by a
// thread of their own. Owned by the worker's main; on the loop thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/log.h"
#include "core/base/time.h"
#include "core/domain/volume.h"
#include "core/domain/volume_source.h"
#include "node/volumes/limits.h"
#include "node/volumes/unfinished_file.h"
#include "node/volumes/volume_index.h"

namespace lambent::volumes {

// Runs `work` on the thread of volumes, in order, then `completion` on the loop thread; false: too
// much is waiting.
using Disk = std::function<bool(std::function<void()> work, std::function<void()> completion)>;

// What the store asks the worker; either may be empty.
struct VolumeUsers {
  // The names of functions that mount it.
  std::function<std::vector<std::string>(TenantId, const std::string& volume)> functions;
  // RESOURCE_EXHAUSTED if the tenant may not have so much more on the disk.
  std::function<Result<void>(TenantId, Bytes more)> room;
};

class Upload;

class VolumeStore final : public VolumeService {
 public:
  // Blocks: reads what an earlier worker left. Clock and log outlive the store; the thread's
  // completions may come after it is gone.
  static Result<std::unique_ptr<VolumeStore>> open(std::string folder, const Clock& clock,
                                                   LogSink& log, Disk disk);
  void set_users(VolumeUsers users) { users_ = std::move(users); }
  // Of the disk, beside uploads that begin from now on.
  void set_left_free(Bytes left_free) { left_free_ = left_free; }

  void create_volume(TenantId tenant, const std::string& name,
                     Callback<VolumeStatus> done) override;
  void remove_volume(TenantId tenant, const std::string& name,
                     Callback<VolumeStatus> done) override;
  std::vector<VolumeStatus> list_volumes(TenantId tenant) const override;
  Result<std::vector<VolumeFile>> list_files(TenantId tenant, const std::string& volume,
                                             const std::string& prefix, const std::string& after,
                                             size_t limit) const override;
  void remove_files(TenantId tenant, const std::string& volume, const std::string& path,
                    Callback<RemovedFiles> done) override;
  void find_upload(UploadKey key, Callback<UploadStatus> done) override;
  void begin_upload(UploadKey key, Bytes offset,
                    Callback<std::shared_ptr<VolumeUpload>> done) override;
  void open_file(TenantId tenant, const std::string& volume, const std::string& path,
                 Callback<std::shared_ptr<VolumeDownload>> done) override;

  // NOT_FOUND.
  Result<VolumeStatus> find_volume(TenantId tenant, const std::string& name) const;
  // Of all tenants.
  std::vector<VolumeName> all() const;
  // Where sandboxes find it on the host. NOT_FOUND, saying how to make it.
  Result<std::string> mounted_folder(TenantId tenant, const std::string& name) const;
  // On the disk, and what uploads under way will need.
  Bytes used_by(TenantId tenant) const;
  Bytes used() const;
  // The tenant is gone, and what it kept.
  void forget_tenant(TenantId tenant);

 private:
  friend class Upload;

  struct Unfinished {
    std::shared_ptr<UnfinishedFile> file;
    Bytes counted;          // of the tenant's disk
    Duration changed_at{};  // since the Unix epoch
    Upload* active = nullptr;
  };
  struct Volume {
    std::string folder;
    VolumeIndex index;
    std::map<std::string, Unfinished> uploads;  // by the names of their files
  };
  using Key = std::pair<TenantId, std::string>;

  VolumeStore(std::string folder, const Clock& clock, LogSink& log, Disk disk)
      : folder_(std::move(folder)), clock_(clock), log_(log), disk_(std::move(disk)) {}

  Result<void> load();
  Result<void> load_tenant(TenantId tenant, const std::string& folder);
  std::string folder_of(const Key& key) const;
  Result<Volume*> find(TenantId tenant, const std::string& name);
  Result<const Volume*> find(TenantId tenant, const std::string& name) const;
  static VolumeStatus status_of(const std::string& name, const Volume& volume);
  static Bytes used_by(const Volume& volume);
  Result<void> check_upload(const UploadKey& key, Bytes offset, const Volume& volume) const;
  Result<void> check_room(TenantId tenant, Bytes more) const;
  void remove_old_uploads(Volume& volume);
  void remove_folder(const std::string& folder, Callback<void> done);
  // What uploads tell of themselves.
  Unfinished* find_unfinished(const UploadKey& key, const std::string& name);
  void upload_dropped(const UploadKey& key, const std::string& name, Bytes has);
  void published(const UploadKey& key, const std::string& name, const VolumeFile& file);

  const std::string folder_;
  const Clock& clock_;
  LogSink& log_;
  const Disk disk_;
  VolumeUsers users_;
  Bytes left_free_ = limits::kVolumeLeftFree;
  std::map<Key, Volume> volumes_;
  size_t transfers_ = 0;
  uint64_t next_ = 0;  // numbers names that only have to differ
  // What completions hold weakly.
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace lambent::volumes
