// LayerStore: the tenants' layers: which there are, in memory; their files, on the disk, by a
// thread. Owned by the worker's main; on the loop thread.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/log.h"
#include "core/base/time.h"
#include "core/domain/layer.h"
#include "core/domain/volume_source.h"
#include "node/layers/layer_folder.h"

namespace lambent::layers {

// Runs `work` on a thread, in order, then `completion` on the loop thread; false: too much waits.
using Disk = std::function<bool(std::function<void()> work, std::function<void()> completion)>;

// What the store asks the worker; either may be empty.
struct LayerUsers {
  // The names of functions with a mount of this volume.
  std::function<std::vector<std::string>(TenantId, const std::string& volume)> functions;
  // RESOURCE_EXHAUSTED if the tenant may not have so much more on the disk.
  std::function<Result<void>(TenantId, Bytes more)> room;
};

class LayerStore final : public LayerService {
 public:
  // Blocks: reads what an earlier worker left. Clock and log outlive the store; the thread's
  // completions may come after it is gone. `keeps_packages`: all zips too, for other nodes.
  static Result<std::unique_ptr<LayerStore>> open(std::string folder, const Clock& clock,
                                                  LogSink& log, Disk disk,
                                                  bool keeps_packages = false);
  void set_users(LayerUsers users) { users_ = std::move(users); }

  void publish_layer(TenantId tenant, LayerPublication publication,
                     Callback<LayerVersion> done) override;
  std::vector<LayerVersion> list_layers(TenantId tenant) const override;
  std::vector<LayerVersion> list_layer_versions(TenantId tenant,
                                                const std::string& name) const override;
  Result<LayerVersion> find_layer(TenantId tenant, const LayerReference& reference) const override;
  void remove_layer(TenantId tenant, const LayerReference& reference,
                    Callback<LayerVersion> done) override;
  void compose_layers(TenantId tenant, const Layers& layers, Callback<Mounts> done) override;

  // Where sandboxes find what a mount of layers shows. NOT_FOUND, saying what to do.
  Result<std::string> mounted_folder(TenantId tenant, const Mount& mount) const;
  // On the disk, of versions.
  Bytes used_by(TenantId tenant) const;

  // ---- For other nodes, and from them. `volume`: as mounts of layers name it.

  // What was composed here, as the zips that it is made of; those that have all of them.
  std::vector<SharedFolder> packages(TenantId tenant) const;
  // Another node reads one of these: they stay for as long as what was just composed.
  void note_shown(TenantId tenant, const std::string& volume);
  // Whether mounts of this volume have what they show.
  bool is_here(TenantId tenant, const std::string& volume) const;
  // What was composed of these zips of another node takes of the disk; zero: it was not.
  Bytes size_of_copy(TenantId tenant, const std::string& volume) const;
  // Composes zips that lie in these places, in their order. `room` is asked on the loop before they
  // are unpacked. DATA_LOSS: they are other layers; else errors of `room`, and INTERNAL. Those who
  // ask while it is being composed wait for that, and their zips and room are not looked at.
  using Room = std::function<Result<void>(Bytes)>;
  void compose_copy(TenantId tenant, const std::string& volume, std::vector<std::string> zips,
                    Room room, Callback<void> done);
  bool is_composing(TenantId tenant, const std::string& volume) const;
  // Of zips of another node; nothing else goes.
  void remove_copy(TenantId tenant, const std::string& volume);
  // All of those that `goes` says.
  void remove_copies(const std::function<bool(const VolumeName&)>& goes);
  // The tenant is gone, and what it kept.
  void forget_tenant(TenantId tenant);

 private:
  struct Layer {
    uint64_t last = 0;  // the highest number that was given, also to versions that are gone
    bool was_published = false;  // it has a version, or had one
    std::map<uint64_t, LayerVersion> versions;
  };
  struct Composed {
    std::vector<std::string> folders;
    Instant used_at{};
    std::vector<LayerPackage> packages;  // none: other nodes cannot have it
    std::optional<Bytes> copied;         // of another node's packages, so large
  };
  using Key = std::pair<TenantId, std::string>;

  LayerStore(std::string folder, const Clock& clock, LogSink& log, Disk disk, bool keeps_packages)
      : folder_(std::move(folder)),
        clock_(clock),
        log_(log),
        disk_(std::move(disk)),
        keeps_packages_(keeps_packages) {}

  Result<void> load();
  Result<void> load_tenant(TenantId tenant);
  Result<void> load_layer(const Key& key);
  std::string folder_of(TenantId tenant) const;
  std::string folder_of(const Key& key) const;
  std::string folder_of(TenantId tenant, const LayerReference& reference) const;
  std::string composed_folder(const Key& key) const;
  std::string packages_folder(const Key& key) const;
  Result<void> check_room(TenantId tenant, const LayerPublication& publication) const;
  // Nothing stays of a name under which nothing was published.
  void forget_unless_published(const Key& key, uint64_t number);
  // Of these in their order. INVALID_ARGUMENT.
  Result<std::string> digest_of(TenantId tenant, const Layers& layers) const;
  static Mounts mounts_of(const std::string& digest, const std::vector<std::string>& folders);
  // Makes packages of what has none because its layers were published before this worker was a
  // node: one after the other, since others wait for the same thread. What cannot be packed is not
  // tried again by this worker.
  void pack_again(const Key& key);
  void pack_next();
  // What was composed and no function uses any more.
  void collect(TenantId tenant);
  void compose_checked(const Key& key, const std::vector<std::string>& zips, Bytes size);
  // To all that wait, in the order in which they asked.
  void settle_composing(const Key& key, const Result<void>& result);
  void remove_folder(const std::string& folder, std::function<void()> done);

  const std::string folder_;
  const Clock& clock_;
  LogSink& log_;
  const Disk disk_;
  const bool keeps_packages_;
  LayerUsers users_;
  std::map<Key, Layer> layers_;
  std::map<Key, Composed> composed_;  // by digest
  // Who waits for what is being composed of another node's packages.
  std::map<Key, std::vector<Callback<void>>> composing_;
  std::deque<Key> to_pack_;
  bool is_packing_ = false;
  std::set<Key> unpackable_;
  // What completions hold weakly.
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace lambent::layers
