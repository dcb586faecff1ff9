#include "gpu/cuda/virtual_memory.h"

namespace lambent::cuda {
namespace {

CUmemAllocationProp properties_of(int ordinal, Sharing sharing = Sharing::kNone) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  if (sharing == Sharing::kDescriptor) {
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  }
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, ordinal};
  return properties;
}

}  // namespace

Result<Bytes> mapping_granularity(const Driver& driver, int ordinal) {
  const CUmemAllocationProp properties = properties_of(ordinal);
  size_t granularity = 0;
  RETURN_IF_ERROR(driver.check(driver->mem_get_allocation_granularity(
                                   &granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
                               "cuMemGetAllocationGranularity"));
  return Bytes(granularity);
}

Sharing sharing_of(const Driver& driver, int ordinal) {
  CUdevice device = 0;
  int supported = 0;
  const bool known =
      driver->device_get(&device, ordinal) == CUDA_SUCCESS &&
      driver->device_get_attribute(&supported,
                                   CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
                                   device) == CUDA_SUCCESS;
  return known && supported != 0 ? Sharing::kDescriptor : Sharing::kNone;
}

Result<PhysicalMemory> PhysicalMemory::create(const Driver& driver, int ordinal, Bytes size,
                                              Sharing sharing) {
  const CUmemAllocationProp properties = properties_of(ordinal, sharing);
  CUmemGenericAllocationHandle handle = 0;
  RETURN_IF_ERROR(driver.check(driver->mem_create(&handle, size.count, &properties, 0),
                               "cuMemCreate of " + to_string(size)));
  return PhysicalMemory(&driver, handle, size);
}

Result<PhysicalMemory> PhysicalMemory::import(const Driver& driver, const OwnedFd& descriptor,
                                              Bytes size) {
  CUmemGenericAllocationHandle handle = 0;
  void* number = reinterpret_cast<void*>(static_cast<intptr_t>(descriptor.get()));
  RETURN_IF_ERROR(driver.check(driver->mem_import_from_shareable_handle(
                                   &handle, number, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
                               "cuMemImportFromShareableHandle"));
  return PhysicalMemory(&driver, handle, size);
}

Result<OwnedFd> export_memory(const Driver& driver, CUdeviceptr address) {
  CUmemGenericAllocationHandle handle = 0;
  RETURN_IF_ERROR(
      driver.check(driver->mem_retain_allocation_handle(&handle, reinterpret_cast<void*>(address)),
                   "cuMemRetainAllocationHandle"));
  int descriptor = -1;
  const auto exported =
      driver.check(driver->mem_export_to_shareable_handle(
                       &descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                   "cuMemExportToShareableHandle");
  driver->mem_release(handle);
  RETURN_IF_ERROR(exported);
  return OwnedFd(descriptor);
}

PhysicalMemory::~PhysicalMemory() {
  if (driver_ != nullptr) (*driver_)->mem_release(handle_);
}

Result<ReservedAddresses> ReservedAddresses::reserve(const Driver& driver, int ordinal,
                                                     Bytes size) {
  CUdeviceptr base = 0;
  RETURN_IF_ERROR(driver.check(driver->mem_address_reserve(&base, size.count, 0, 0, 0),
                               "cuMemAddressReserve of " + to_string(size)));
  return ReservedAddresses(&driver, ordinal, base, size);
}

ReservedAddresses::~ReservedAddresses() {
  if (driver_ != nullptr) (*driver_)->mem_address_free(base_, size_.count);
}

Result<void> ReservedAddresses::map(CUdeviceptr address, const PhysicalMemory& memory) const {
  RETURN_IF_ERROR(place(address, memory));
  auto opened = open(address, memory.size());
  if (!opened.ok()) (*driver_)->mem_unmap(address, memory.size().count);
  return opened;
}

Result<void> ReservedAddresses::place(CUdeviceptr address, const PhysicalMemory& memory) const {
  return driver_->check((*driver_)->mem_map(address, memory.size().count, 0, memory.handle(), 0),
                        "cuMemMap");
}

Result<void> ReservedAddresses::open(CUdeviceptr address, Bytes size) const {
  CUmemAccessDesc access{};
  access.location = {CU_MEM_LOCATION_TYPE_DEVICE, ordinal_};
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return driver_->check((*driver_)->mem_set_access(address, size.count, &access, 1),
                        "cuMemSetAccess");
}

Result<void> ReservedAddresses::unmap(CUdeviceptr address, Bytes size) const {
  return driver_->check((*driver_)->mem_unmap(address, size.count), "cuMemUnmap");
}

}  // namespace lambent::cuda
