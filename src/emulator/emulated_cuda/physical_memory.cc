#include "emulator/emulated_cuda/physical_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

namespace lambent::emulated_cuda {

namespace {

constexpr uint64_t kMagic = 0x454d554d454d4631;  // "EMUMEMF1"
constexpr size_t kTrailerBytes = 4096;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;

bool read_trailer(int descriptor, ExportedMemory* exported) {
  // Only a sealed file cannot be cut short under a mapping.
  int seals = fcntl(descriptor, F_GET_SEALS);
  struct stat info;
  if (seals < 0 || (seals & kSeals) != kSeals || fstat(descriptor, &info) != 0) return false;
  if (info.st_size < static_cast<off_t>(kTrailerBytes)) return false;
  off_t at = info.st_size - static_cast<off_t>(kTrailerBytes);
  if (pread(descriptor, exported, sizeof *exported, at) != sizeof *exported) return false;
  if (exported->magic != kMagic || exported->backing_bytes != static_cast<uint64_t>(at)) {
    return false;
  }
  return exported->backing_bytes > 0 && exported->backing_bytes % kTrailerBytes == 0 &&
         exported->backing_bytes <= exported->bytes && exported->bytes % kBackingBlockBytes == 0;
}

}  // namespace

std::shared_ptr<PhysicalMemory> PhysicalMemory::create(std::shared_ptr<Backing> backing,
                                                       size_t bytes, size_t backing_bytes,
                                                       int device,
                                                       const CUmemAllocationProp& properties) {
  std::shared_ptr<PhysicalMemory> memory(new PhysicalMemory);
  memory->bytes_ = bytes;
  memory->backing_bytes_ = backing_bytes;
  memory->device_ = device;
  memory->properties_ = properties;
  if (properties.requestedHandleTypes == CU_MEM_HANDLE_TYPE_NONE) {
    auto offset = backing->take(backing_bytes);
    if (!offset) return nullptr;
    memory->offset_ = *offset;
    memory->backing_ = std::move(backing);
    return memory;
  }
  int descriptor = memfd_create("shared-device-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0) return nullptr;
  memory->own_descriptor_ = descriptor;
  if (ftruncate(descriptor, static_cast<off_t>(backing_bytes + kTrailerBytes)) != 0) return nullptr;
  return memory;
}

std::shared_ptr<PhysicalMemory> PhysicalMemory::import(int descriptor) {
  ExportedMemory exported;
  if (!read_trailer(descriptor, &exported)) return nullptr;
  std::shared_ptr<PhysicalMemory> memory(new PhysicalMemory);
  memory->own_descriptor_ = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (memory->own_descriptor_ < 0) return nullptr;
  memory->bytes_ = exported.bytes;
  memory->backing_bytes_ = exported.backing_bytes;
  memory->device_ = exported.device;
  memory->properties_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  memory->properties_.requestedHandleTypes =
      static_cast<CUmemAllocationHandleType>(exported.handle_types);
  return memory;
}

PhysicalMemory::~PhysicalMemory() {
  if (backing_) backing_->give_back(offset_, backing_bytes_);
  if (own_descriptor_ >= 0) close(own_descriptor_);
  if (on_gone) on_gone(*this);
}

bool PhysicalMemory::map(uintptr_t address, size_t offset, size_t bytes) const {
  int descriptor = backing_ ? backing_->descriptor() : own_descriptor_;
  while (bytes > 0) {
    size_t within = offset % backing_bytes_;
    size_t part = std::min(bytes, backing_bytes_ - within);
    void* at = reinterpret_cast<void*>(address);
    if (mmap(at, part, PROT_NONE, MAP_SHARED | MAP_FIXED, descriptor,
             static_cast<off_t>(offset_ + within)) == MAP_FAILED) {
      return false;
    }
    madvise(at, part, MADV_DONTFORK);  // a child has no device
    address += part;
    offset += part;
    bytes -= part;
  }
  return true;
}

int PhysicalMemory::export_descriptor(const ExportedMemory& exported) const {
  ExportedMemory trailer = exported;
  trailer.magic = kMagic;
  trailer.bytes = bytes_;
  trailer.backing_bytes = backing_bytes_;
  trailer.device = device_;
  trailer.handle_types = properties_.requestedHandleTypes;
  if (pwrite(own_descriptor_, &trailer, sizeof trailer, static_cast<off_t>(backing_bytes_)) !=
      sizeof trailer) {
    return -1;
  }
  if (fcntl(own_descriptor_, F_ADD_SEALS, kSeals) != 0) return -1;
  return fcntl(own_descriptor_, F_DUPFD_CLOEXEC, 0);
}

ExportedMemory PhysicalMemory::exported() const {
  ExportedMemory exported{};
  if (own_descriptor_ < 0 || !read_trailer(own_descriptor_, &exported)) exported.magic = 0;
  return exported;
}

}  // namespace lambent::emulated_cuda
