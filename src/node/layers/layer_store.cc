#include "node/layers/layer_store.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "core/base/fd.h"
#include "core/base/parse_number.h"
#include "core/domain/limits.h"
#include "node/layers/layer_folder.h"

namespace lambent::layers {
namespace {

namespace fs = std::filesystem;

// What no function uses is kept for so long: a deployment may be under way, or another node's copy.
constexpr Duration kUnusedTime = std::chrono::hours(1);

Error not_found(const LayerReference& reference) {
  return Error{ErrorCode::kNotFound, "there is no version " + std::to_string(reference.version) +
                                         " of layer '" + reference.name + "'"};
}

Error too_busy() {
  return Error{ErrorCode::kResourceExhausted,
               "too much is done with layers at once; try again later"};
}

std::string digest_in(const std::string& volume) {
  return volume.substr(volume_of_layers("").size());
}

}  // namespace

// ---- What an earlier worker left

Result<std::unique_ptr<LayerStore>> LayerStore::open(std::string folder, const Clock& clock,
                                                     LogSink& log, Disk disk, bool keeps_packages) {
  std::unique_ptr<LayerStore> store(
      new LayerStore(std::move(folder), clock, log, std::move(disk), keeps_packages));
  RETURN_IF_ERROR(store->load());
  for (const auto& [key, made] : store->composed_) {
    if (keeps_packages && made.packages.empty() && !made.copied) store->pack_again(key);
  }
  return store;
}

Result<void> LayerStore::load() {
  std::error_code error;
  fs::create_directories(folder_, error);
  // Its owner's only: other users of the machine are no tenants.
  if (!error) fs::permissions(folder_, fs::perms::owner_all, error);
  if (error) {
    return Error{ErrorCode::kFailedPrecondition,
                 "the folder of layers " + folder_ + " cannot be made: " + error.message()};
  }
  ASSIGN_OR_RETURN(const auto tenants, folders_in(folder_));
  for (const std::string& name : tenants) {
    if (name.ends_with(kRemovedFolder)) {
      std::error_code ignored;
      fs::remove_all(fs::path(folder_) / name, ignored);
    }
    const auto number = parse_number<uint64_t>(name);
    if (!number) continue;
    RETURN_IF_ERROR(load_tenant(TenantId(static_cast<uint32_t>(*number))));
  }
  return {};
}

Result<void> LayerStore::load_tenant(TenantId tenant) {
  ASSIGN_OR_RETURN(const auto names, folders_in(folder_of(tenant)));
  for (const std::string& name : names) {
    if (validate_layer_name(name).ok()) RETURN_IF_ERROR(load_layer({tenant, name}));
  }
  const std::string composed = folder_of(tenant) + "/" + kComposed;
  if (std::ranges::find(names, kComposed) == names.end()) return {};
  remove_leftovers(composed,
                   [](const std::string& name) { return name.size() == kLayersDigestLength; });
  ASSIGN_OR_RETURN(const auto digests, folders_in(composed));
  for (const std::string& digest : digests) {
    const Key key{tenant, digest};
    ASSIGN_OR_RETURN(auto folders, folders_in(composed_folder(key)));
    composed_[key] = {.folders = std::move(folders),
                      .used_at = clock_.now(),
                      .packages = packages_in(packages_folder(key)),
                      .copied = copied_size(composed_folder(key))};
  }
  remove_leftovers(folder_of(tenant) + "/" + kPackages, [&](const std::string& name) {
    return composed_.contains({tenant, name});
  });
  return {};
}

Result<void> LayerStore::load_layer(const Key& key) {
  Layer& layer = layers_[key];
  layer.was_published = true;
  if (const auto last = read_file(folder_of(key) + kLast, 32); last.ok()) {
    layer.last = parse_number<uint64_t>(*last).value_or(0);
  }
  ASSIGN_OR_RETURN(const auto numbers, folders_in(folder_of(key)));
  for (const std::string& text : numbers) {
    const auto number = parse_number<uint64_t>(text);
    const std::string folder = folder_of(key) + "/" + text;
    auto version = read_version(folder);
    if (!number || !version.ok()) {
      // Its publication did not end, or its removal.
      log_.warning("layer_dropped", {{"folder", folder}});
      std::error_code ignored;
      fs::remove_all(folder, ignored);
      continue;
    }
    version->reference = {key.second, *number};
    layer.last = std::max(layer.last, *number);
    layer.versions[*number] = *std::move(version);
  }
  return {};
}

std::string LayerStore::folder_of(TenantId tenant) const {
  return folder_ + "/" + std::to_string(tenant.value);
}

std::string LayerStore::folder_of(const Key& key) const {
  return folder_of(key.first) + "/" + key.second;
}

std::string LayerStore::folder_of(TenantId tenant, const LayerReference& reference) const {
  return folder_of({tenant, reference.name}) + "/" + std::to_string(reference.version);
}

std::string LayerStore::composed_folder(const Key& key) const {
  return folder_of(key.first) + "/" + kComposed + "/" + key.second;
}

std::string LayerStore::packages_folder(const Key& key) const {
  return folder_of(key.first) + "/" + kPackages + "/" + key.second;
}

// ---- Versions

Result<void> LayerStore::check_room(TenantId tenant, const LayerPublication& publication) const {
  size_t versions = 0;
  for (const auto& [key, layer] : layers_) {
    if (key.first == tenant) versions += layer.versions.size();
  }
  if (versions >= kLayerVersions) {
    return Error{ErrorCode::kResourceExhausted,
                 "there are " + std::to_string(versions) +
                     " versions of layers, the most that are kept; delete some"};
  }
  // What it will have at least.
  if (!users_.room) return {};
  return users_.room(tenant, Bytes(publication.zip_base64.size() / 4 * 3));
}

void LayerStore::publish_layer(TenantId tenant, LayerPublication publication,
                               Callback<LayerVersion> done) {
  const auto allowed = validate_layer_name(publication.name);
  if (!allowed.ok()) return done(allowed.error());
  if (const auto room = check_room(tenant, publication); !room.ok()) return done(room.error());
  struct Work {
    LayerVersion version;
    std::string zip;
    Result<void> written;
  };
  auto work = std::make_shared<Work>();
  Layer& layer = layers_[{tenant, publication.name}];
  work->version = {.reference = {publication.name, layer.last + 1},
                   .description = std::move(publication.description),
                   .license = std::move(publication.license),
                   .runtimes = std::move(publication.runtimes),
                   .code_sha256 = {},
                   .code_size = {},
                   .unpacked = {},
                   .created_at = clock_.wall_now()};
  work->zip = std::move(publication.zip_base64);
  const std::string folder = folder_of(tenant, work->version.reference);
  const std::string last = folder_of({tenant, publication.name}) + kLast;
  const bool queued = disk_(
      [work, folder, last, keeps_package = keeps_packages_] {
        work->written =
            write_version(folder, std::exchange(work->zip, {}), keeps_package, work->version);
        if (!work->written.ok()) {
          std::error_code others;  // versions of it are there
          fs::remove(fs::path(folder).parent_path(), others);
          return;
        }
        work->written =
            write_file_atomically(last, std::to_string(work->version.reference.version), true);
      },
      [this, alive = std::weak_ptr<bool>(alive_), work, tenant, done] {
        if (alive.expired()) return;
        const LayerVersion& version = work->version;
        const Key key{tenant, version.reference.name};
        if (!work->written.ok()) {
          forget_unless_published(key, version.reference.version);
          return done(work->written.error());
        }
        Layer& published = layers_[key];
        published.was_published = true;
        published.last = std::max(published.last, version.reference.version);
        published.versions[version.reference.version] = version;
        done(version);
      });
  if (!queued) {
    forget_unless_published({tenant, publication.name}, 0);
    return done(too_busy());
  }
  ++layer.last;
}

void LayerStore::forget_unless_published(const Key& key, uint64_t number) {
  const auto found = layers_.find(key);
  // Of several that are under way the last one looks.
  const bool goes =
      found != layers_.end() && !found->second.was_published && found->second.last == number;
  if (goes) layers_.erase(found);
}

std::vector<LayerVersion> LayerStore::list_layers(TenantId tenant) const {
  std::vector<LayerVersion> all;
  for (auto it = layers_.lower_bound({tenant, ""}); it != layers_.end(); ++it) {
    if (it->first.first != tenant) break;
    if (!it->second.versions.empty()) all.push_back(it->second.versions.rbegin()->second);
  }
  return all;
}

std::vector<LayerVersion> LayerStore::list_layer_versions(TenantId tenant,
                                                          const std::string& name) const {
  std::vector<LayerVersion> all;
  const auto found = layers_.find({tenant, name});
  if (found == layers_.end()) return all;
  const auto& versions = found->second.versions;
  for (auto it = versions.rbegin(); it != versions.rend(); ++it) all.push_back(it->second);
  return all;
}

Result<LayerVersion> LayerStore::find_layer(TenantId tenant,
                                            const LayerReference& reference) const {
  const auto found = layers_.find({tenant, reference.name});
  if (found == layers_.end()) return not_found(reference);
  const auto version = found->second.versions.find(reference.version);
  if (version == found->second.versions.end()) return not_found(reference);
  return version->second;
}

void LayerStore::remove_layer(TenantId tenant, const LayerReference& reference,
                              Callback<LayerVersion> done) {
  auto version = find_layer(tenant, reference);
  if (!version.ok()) return done(version.error());
  layers_[{tenant, reference.name}].versions.erase(reference.version);
  remove_folder(folder_of(tenant, reference),
                [done, version = *std::move(version)] { done(version); });
  collect(tenant);
}

// ---- What functions see

Result<std::string> LayerStore::digest_of(TenantId tenant, const Layers& layers) const {
  std::vector<std::string> contents;
  Bytes unpacked;
  for (const LayerReference& layer : layers) {
    const auto version = find_layer(tenant, layer);
    if (!version.ok()) {
      return Error{ErrorCode::kInvalidArgument, version.error().message + "; publish it first"};
    }
    contents.push_back(version->code_sha256);
    unpacked += version->unpacked;
  }
  if (unpacked > limits::kUnzippedCode) {
    return Error{ErrorCode::kInvalidArgument, "the layers have " + to_string(unpacked) +
                                                  " together; at most " +
                                                  to_string(limits::kUnzippedCode) + " are taken"};
  }
  return digest_of_layers(contents);
}

Mounts LayerStore::mounts_of(const std::string& digest, const std::vector<std::string>& folders) {
  Mounts mounts;
  for (const std::string& name : folders) {
    mounts.push_back(
        {.volume = volume_of_layers(digest), .host = {}, .at = std::string(kLayersPlace) + name});
  }
  return mounts;
}

void LayerStore::compose_layers(TenantId tenant, const Layers& layers, Callback<Mounts> done) {
  const auto digest = digest_of(tenant, layers);
  if (!digest.ok()) return done(digest.error());
  collect(tenant);
  const Key key{tenant, *digest};
  const auto found = composed_.find(key);
  const bool is_own = found != composed_.end() && !found->second.copied;
  if (is_own && (!keeps_packages_ || !found->second.packages.empty())) {
    found->second.used_at = clock_.now();
    return done(mounts_of(*digest, found->second.folders));
  }
  std::vector<std::string> versions;
  for (const LayerReference& layer : layers) versions.push_back(folder_of(tenant, layer));
  const std::string destination = composed_folder(key);
  const std::string packages = keeps_packages_ ? packages_folder(key) : "";
  struct Work {
    Result<std::vector<std::string>> folders = too_busy();
    std::vector<LayerPackage> packages;
  };
  auto work = std::make_shared<Work>();
  const std::optional<Bytes> copied =
      found != composed_.end() ? found->second.copied : std::nullopt;
  const bool queued = disk_(
      [work, versions = std::move(versions), destination, packages] {
        auto made = compose(versions, destination);
        if (made.ok() && !packages.empty()) made = link_packages(versions, packages);
        if (made.ok()) made = own_copy(destination);
        work->folders = made.ok() ? folders_in(destination) : made.error();
        if (!packages.empty()) work->packages = packages_in(packages);
      },
      [this, alive = std::weak_ptr<bool>(alive_), work, key, copied, done] {
        if (alive.expired()) return;
        const auto& folders = work->folders;
        if (!folders.ok()) {
          const auto still = composed_.find(key);
          if (copied && still != composed_.end()) still->second.copied = copied;
          return done(folders.error().with_context("compose the layers"));
        }
        composed_[key] = {.folders = *folders,
                          .used_at = clock_.now(),
                          .packages = std::move(work->packages),
                          .copied = {}};
        if (keeps_packages_ && composed_[key].packages.empty()) pack_again(key);
        done(mounts_of(key.second, *folders));
      });
  if (!queued) return done(too_busy());
  // While it is composed, and after that, it does not go with the copy that it was made of.
  if (found != composed_.end()) found->second.copied.reset();
}

void LayerStore::pack_again(const Key& key) {
  if (unpackable_.contains(key) || std::ranges::find(to_pack_, key) != to_pack_.end()) return;
  to_pack_.push_back(key);
  if (!is_packing_) pack_next();
}

void LayerStore::pack_next() {
  struct Work {
    Result<void> packed;
    std::vector<LayerPackage> packages;
  };
  // What is gone meanwhile, or was packed as its layers were published again.
  while (!to_pack_.empty()) {
    const auto found = composed_.find(to_pack_.front());
    if (found != composed_.end() && found->second.packages.empty()) break;
    to_pack_.pop_front();
  }
  if (to_pack_.empty()) return;
  const Key key = to_pack_.front();
  to_pack_.pop_front();
  auto work = std::make_shared<Work>();
  // If too much waits for the disk the next deployment or worker tries again.
  is_packing_ = disk_(
      [work, composed = composed_folder(key), packages = packages_folder(key)] {
        work->packed = pack_composed(composed, packages);
        work->packages = packages_in(packages);
      },
      [this, alive = std::weak_ptr<bool>(alive_), work, key] {
        if (alive.expired()) return;
        is_packing_ = false;
        const auto found = composed_.find(key);
        if (!work->packed.ok()) {
          const bool never = work->packed.error().code == ErrorCode::kInvalidArgument;
          if (never && found != composed_.end()) unpackable_.insert(key);
          log_.warning("layers_not_packed",
                       {{"layers", key.second}, {"error", work->packed.error().message}});
        } else if (found != composed_.end()) {
          found->second.packages = std::move(work->packages);
          log_.info("layers_packed", {{"layers", key.second}});
        }
        pack_next();
      });
}

Result<std::string> LayerStore::mounted_folder(TenantId tenant, const Mount& mount) const {
  const std::string digest = digest_in(mount.volume);
  const bool is_here = mount.at.starts_with(kLayersPlace) && composed_.contains({tenant, digest});
  if (is_here) {
    return composed_folder({tenant, digest}) + "/" + mount.at.substr(kLayersPlace.size());
  }
  return Error{ErrorCode::kNotFound,
               "what its layers show is not on this machine; update the function with its Layers"};
}

Bytes LayerStore::used_by(TenantId tenant) const {
  Bytes used;
  for (auto at = layers_.lower_bound({tenant, ""});
       at != layers_.end() && at->first.first == tenant; ++at) {
    for (const auto& [number, version] : at->second.versions) used += version.unpacked;
  }
  return used;
}

void LayerStore::forget_tenant(TenantId tenant) {
  std::erase_if(layers_, [tenant](const auto& each) { return each.first.first == tenant; });
  std::erase_if(composed_, [tenant](const auto& each) { return each.first.first == tenant; });
  std::erase_if(unpackable_, [tenant](const Key& each) { return each.first == tenant; });
  remove_folder(folder_of(tenant), [] {});
}

void LayerStore::collect(TenantId tenant) {
  if (!users_.functions) return;
  const Instant now = clock_.now();
  for (auto it = composed_.lower_bound({tenant, ""});
       it != composed_.end() && it->first.first == tenant;) {
    const bool is_young = now - it->second.used_at < kUnusedTime;
    if (is_young || it->second.copied ||
        !users_.functions(tenant, volume_of_layers(it->first.second)).empty()) {
      ++it;
      continue;
    }
    remove_folder(composed_folder(it->first), [] {});
    if (!it->second.packages.empty()) remove_folder(packages_folder(it->first), [] {});
    unpackable_.erase(it->first);
    it = composed_.erase(it);
  }
}

// ---- For other nodes, and from them

std::vector<SharedFolder> LayerStore::packages(TenantId tenant) const {
  std::vector<SharedFolder> all;
  for (auto it = composed_.lower_bound({tenant, ""});
       it != composed_.end() && it->first.first == tenant; ++it) {
    if (it->second.packages.empty()) continue;
    SharedFolder folder{.name = volume_of_layers(it->first.second), .files = {}};
    for (const LayerPackage& each : it->second.packages) {
      folder.files.push_back({.file = {each.name, each.size, each.sha256},
                              .place = packages_folder(it->first) + "/" + each.name});
    }
    all.push_back(std::move(folder));
  }
  return all;
}

void LayerStore::note_shown(TenantId tenant, const std::string& volume) {
  const auto found = composed_.find({tenant, digest_in(volume)});
  if (found != composed_.end()) found->second.used_at = clock_.now();
}

bool LayerStore::is_here(TenantId tenant, const std::string& volume) const {
  return composed_.contains({tenant, digest_in(volume)});
}

Bytes LayerStore::size_of_copy(TenantId tenant, const std::string& volume) const {
  const auto found = composed_.find({tenant, digest_in(volume)});
  return found == composed_.end() ? Bytes() : found->second.copied.value_or(Bytes());
}

bool LayerStore::is_composing(TenantId tenant, const std::string& volume) const {
  return composing_.contains({tenant, digest_in(volume)});
}

void LayerStore::compose_copy(TenantId tenant, const std::string& volume,
                              std::vector<std::string> zips, Room room, Callback<void> done) {
  const Key key{tenant, digest_in(volume)};
  const auto [composing, is_first] = composing_.try_emplace(key);
  composing->second.push_back(std::move(done));
  if (!is_first) return;
  auto unpacked = std::make_shared<Result<Bytes>>(too_busy());
  const bool queued = disk_(
      [unpacked, zips, digest = key.second] { *unpacked = check_packages(zips, digest); },
      [this, alive = std::weak_ptr<bool>(alive_), unpacked, key, zips, room = std::move(room)] {
        if (alive.expired()) return;
        if (!unpacked->ok()) return settle_composing(key, unpacked->error());
        if (const auto has = room(**unpacked); !has.ok()) return settle_composing(key, has);
        compose_checked(key, zips, **unpacked);
      });
  if (!queued) settle_composing(key, too_busy());
}

void LayerStore::compose_checked(const Key& key, const std::vector<std::string>& zips, Bytes size) {
  if (composed_.contains(key)) return settle_composing(key, {});
  const std::string destination = composed_folder(key);
  auto folders = std::make_shared<Result<std::vector<std::string>>>(too_busy());
  const bool queued = disk_(
      [folders, zips, destination, size] {
        const auto made = compose_packages(zips, destination, size);
        *folders = made.ok() ? folders_in(destination) : made.error();
      },
      [this, alive = std::weak_ptr<bool>(alive_), folders, key, size] {
        if (alive.expired()) return;
        if (!folders->ok()) {
          return settle_composing(key, folders->error().with_context("compose the layers"));
        }
        // It may have been composed of this node's own layers meanwhile.
        composed_.try_emplace(
            key,
            Composed{
                .folders = **folders, .used_at = clock_.now(), .packages = {}, .copied = size});
        settle_composing(key, {});
      });
  if (!queued) settle_composing(key, too_busy());
}

void LayerStore::settle_composing(const Key& key, const Result<void>& result) {
  // Who is told of an error may ask again at once.
  const auto waiting = composing_.extract(key);
  for (const Callback<void>& done : waiting.mapped()) done(result);
}

void LayerStore::remove_copy(TenantId tenant, const std::string& volume) {
  const Key key{tenant, digest_in(volume)};
  const auto found = composed_.find(key);
  if (found == composed_.end() || !found->second.copied) return;
  composed_.erase(found);
  remove_folder(composed_folder(key), [] {});
}

void LayerStore::remove_copies(const std::function<bool(const VolumeName&)>& goes) {
  std::vector<VolumeName> gone;
  for (const auto& [key, made] : composed_) {
    VolumeName volume{key.first, volume_of_layers(key.second)};
    if (made.copied && goes(volume)) gone.push_back(std::move(volume));
  }
  for (const VolumeName& each : gone) remove_copy(each.tenant, each.name);
}

void LayerStore::remove_folder(const std::string& folder, std::function<void()> done) {
  const bool queued = disk_([folder] { remove_folder_at_once(folder); },
                            [alive = std::weak_ptr<bool>(alive_), done] {
                              if (!alive.expired()) done();
                            });
  // It stays until the next worker: nothing refers to it.
  if (!queued) done();
}

}  // namespace lambent::layers
