// DeviceStore: what an executor keeps in the device's memory, by name: objects, constants, and the
// instances' own buffers; decides with DeviceCache who leaves the MemoryPool. Of the loop thread.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "core/base/ids.h"
#include "core/domain/tensor_type.h"
#include "gpu/executor/device_cache.h"
#include "gpu/executor/memory_pool.h"

namespace lambent::executor {

// Beside a buffer's number: the place that an output is copied to, to become an object there.
constexpr uint32_t kCopiedOutput = uint32_t{1} << 31;

// What lies somewhere on the device. Constants are named by the file that they come from, and those
// that are filled with a value by their function's graph, so that all instances of a function share
// them.
struct DeviceName {
  enum class Kind : uint8_t { kObject, kConstant, kInstanceBuffer };
  static constexpr uint32_t kTemporaries = UINT32_MAX;

  Kind kind = Kind::kObject;
  uint64_t high = 0;
  uint64_t low = 0;
  uint32_t number = 0;

  static DeviceName of(ObjectId object) {
    return {Kind::kObject, object.maker.high, object.maker.low, object.number};
  }
  // `file` and `version` tell any two contents apart.
  static DeviceName constant(uint64_t file, uint64_t version) {
    return {Kind::kConstant, file, version, 0};
  }
  // A buffer that the graph in this file fills with a value; contents of files have number 0.
  static DeviceName filled(const DeviceName& graph, uint32_t buffer) {
    return {Kind::kConstant, graph.high, graph.low, buffer + 1};
  }
  static DeviceName of(SandboxId instance, uint32_t buffer) {
    return {Kind::kInstanceBuffer, instance.value, 0, buffer};
  }
  // Of an object.
  ObjectId object() const { return {{high, low}, number}; }
  constexpr auto operator<=>(const DeviceName&) const = default;
};

// Whether an object of this size on the device lies in memory of its own, which can be shared.
constexpr bool is_shareable(Bytes held) { return held >= kLeastLarge; }

// Of an instance: whose turn it is on the link, and who had a block of the pool last.
constexpr uint64_t user_of(SandboxId instance) { return instance.value + 1; }

struct DeviceNameHash {
  size_t operator()(const DeviceName& name) const noexcept {
    return (name.high * 0x9e3779b97f4a7c15ULL ^ name.low) * 0xff51afd7ed558ccdULL + name.number +
           static_cast<size_t>(name.kind);
  }
};

class DeviceStore {
 public:
  // `on_object_gone` is told of each object that leaves with memory of its own (kLeastLarge).
  explicit DeviceStore(MemoryPool& pool, std::function<void(ObjectId)> on_object_gone = {})
      : pool_(pool), on_object_gone_(std::move(on_object_gone)) {}
  ~DeviceStore();
  DeviceStore(const DeviceStore&) = delete;
  DeviceStore& operator=(const DeviceStore&) = delete;

  struct Entry {
    CUdeviceptr address = 0;
    Bytes size;          // as it counts
    TensorType type;     // of an object
    bool filled = true;  // false: the content is still to be brought
    uint64_t number = 0;
    uint32_t pins = 0;
    bool leaves = false;    // with the last pin
    bool is_kept = false;   // an object without a copy on the host (KeptObjects)
    uint64_t last_use = 0;  // of its last pin; larger is later
  };
  // Null if it does not lie here. The pointer holds until something is placed or leaves.
  Entry* find(const DeviceName& name);

  struct Placed {
    CUdeviceptr address = 0;
    bool own = false;  // only `user` has written there before
  };
  // Makes a place that is not there yet, pinned, letting others go for it. RESOURCE_EXHAUSTED if
  // what could go is too little.
  Result<Placed> place(const DeviceName& name, Bytes size, uint64_t user);
  // What is pinned stays until unpin() was called as often.
  void pin(const DeviceName& name);
  void unpin(const DeviceName& name);
  // A request that waits will use it: kept rather than others. The ticket ends that; 0 if it does
  // not lie here.
  uint64_t need(const DeviceName& name);
  void unneed(uint64_t ticket);
  // The same for requests that have not come yet, whether it lies here already or comes later,
  // until they want it no more or it leave()s.
  void want(const DeviceName& name, bool wanted);
  bool is_wanted(const DeviceName& name) const { return wanted_.contains(name); }
  // The content goes by another name from now on; that one must be free.
  void rename(const DeviceName& from, const DeviceName& to);
  // Lets it go; nothing happens if it does not lie here or is pinned.
  void drop(const DeviceName& name);
  // The same, but what is pinned goes as soon as it is not.
  void leave(const DeviceName& name);

  // What all may take together, from now on: releases what is above, except what is pinned.
  void set_limit(Bytes limit);
  Bytes used() const { return pool_.used(); }
  // What a place of this size counts with.
  Bytes rounded(Bytes size) const { return pool_.rounded(size); }
  // Whether a place can be made without letting anything go.
  bool has_room(Bytes size) const { return pool_.used() + pool_.rounded(size) <= pool_.limit(); }

  // Evicts what is not pinned, as for a place, until so much lies free in the pool or nothing
  // is left.
  void make_room(Bytes size);
  // Takes memory out of the pool, which is to go to the device, until there is `most` or more: what
  // lies free (MemoryPool::begin_unmapping_idle()), then the buffers of instances that `is_idle`
  // names, in the order in which they would go anyway. Objects and constants stay, and so does what
  // is pinned.
  MemoryPool::Leaving trim(Bytes most, uint64_t looks,
                           const std::function<bool(SandboxId)>& is_idle);
  // Calls `visit` with each name and its entry, in no order; it must not place or release any.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (const auto& [name, entry] : entries_) visit(name, entry);
  }

 private:
  void evict(const std::vector<uint64_t>& victims);
  // Where it lay; that is still to be given back.
  CUdeviceptr forget(uint64_t number);

  MemoryPool& pool_;
  const std::function<void(ObjectId)> on_object_gone_;
  DeviceCache cache_;
  std::unordered_map<DeviceName, Entry, DeviceNameHash> entries_;
  std::unordered_map<uint64_t, DeviceName> names_;  // by number in the cache
  std::unordered_set<DeviceName, DeviceNameHash> wanted_;
  uint64_t last_number_ = 0;
  uint64_t last_use_ = 0;
};

}  // namespace lambent::executor
