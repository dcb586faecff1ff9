// Volumes: folders of files that a tenant keeps at the node and its functions see by mounts. Files
// come and go in pieces, and appear only once they are whole. Values and pure functions, any
// thread; and the interface to what keeps them, loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/units.h"

namespace lambent {

struct VolumeStatus {
  std::string name;
  uint64_t files = 0;
  Bytes size;                // of contents on the disk; files with the same content share it
  Bytes unfinished;          // of uploads that may go on
  std::string version = {};  // the same wherever, and whenever, it has the same files

  bool operator==(const VolumeStatus&) const = default;
};

struct VolumeFile {
  std::string path;  // inside the volume: "models/weights.bin"
  Bytes size;
  std::string sha256;  // of its content, in hexadecimal digits

  bool operator==(const VolumeFile&) const = default;
};

// INVALID_ARGUMENT unless it names a file below a volume: parts of 1 to 255 bytes with '/' between
// them, at most 32, of UTF-8 without control characters, and none of them '.' or '..'.
Result<void> validate_volume_path(std::string_view path);
// INVALID_ARGUMENT unless it is 64 lower-case hexadecimal digits.
Result<void> validate_sha256(std::string_view digest);

// Which upload: one goes on where an earlier one with the same values was cut off.
struct UploadKey {
  TenantId tenant;
  std::string volume;
  std::string path;
  std::optional<Bytes> size;  // of the whole file; nothing: it ends where what is sent ends
  std::string sha256;         // of the whole file; empty: not known, and it cannot go on later
};

struct UploadStatus {
  Bytes offset;           // so many bytes are there
  bool complete = false;  // the volume has the file
  VolumeFile file;        // if it is complete

  bool operator==(const UploadStatus&) const = default;
};

// Bytes of a file that come. What has come stays when it is dropped, if the upload can go on later.
class VolumeUpload {
 public:
  virtual ~VolumeUpload() = default;
  // False: wait for on_room before more; what was given is taken.
  virtual bool write(std::string_view bytes) = 0;
  // Called whenever there is room again after a false, and when the upload has failed.
  virtual void on_room(std::function<void()> callback) = 0;
  // Why nothing more is taken; nothing while all is well.
  virtual const std::optional<Error>& failure() const = 0;
  // No more comes now. The file appears, durable, if it is whole and has its digest: the status
  // says so. ABORTED: it has another digest, and what came is dropped.
  virtual void finish(std::function<void(Result<UploadStatus>)> done) = 0;
};

// A file as it was when it was opened, whatever happens to its name.
class VolumeDownload {
 public:
  virtual ~VolumeDownload() = default;
  virtual const VolumeFile& file() const = 0;
  virtual void read(Bytes offset, Bytes count, std::function<void(Result<std::string>)> done) = 0;
};

struct RemovedFiles {
  uint64_t files = 0;
};

// Volumes as they are read.
class VolumeReading {
 public:
  template <typename T>
  using Callback = std::function<void(Result<T>)>;

  virtual ~VolumeReading() = default;
  // In order of name.
  virtual std::vector<VolumeStatus> list_volumes(TenantId tenant) const = 0;
  // Those whose paths begin with `prefix` and come after `after`, in order, at most `limit`.
  virtual Result<std::vector<VolumeFile>> list_files(TenantId tenant, const std::string& volume,
                                                     const std::string& prefix,
                                                     const std::string& after,
                                                     size_t limit) const = 0;
  virtual void open_file(TenantId tenant, const std::string& volume, const std::string& path,
                         Callback<std::shared_ptr<VolumeDownload>> done) = 0;
};

class VolumeService : public VolumeReading {
 public:
  // INVALID_ARGUMENT, ALREADY_EXISTS, RESOURCE_EXHAUSTED: too many.
  virtual void create_volume(TenantId tenant, const std::string& name,
                             Callback<VolumeStatus> done) = 0;
  // NOT_FOUND; FAILED_PRECONDITION, naming some, while functions mount it.
  virtual void remove_volume(TenantId tenant, const std::string& name,
                             Callback<VolumeStatus> done) = 0;
  // A file, or all below a folder. What runs keeps the files that it has open.
  virtual void remove_files(TenantId tenant, const std::string& volume, const std::string& path,
                            Callback<RemovedFiles> done) = 0;
  // How far an upload is. With an offset of its size only finish() is left, which may also be so
  // because the volume has the content under another path.
  virtual void find_upload(UploadKey key, Callback<UploadStatus> done) = 0;
  // From `offset` on. ABORTED: that is not where it is; find_upload tells. RESOURCE_EXHAUSTED: the
  // tenant's quota, or too many at once. FAILED_PRECONDITION: the path is a folder's, or below a
  // file. An upload of the same key that goes on is ended by it.
  virtual void begin_upload(UploadKey key, Bytes offset,
                            Callback<std::shared_ptr<VolumeUpload>> done) = 0;
};

}  // namespace lambent
