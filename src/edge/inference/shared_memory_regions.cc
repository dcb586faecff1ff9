#include "edge/inference/shared_memory_regions.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

namespace lambent::inference {
namespace {

Error invalid(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

std::string quoted(const RegionSpec& spec) { return "shared memory region '" + spec.name + "'"; }

Error became_shorter(const RegionSpec& spec) {
  return invalid(quoted(spec) + ": the shared memory '" + spec.key +
                 "' is shorter than when it was registered");
}

Result<void> check_name(const std::string& name) {
  const bool is_text =
      std::all_of(name.begin(), name.end(), [](unsigned char c) { return c >= ' ' && c != 127; });
  if (!name.empty() && name.size() <= kMostRegionName && is_text) return {};
  return invalid("the name of a shared memory region has 1 to " + std::to_string(kMostRegionName) +
                 " bytes, without control characters");
}

// Of nothing that this process could disturb by opening it: links, pipes and devices are refused
// first, and so is the file of anyone else.
Result<OwnedFd> open_file(const std::string& path, const RegionSpec& spec,
                          std::span<const uid_t> owners, struct stat& about) {
  const Error absent{ErrorCode::kNotFound,
                     "there is no shared memory '" + spec.key +
                         "' that this tenant may register: none is there, or it belongs to a user "
                         "whom the operator does not name (lambent serve --system-shared-memory)"};
  const OwnedFd found(open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (!found.valid() || fstat(found.get(), &about) != 0) return absent;
  const bool is_allowed = std::find(owners.begin(), owners.end(), about.st_uid) != owners.end();
  if (!is_allowed || !S_ISREG(about.st_mode)) return absent;
  const std::string same = "/proc/self/fd/" + std::to_string(found.get());
  // A lease of another process would else hold this one back.
  OwnedFd file(open(same.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (file.valid()) return file;
  return error_from_errno("open the shared memory '" + spec.key + "' for reading and writing",
                          errno);
}

}  // namespace

Result<std::string> file_of_key(std::string_view key) {
  if (key.starts_with('/')) key.remove_prefix(1);
  const bool has_other =
      key.find('/') != std::string_view::npos || key.find('\0') != std::string_view::npos;
  if (key.empty() || key.size() >= NAME_MAX || has_other || key == "." || key == "..") {
    return invalid(
        "the key of shared memory is that of shm_open(): '/' and 1 to 254 bytes that are neither "
        "'/' nor NUL");
  }
  if (key.starts_with("sem.")) return invalid("this key is that of a semaphore");
  return std::string(key);
}

Result<void> SharedMemoryRegion::check(uint64_t offset, uint64_t size) const {
  // Without a sum, which could overflow.
  if (offset <= spec_.byte_size && size <= spec_.byte_size - offset) return {};
  return invalid(quoted(spec_) + " has " + std::to_string(spec_.byte_size) + " bytes: " +
                 std::to_string(size) + " from " + std::to_string(offset) + " on do not lie in it");
}

Result<void> SharedMemoryRegion::check_file(uint64_t offset, uint64_t size) const {
  RETURN_IF_ERROR(check(offset, size));
  struct stat about {};
  if (fstat(file_.get(), &about) != 0) return error_from_errno("look at " + quoted(spec_), errno);
  // add() has made sure that its end can be counted.
  if (std::cmp_less_equal(spec_.offset + offset + size, about.st_size)) return {};
  return became_shorter(spec_);
}

Result<void> SharedMemoryRegion::read(uint64_t offset, uint64_t size, std::string& into) const {
  RETURN_IF_ERROR(check_file(offset, size));
  const size_t before = into.size();
  into.resize(before + size);
  for (uint64_t done = 0; done < size;) {
    const ssize_t got = pread(file_.get(), into.data() + before + done, size - done,
                              static_cast<off_t>(spec_.offset + offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return error_from_errno("read " + quoted(spec_), errno);
    if (got == 0) return became_shorter(spec_);
    done += static_cast<uint64_t>(got);
  }
  return {};
}

Result<void> SharedMemoryRegion::write(uint64_t offset, std::string_view bytes) const {
  RETURN_IF_ERROR(check_file(offset, bytes.size()));
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t got = pwrite(file_.get(), bytes.data() + done, bytes.size() - done,
                               static_cast<off_t>(spec_.offset + offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return error_from_errno("write " + quoted(spec_), errno);
    done += static_cast<size_t>(got);
  }
  return {};
}

bool SharedMemoryRegion::overlaps(uint64_t offset, uint64_t size, const SharedMemoryRegion& other,
                                  uint64_t other_offset, uint64_t other_size) const {
  if (device_ != other.device_ || inode_ != other.inode_ || size == 0 || other_size == 0) {
    return false;
  }
  const uint64_t begin = spec_.offset + offset;
  const uint64_t other_begin = other.spec_.offset + other_offset;
  return begin < other_begin + other_size && other_begin < begin + size;
}

Result<void> SharedMemoryRegions::check_room(TenantId tenant) const {
  size_t all = 0;
  for (const auto& [each, its] : regions_) all += its.size();
  const auto found = regions_.find(tenant);
  const size_t own = found == regions_.end() ? 0 : found->second.size();
  if (own < kMostRegionsOfTenant && all < kMostRegions) return {};
  return Error{ErrorCode::kResourceExhausted,
               "too many shared memory regions are registered: unregister some"};
}

Result<void> SharedMemoryRegions::add(TenantId tenant, RegionSpec spec,
                                      std::span<const uid_t> owners) {
  RETURN_IF_ERROR(check_name(spec.name));
  ASSIGN_OR_RETURN(const std::string file, file_of_key(spec.key));
  if (spec.byte_size == 0) return invalid(quoted(spec) + " has no bytes");
  if (find(tenant, spec.name).ok()) {
    return Error{ErrorCode::kAlreadyExists, quoted(spec) + " is registered already"};
  }
  RETURN_IF_ERROR(check_room(tenant));
  struct stat about {};
  ASSIGN_OR_RETURN(OwnedFd opened, open_file(folder_ + "/" + file, spec, owners, about));
  const auto size = static_cast<uint64_t>(about.st_size);
  if (spec.offset > size || spec.byte_size > size - spec.offset) {
    return invalid("the shared memory '" + spec.key + "' has " + std::to_string(size) +
                   " bytes: " + std::to_string(spec.byte_size) + " from " +
                   std::to_string(spec.offset) + " on do not lie in it");
  }
  const std::string name = spec.name;
  regions_[tenant][name] = std::make_shared<const SharedMemoryRegion>(
      std::move(spec), std::move(opened), about.st_dev, about.st_ino);
  return {};
}

void SharedMemoryRegions::remove(TenantId tenant, const std::string& name) {
  const auto found = regions_.find(tenant);
  if (found == regions_.end()) return;
  found->second.erase(name);
  if (found->second.empty()) regions_.erase(found);
}

void SharedMemoryRegions::remove_all(TenantId tenant) { regions_.erase(tenant); }

Result<SharedMemoryRegions::Region> SharedMemoryRegions::find(TenantId tenant,
                                                              const std::string& name) const {
  const auto its = regions_.find(tenant);
  if (its != regions_.end()) {
    const auto found = its->second.find(name);
    if (found != its->second.end()) return found->second;
  }
  return Error{ErrorCode::kNotFound,
               "no shared memory region '" + name.substr(0, kMostRegionName) + "' is registered"};
}

std::vector<RegionSpec> SharedMemoryRegions::list(TenantId tenant) const {
  std::vector<RegionSpec> specs;
  const auto found = regions_.find(tenant);
  if (found == regions_.end()) return specs;
  for (const auto& [name, region] : found->second) specs.push_back(region->spec());
  return specs;
}

}  // namespace lambent::inference
