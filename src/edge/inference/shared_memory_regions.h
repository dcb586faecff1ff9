// SharedMemoryRegions: the POSIX shared memory that tenants registered for their tensors (Triton's
// extension system_shared_memory). The table belongs to the loop thread; a region that it gave may
// be read and written by any thread, also after it was unregistered.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/fd.h"
#include "core/base/result.h"
#include "core/domain/tenant.h"

namespace lambent::inference {

// Each is a descriptor.
constexpr size_t kMostRegionsOfTenant = 256;
constexpr size_t kMostRegions = 1'024;
constexpr size_t kMostRegionName = 255;

struct RegionSpec {
  std::string name;        // by which its tenant's requests name it
  std::string key;         // that of shm_open(): "/frames"
  uint64_t offset = 0;     // where it begins in the object of that key, in bytes
  uint64_t byte_size = 0;  // at least 1

  bool operator==(const RegionSpec&) const = default;
};

// The name of a key's file in /dev/shm. INVALID_ARGUMENT if it is none: after one '/', which may be
// absent, 1 to 254 bytes without '/' and NUL, and neither "." nor ".." nor a semaphore's ("sem.").
Result<std::string> file_of_key(std::string_view key);

// Its bytes are copied out of the file and into it, never mapped: the file's owner may cut it at
// any time, and access to a mapping beyond its end would kill the process.
class SharedMemoryRegion {
 public:
  SharedMemoryRegion(RegionSpec spec, OwnedFd file, dev_t device, ino_t inode)
      : spec_(std::move(spec)), file_(std::move(file)), device_(device), inode_(inode) {}

  const RegionSpec& spec() const { return spec_; }
  // INVALID_ARGUMENT, naming the region, unless `size` bytes from `offset` on lie in it.
  Result<void> check(uint64_t offset, uint64_t size) const;
  // Appends them. INVALID_ARGUMENT if the file has become shorter than that.
  Result<void> read(uint64_t offset, uint64_t size, std::string& into) const;
  // The same the other way. A file that is cut between the look at its size and the write grows
  // again.
  Result<void> write(uint64_t offset, std::string_view bytes) const;
  // Whether the two ranges have bytes in common, perhaps by different regions of one file.
  bool overlaps(uint64_t offset, uint64_t size, const SharedMemoryRegion& other,
                uint64_t other_offset, uint64_t other_size) const;

 private:
  Result<void> check_file(uint64_t offset, uint64_t size) const;

  const RegionSpec spec_;
  const OwnedFd file_;
  const dev_t device_;
  const ino_t inode_;
};

class SharedMemoryRegions {
 public:
  // Shared with requests that run while it is unregistered.
  using Region = std::shared_ptr<const SharedMemoryRegion>;

  explicit SharedMemoryRegions(std::string folder = "/dev/shm") : folder_(std::move(folder)) {}

  // ALREADY_EXISTS for a name that the tenant has; NOT_FOUND if there is no such file, or it
  // belongs to none of `owners`: which of both is not told. PERMISSION_DENIED if this process may
  // not read and write it.
  Result<void> add(TenantId tenant, RegionSpec spec, std::span<const uid_t> owners);
  // What is not there is unregistered already.
  void remove(TenantId tenant, const std::string& name);
  void remove_all(TenantId tenant);

  // NOT_FOUND, naming the region.
  Result<Region> find(TenantId tenant, const std::string& name) const;
  // By name.
  std::vector<RegionSpec> list(TenantId tenant) const;
  bool has_any(TenantId tenant) const { return regions_.contains(tenant); }

 private:
  Result<void> check_room(TenantId tenant) const;

  const std::string folder_;
  std::map<TenantId, std::map<std::string, Region>> regions_;
};

}  // namespace lambent::inference
