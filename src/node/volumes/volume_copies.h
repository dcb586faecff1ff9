// VolumeCopies: this node's copies of the volumes that another node of its cluster keeps: which
// there are, whether they are as they are there, and what brings them when functions need them.
// Made by main; on the loop thread.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/log.h"
#include "core/domain/volume_source.h"
#include "core/loop/event_loop.h"
#include "node/volumes/volume_fetch.h"
#include "node/volumes/volume_store.h"

namespace lambent::volumes {

class VolumeCopies {
 public:
  // All outlive it.
  struct Uses {
    loop::EventLoop& loop;
    LogSink& log;
    const VolumeStore& kept;  // this node's own volumes
    VolumeStore& copies;
    std::string record;  // the file in which it is written which copies are whole
    Bytes most;          // of the disk, that copies may take
    // Whether there is a keeper, who may not be known yet.
    bool in_cluster = false;
    // The volumes that sandboxes mount at the moment.
    std::function<std::set<VolumeName>()> mounted = {};
    // Of the disk, that is free; nothing: it cannot be told.
    std::function<std::optional<Bytes>()> free = {};
    // What this node made of a copy takes beside it, and goes with it: layers that were composed.
    std::function<Bytes(const VolumeName&)> made_of = {};
    std::function<void(const VolumeName&)> removed = {};
  };
  // For the metrics.
  struct Counts {
    uint64_t fetched = 0;  // volumes, until their copies were whole
    uint64_t failed = 0;
    uint64_t evicted = 0;
    Bytes brought;  // of contents
    Bytes size;     // of all copies, on the disk
    size_t under_way = 0;
  };
  using Done = std::function<void(Result<void>)>;

  // So many are brought at a time; others wait.
  static constexpr size_t kAtOnce = 2;
  static constexpr size_t kMostWaiting = 10'000;
  // So much of the disk stays free of copies.
  static constexpr Bytes kLeftFree = Bytes::mib(512);

  // Blocks: reads the record.
  explicit VolumeCopies(Uses uses);
  ~VolumeCopies();
  VolumeCopies(const VolumeCopies&) = delete;
  VolumeCopies& operator=(const VolumeCopies&) = delete;

  // Where volumes are kept from now on; it outlives this, or is taken away by null.
  void set_source(VolumeSource* source);

  bool has_keeper() const { return source_ != nullptr && !source_->keeper().empty(); }
  // Whether this node was not told yet who keeps volumes.
  bool lacks_keeper() const {
    return uses_.in_cluster && !has_keeper() && (source_ == nullptr || !source_->keeps_here());
  }
  // Whether a sandbox that starts now sees the volume as it is kept, as far as this node knows; or
  // the same as those that run.
  bool is_here(const VolumeName& volume) const;
  // Asks the keeper, and brings what is missing. FAILED_PRECONDITION: there is no such volume;
  // UNAVAILABLE: no node that answers has it; RESOURCE_EXHAUSTED: the disk; DATA_LOSS.
  void bring(const std::vector<VolumeName>& volumes, Done done);
  // Where a sandbox finds it. UNAVAILABLE, while it is being brought, which this begins; errors as
  // VolumeStore::mounted_folder() has them.
  Result<std::string> folder(const VolumeName& volume);
  // As folder() of a copy that is whole: its use is noted. NOT_FOUND.
  Result<std::string> copied_folder(const VolumeName& volume);
  void note_use(const VolumeName& volume);
  // Evicts others, so that so much more can be made of it. RESOURCE_EXHAUSTED.
  Result<void> make_room(const VolumeName& volume, Bytes more);
  // Something is being made of the copy: until release() it neither gives way to others nor goes
  // with what its keeper removes. forget_tenant() and drop() take it all the same.
  void hold(const VolumeName& volume) { held_.insert(volume); }
  void release(const VolumeName& volume) { held_.erase(volume); }
  // Whether there is one, whole or not.
  bool has(const VolumeName& volume) const { return copies_.contains(volume); }
  bool is_held(const VolumeName& volume) const { return held_.contains(volume); }
  // The copy is no good: it is to be brought again. Those who wait for it are told UNAVAILABLE.
  void drop(const VolumeName& volume);
  // Whether a function that mounts it may be deployed on this node. Errors as
  // VolumeStore::mounted_folder() has them; none where another node keeps volumes, which checks it.
  Result<void> can_mount(const VolumeName& volume) const;
  // What another node keeps and is not whole here.
  std::vector<VolumeName> absent() const;
  // Something was changed there, through this node.
  void look();
  void forget_tenant(TenantId tenant);
  Counts counts() const;

 private:
  struct Copy {
    std::string version;   // of what came whole last; empty: nothing did
    uint64_t used_at = 0;  // grows
    std::shared_ptr<VolumeFetch> fetch;
    Instant not_before{};  // the next attempt that no invocation waits for
    std::string problem;   // of the last attempt
  };
  struct Waiting {
    // What is to be brought yet, and how often at most: what was on its way already may be of
    // before.
    std::map<VolumeName, int> volumes;
    Done done;
  };

  void read_record();
  void write_record();
  void write_record_soon();
  bool is_current(const VolumeName& volume) const;
  bool is_whole(const VolumeName& volume) const;
  void ask();
  void told(Result<std::map<VolumeName, VolumeStatus>> volumes);
  void renew_mounted();
  void settle(const Result<void>& asked);
  std::optional<Error> missing_of(Waiting& waiting, const Result<void>& asked);
  void want(const VolumeName& volume);
  void begin_next();
  void ended(const VolumeName& volume, const Result<void>& result);
  void settle_fetching(const VolumeName& volume, const Result<void>& result);
  Bytes made_of(const VolumeName& volume) const {
    return uses_.made_of ? uses_.made_of(volume) : Bytes();
  }
  Bytes used() const;
  std::optional<VolumeName> least_used(const std::set<VolumeName>& mounted) const;
  // Those who wait for it are told why.
  void remove_copy(const VolumeName& volume, const Error& why);
  void remove_copies(const std::function<bool(const VolumeName&)>& goes);
  Error not_brought(const VolumeName& volume, const Error& why) const;

  const Uses uses_;
  VolumeSource* source_ = nullptr;
  std::map<VolumeName, Copy> copies_;
  std::map<VolumeName, VolumeStatus> told_;
  bool was_told_ = false;
  bool asking_ = false;
  // Those that came while it was being asked are answered by the next answer.
  std::vector<Waiting> waiting_, waiting_next_;
  std::vector<Waiting> fetching_;
  std::deque<VolumeName> queue_;
  std::set<VolumeName> held_;
  bool record_is_old_ = false;  // it is written in the next turn
  uint64_t uses_counted_ = 0;
  Counts counts_;
  loop::TimerId timer_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace lambent::volumes
