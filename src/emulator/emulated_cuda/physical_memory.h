// Memory without an address, as cuMemCreate makes it: pages that can be mapped in any number of
// places, and perhaps given to another process as a file descriptor. Shared by its handles and its
// mappings; the last of them to go gives it back. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "emulator/emulated_cuda/backing.h"
#include "emulator/emulated_node/shared_memory.h"
#include "gpu/cuda_abi/driver_types.h"

namespace lambent::emulated_cuda {

// What travels with an exported descriptor, at the end of its file: enough to count the memory in
// the process that imports it.
struct ExportedMemory {
  uint64_t magic;
  uint64_t node;  // tells node files apart
  uint64_t bytes;
  uint64_t backing_bytes;
  int32_t device;  // of the node; -1: host memory
  uint32_t handle_types;
  emulated_node::SharedHandle shared;
};

class PhysicalMemory {
 public:
  // `backing_bytes` below `bytes`: the same pages repeat. Memory that may be exported gets a file
  // of its own. Null if the system has no more.
  static std::shared_ptr<PhysicalMemory> create(std::shared_ptr<Backing> backing, size_t bytes,
                                                size_t backing_bytes, int device,
                                                const CUmemAllocationProp& properties);
  // Of a descriptor that export_descriptor() made, here or elsewhere; it stays the caller's. Null
  // if it is none.
  static std::shared_ptr<PhysicalMemory> import(int descriptor);
  ~PhysicalMemory();
  PhysicalMemory(const PhysicalMemory&) = delete;
  PhysicalMemory& operator=(const PhysicalMemory&) = delete;

  // Maps [offset, offset + bytes) at `address`, over whatever is there, inaccessible.
  bool map(uintptr_t address, size_t offset, size_t bytes) const;

  // A new descriptor, the caller's, or -1. `exported` is what the importer is to know.
  int export_descriptor(const ExportedMemory& exported) const;
  bool exportable() const { return own_descriptor_ >= 0; }
  ExportedMemory exported() const;  // what was last exported; its magic is 0 if nothing was

  size_t bytes() const { return bytes_; }
  size_t backing_bytes() const { return backing_bytes_; }
  size_t file_offset() const { return offset_; }
  int device() const { return device_; }  // -1: host memory
  const CUmemAllocationProp& properties() const { return properties_; }

  // Where this process finds what it imported. Before it is shared.
  void locate(CUmemLocation location) { properties_.location = location; }
  // Called when it is gone: gives back what was counted. Set before it is shared.
  std::function<void(const PhysicalMemory&)> on_gone;
  emulated_node::SharedHandle shared;  // once exported or imported; guarded by the node's lock

 private:
  PhysicalMemory() = default;

  std::shared_ptr<Backing> backing_;
  int own_descriptor_ = -1;
  size_t offset_ = 0;  // in the backing
  size_t bytes_ = 0, backing_bytes_ = 0;
  int device_ = -1;
  CUmemAllocationProp properties_{};
};

}  // namespace lambent::emulated_cuda
