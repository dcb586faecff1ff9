#include "node/volumes/volume_store.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>

#include "core/crypto/crypto.h"
#include "core/domain/limits.h"
#include "core/domain/mount.h"
#include "node/volumes/download.h"
#include "node/volumes/limits.h"
#include "node/volumes/on_disk.h"
#include "node/volumes/upload.h"
#include "node/volumes/volume_folder.h"

namespace lambent::volumes {
namespace {

namespace fs = std::filesystem;

// Of uploads that cannot go on later, and of volumes that are being removed.
constexpr std::string_view kOnce = "once-";
constexpr std::string_view kGone = ".gone-";

Error missing(const std::string& name) {
  return {ErrorCode::kNotFound, "volume '" + name +
                                    "' does not exist; make it with 'lambent volumes "
                                    "create " +
                                    name +
                                    "', or see 'lambent volumes "
                                    "ls'"};
}

std::string name_of_upload(const UploadKey& key) {
  return crypto::to_hex(
      crypto::sha256(key.path + "\n" + std::to_string(key.size->count) + "\n" + key.sha256));
}

}  // namespace

Result<std::unique_ptr<VolumeStore>> VolumeStore::open(std::string folder, const Clock& clock,
                                                       LogSink& log, Disk disk) {
  std::error_code error;
  fs::create_directories(folder, error);
  // Sandboxes are shown folders by paths without links.
  if (!error) folder = fs::canonical(folder, error);
  if (error) return error_from_errno("create " + folder, error.value());
  std::unique_ptr<VolumeStore> store(
      new VolumeStore(std::move(folder), clock, log, std::move(disk)));
  RETURN_IF_ERROR(store->load());
  return store;
}

Result<void> VolumeStore::load() {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    const std::string name = entry.path().filename();
    uint32_t tenant = 0;
    const auto [end, code] = std::from_chars(name.data(), name.data() + name.size(), tenant);
    if (code != std::errc() || end != name.data() + name.size()) continue;
    RETURN_IF_ERROR(load_tenant(TenantId{tenant}, entry.path()));
  }
  if (error) return error_from_errno("read " + folder_, error.value());
  return {};
}

Result<void> VolumeStore::load_tenant(TenantId tenant, const std::string& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    if (name.starts_with(kGone)) {
      std::error_code ignored;
      fs::remove_all(entry.path(), ignored);
    }
    if (!validate_volume_name(name).ok()) continue;
    auto loaded = load_volume(entry.path());
    if (!loaded.ok()) return loaded.error().with_context("volume '" + name + "'");
    Volume& volume = volumes_[{tenant, name}];
    volume.folder = entry.path();
    for (VolumeFile& file : loaded->files) volume.index.put(std::move(file));
    for (const auto& [upload, found] : loaded->uploads) {
      const std::string path = upload_path(volume.folder, upload);
      if (upload.starts_with(kOnce)) {
        unlink(path.c_str());
        continue;
      }
      volume.uploads[upload] = {.file = std::make_shared<UnfinishedFile>(path, left_free_),
                                .counted = found.size,
                                .changed_at = found.changed_at};
    }
  }
  if (error) return error_from_errno("read " + folder, error.value());
  return {};
}

std::string VolumeStore::folder_of(const Key& key) const {
  return folder_ + "/" + std::to_string(key.first.value) + "/" + key.second;
}

Result<VolumeStore::Volume*> VolumeStore::find(TenantId tenant, const std::string& name) {
  const auto found = volumes_.find({tenant, name});
  if (found == volumes_.end()) return missing(name);
  return &found->second;
}

Result<const VolumeStore::Volume*> VolumeStore::find(TenantId tenant,
                                                     const std::string& name) const {
  const auto found = volumes_.find({tenant, name});
  if (found == volumes_.end()) return missing(name);
  return &found->second;
}

VolumeStatus VolumeStore::status_of(const std::string& name, const Volume& volume) {
  return {.name = name,
          .files = volume.index.files(),
          .size = volume.index.size(),
          .unfinished = used_by(volume) - volume.index.size(),
          .version = volume.index.version()};
}

Bytes VolumeStore::used_by(const Volume& volume) {
  Bytes used = volume.index.size();
  for (const auto& [name, upload] : volume.uploads) used += upload.counted;
  return used;
}

Bytes VolumeStore::used_by(TenantId tenant) const {
  Bytes used;
  for (auto at = volumes_.lower_bound({tenant, ""});
       at != volumes_.end() && at->first.first == tenant; ++at) {
    used += used_by(at->second);
  }
  return used;
}

Result<void> VolumeStore::check_room(TenantId tenant, Bytes more) const {
  return users_.room && more > Bytes() ? users_.room(tenant, more) : Result<void>();
}

Bytes VolumeStore::used() const {
  Bytes used;
  for (const auto& [key, volume] : volumes_) used += used_by(volume);
  return used;
}

Result<VolumeStatus> VolumeStore::find_volume(TenantId tenant, const std::string& name) const {
  ASSIGN_OR_RETURN(const Volume* volume, find(tenant, name));
  return status_of(name, *volume);
}

std::vector<VolumeName> VolumeStore::all() const {
  std::vector<VolumeName> names;
  for (const auto& [key, volume] : volumes_) names.push_back({key.first, key.second});
  return names;
}

void VolumeStore::create_volume(TenantId tenant, const std::string& name,
                                Callback<VolumeStatus> done) {
  if (const auto good = validate_volume_name(name); !good.ok()) return done(good.error());
  if (volumes_.contains({tenant, name})) {
    return done(Error{ErrorCode::kAlreadyExists, "volume '" + name + "' already exists"});
  }
  if (list_volumes(tenant).size() >= limits::kVolumesPerTenant) {
    return done(Error{ErrorCode::kResourceExhausted,
                      "a tenant has at most " + std::to_string(limits::kVolumesPerTenant) +
                          " volumes; remove one that is not needed"});
  }
  const Key key{tenant, name};
  const std::string folder = folder_of(key);
  volumes_[key].folder = folder;
  run_on_disk<void>(
      disk_, alive_, [folder] { return make_volume(folder); },
      [this, key, done = std::move(done)](const Result<void>& made) {
        if (!made.ok()) {
          volumes_.erase(key);
          return done(made.error());
        }
        done(VolumeStatus{.name = key.second, .version = VolumeIndex().version()});
      });
}

void VolumeStore::remove_folder(const std::string& folder, Callback<void> done) {
  const std::string gone =
      fs::path(folder).parent_path().string() + "/" + std::string(kGone) + std::to_string(next_++);
  run_on_disk<void>(
      disk_, alive_,
      [folder, gone]() -> Result<void> {
        std::error_code error;
        fs::rename(folder, gone, error);
        if (error) return error_from_errno("remove a volume", error.value());
        fs::remove_all(gone, error);
        if (error) return error_from_errno("remove a volume", error.value());
        return {};
      },
      std::move(done));
}

void VolumeStore::remove_volume(TenantId tenant, const std::string& name,
                                Callback<VolumeStatus> done) {
  const auto found = find(tenant, name);
  if (!found.ok()) return done(found.error());
  const auto functions =
      users_.functions ? users_.functions(tenant, name) : std::vector<std::string>();
  if (!functions.empty()) {
    std::string list;
    for (const std::string& function : functions) list += (list.empty() ? "" : ", ") + function;
    return done(Error{ErrorCode::kFailedPrecondition,
                      "volume '" + name + "' is mounted by functions: " + list +
                          "; remove them, or deploy them without the mount, first"});
  }
  VolumeStatus status = status_of(name, **found);
  for (auto& [upload, unfinished] : (*found)->uploads) {
    if (unfinished.active != nullptr) unfinished.active->fail(missing(name));
  }
  const std::string folder = (*found)->folder;
  volumes_.erase({tenant, name});
  remove_folder(folder, [status = std::move(status), done = std::move(done)](Result<void> removed) {
    if (!removed.ok()) return done(removed.error());
    done(status);
  });
}

void VolumeStore::forget_tenant(TenantId tenant) {
  std::vector<std::string> names;
  for (const VolumeStatus& volume : list_volumes(tenant)) names.push_back(volume.name);
  for (const std::string& name : names) {
    remove_volume(tenant, name, [this, name](const Result<VolumeStatus>& removed) {
      if (removed.ok()) return;
      log_.warning("volume_not_removed", {{"volume", name}, {"error", to_string(removed.error())}});
    });
  }
}

std::vector<VolumeStatus> VolumeStore::list_volumes(TenantId tenant) const {
  std::vector<VolumeStatus> list;
  for (auto at = volumes_.lower_bound({tenant, ""});
       at != volumes_.end() && at->first.first == tenant; ++at) {
    list.push_back(status_of(at->first.second, at->second));
  }
  return list;
}

Result<std::vector<VolumeFile>> VolumeStore::list_files(TenantId tenant, const std::string& volume,
                                                        const std::string& prefix,
                                                        const std::string& after,
                                                        size_t limit) const {
  ASSIGN_OR_RETURN(const Volume* found, find(tenant, volume));
  return found->index.list(prefix, after, std::min(limit, limits::kVolumeFilesPerPage));
}

void VolumeStore::remove_files(TenantId tenant, const std::string& volume, const std::string& path,
                               Callback<RemovedFiles> done) {
  const auto found = find(tenant, volume);
  if (!found.ok()) return done(found.error());
  if (const auto good = validate_volume_path(path); !good.ok()) return done(good.error());
  VolumeIndex& index = (*found)->index;
  const std::vector<std::string> paths = index.paths_at(path);
  if (paths.empty()) {
    return done(Error{ErrorCode::kNotFound, "volume '" + volume + "' has no file and no folder '" +
                                                path + "'; see 'lambent volumes ls " + volume +
                                                "'"});
  }
  std::vector<std::string> contents;
  for (const std::string& each : paths) {
    contents.push_back(index.find(each)->sha256);
    index.remove(each);
  }
  std::erase_if(contents, [&](const std::string& sha256) { return index.has_content(sha256); });
  run_on_disk<void>(
      disk_, alive_,
      [folder = (*found)->folder, paths, contents] { return remove_from(folder, paths, contents); },
      [count = paths.size(), done = std::move(done)](const Result<void>& removed) {
        if (!removed.ok()) return done(removed.error());
        done(RemovedFiles{count});
      });
}

void VolumeStore::find_upload(UploadKey key, Callback<UploadStatus> done) {
  const auto volume = find(key.tenant, key.volume);
  if (!volume.ok()) return done(volume.error());
  if (!key.size || key.sha256.empty()) {
    return done(Error{ErrorCode::kInvalidArgument,
                      "an upload is found by the size and the sha256 of its file"});
  }
  if (const auto good = check_upload(key, Bytes(), **volume); !good.ok()) {
    return done(good.error());
  }
  const VolumeIndex& index = (*volume)->index;
  const VolumeFile* has = index.find(key.path);
  if (has != nullptr && has->sha256 == key.sha256 && has->size == *key.size) {
    return done(UploadStatus{.offset = has->size, .complete = true, .file = *has});
  }
  if (index.has_content(key.sha256) && index.size_of_content(key.sha256) == *key.size) {
    return done(UploadStatus{.offset = *key.size, .file = {}});
  }
  const auto unfinished = (*volume)->uploads.find(name_of_upload(key));
  if (unfinished == (*volume)->uploads.end()) return done(UploadStatus{});
  run_on_disk<Bytes>(
      disk_, alive_, [file = unfinished->second.file] { return file->measure(); },
      [done = std::move(done)](const Result<Bytes>& size) {
        if (!size.ok()) return done(size.error());
        done(UploadStatus{.offset = *size, .file = {}});
      });
}

Result<void> VolumeStore::check_upload(const UploadKey& key, Bytes offset,
                                       const Volume& volume) const {
  RETURN_IF_ERROR(validate_volume_path(key.path));
  if (!key.sha256.empty()) RETURN_IF_ERROR(validate_sha256(key.sha256));
  if (key.size && offset > *key.size) {
    return Error{ErrorCode::kInvalidArgument, "the offset is behind the end of the file"};
  }
  if (offset > Bytes() && (key.sha256.empty() || !key.size)) {
    return Error{ErrorCode::kInvalidArgument,
                 "an upload goes on at an offset only with the size and the sha256 of its file"};
  }
  return volume.index.can_put(key.path);
}

void VolumeStore::remove_old_uploads(Volume& volume) {
  for (auto at = volume.uploads.begin(); at != volume.uploads.end();) {
    const Unfinished& upload = at->second;
    const bool is_old = clock_.wall_now() - upload.changed_at > limits::kUnfinishedUploadAge;
    if (upload.active != nullptr || !is_old) {
      ++at;
      continue;
    }
    disk_([file = upload.file] { file->remove(); }, [] {});
    at = volume.uploads.erase(at);
  }
}

void VolumeStore::begin_upload(UploadKey key, Bytes offset,
                               Callback<std::shared_ptr<VolumeUpload>> done) {
  const auto found = find(key.tenant, key.volume);
  if (!found.ok()) return done(found.error());
  Volume& volume = **found;
  if (const auto good = check_upload(key, offset, volume); !good.ok()) return done(good.error());
  if (transfers_ >= limits::kVolumeTransfers) {
    return done(Error{ErrorCode::kResourceExhausted,
                      "the worker has " + std::to_string(limits::kVolumeTransfers) +
                          " transfers of volumes under way; try again later"});
  }
  Upload::Place place{.key = key, .name = {}, .folder = volume.folder, .offset = offset};
  const bool only_names_it = key.size && offset == *key.size &&
                             volume.index.size_of_content(key.sha256) == offset &&
                             volume.index.has_content(key.sha256);
  if (only_names_it) {
    return done(
        std::shared_ptr<VolumeUpload>(std::make_shared<Upload>(*this, std::move(place), nullptr)));
  }

  remove_old_uploads(volume);
  const bool goes_on_later = key.size && !key.sha256.empty();
  place.name = goes_on_later ? name_of_upload(key) : std::string(kOnce) + std::to_string(next_++);
  if (!volume.uploads.contains(place.name) && volume.uploads.size() >= limits::kUnfinishedUploads) {
    return done(Error{ErrorCode::kResourceExhausted,
                      "volume '" + key.volume + "' has " +
                          std::to_string(limits::kUnfinishedUploads) +
                          " uploads that are not finished; finish some first"});
  }
  const auto before = volume.uploads.find(place.name);
  const Bytes counted = before == volume.uploads.end() ? Bytes() : before->second.counted;
  const Bytes size = key.size.value_or(Bytes());
  if (size > counted) {
    if (const auto room = check_room(key.tenant, size - counted); !room.ok()) {
      return done(room.error());
    }
  }
  Unfinished& unfinished = volume.uploads[place.name];
  if (unfinished.file == nullptr) {
    unfinished.file =
        std::make_shared<UnfinishedFile>(upload_path(volume.folder, place.name), left_free_);
  }
  unfinished.counted = std::max(counted, size);
  unfinished.changed_at = clock_.wall_now();
  if (Upload* other = std::exchange(unfinished.active, nullptr)) {
    other->fail({ErrorCode::kAborted, "another upload of the same file went on in its place"});
  }
  auto upload = std::make_shared<Upload>(*this, place, unfinished.file);
  unfinished.active = upload.get();
  // The size also of a file that is not as was expected.
  struct Opened {
    Bytes size;
    Result<void> result;
  };
  run_on_disk<Opened>(
      disk_, alive_,
      [file = unfinished.file, offset, more = size - offset]() -> Result<Opened> {
        auto result = file->open_at(offset);
        if (result.ok()) result = file->check_space(more);
        return Opened{file->size(), std::move(result)};
      },
      [upload, done = std::move(done)](const Result<Opened>& opened) {
        if (opened.ok() && opened->result.ok() && !upload->failure()) {
          return done(std::shared_ptr<VolumeUpload>(upload));
        }
        if (opened.ok()) upload->has(opened->size);
        const Error error = opened.ok() && !opened->result.ok() ? opened->result.error()
                            : opened.ok()                       ? *upload->failure()
                                                                : opened.error();
        upload->fail(error);
        done(error);
      });
}

VolumeStore::Unfinished* VolumeStore::find_unfinished(const UploadKey& key,
                                                      const std::string& name) {
  const auto volume = volumes_.find({key.tenant, key.volume});
  if (volume == volumes_.end()) return nullptr;
  const auto found = volume->second.uploads.find(name);
  return found == volume->second.uploads.end() ? nullptr : &found->second;
}

void VolumeStore::upload_dropped(const UploadKey& key, const std::string& name, Bytes has) {
  Unfinished* unfinished = find_unfinished(key, name);
  unfinished->active = nullptr;
  unfinished->counted = has;
  unfinished->changed_at = clock_.wall_now();
  if (has > Bytes() && !name.starts_with(kOnce)) return;
  disk_([file = unfinished->file] { file->remove(); }, [] {});
  volumes_.at({key.tenant, key.volume}).uploads.erase(name);
}

void VolumeStore::published(const UploadKey& key, const std::string& name, const VolumeFile& file) {
  const auto found = volumes_.find({key.tenant, key.volume});
  if (found == volumes_.end()) return;
  Volume& volume = found->second;
  volume.uploads.erase(name);
  const VolumeFile* before = volume.index.find(file.path);
  const std::string replaced = before == nullptr ? "" : before->sha256;
  volume.index.put(file);
  if (replaced.empty() || volume.index.has_content(replaced)) return;
  disk_(
      [folder = volume.folder, replaced] {
        (void)remove_from(folder, {}, {replaced}).ok();  // a restart removes it otherwise
      },
      [] {});
}

void VolumeStore::open_file(TenantId tenant, const std::string& volume, const std::string& path,
                            Callback<std::shared_ptr<VolumeDownload>> done) {
  const auto found = find(tenant, volume);
  if (!found.ok()) return done(found.error());
  const VolumeFile* file = (*found)->index.find(path);
  if (file == nullptr) {
    return done(Error{ErrorCode::kNotFound, "volume '" + volume + "' has no file '" + path + "'"});
  }
  if (transfers_ >= limits::kVolumeTransfers) {
    return done(Error{ErrorCode::kResourceExhausted,
                      "the worker has " + std::to_string(limits::kVolumeTransfers) +
                          " transfers of volumes under way; try again later"});
  }
  ++transfers_;
  // Gives the place back with whatever has it last.
  const std::shared_ptr<size_t> lease(&transfers_,
                                      [alive = std::weak_ptr<bool>(alive_)](size_t* transfers) {
                                        if (!alive.expired()) --*transfers;
                                      });
  open_download(disk_, alive_, (*found)->folder + "/contents/" + file->sha256, *file, lease,
                std::move(done));
}

Result<std::string> VolumeStore::mounted_folder(TenantId tenant, const std::string& name) const {
  ASSIGN_OR_RETURN(const Volume* volume, find(tenant, name));
  return tree_of(volume->folder);
}

}  // namespace lambent::volumes
