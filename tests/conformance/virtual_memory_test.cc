// Reserving addresses, making memory and mapping the one into the other.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <numeric>

#include "conformance/fixture.h"

namespace lambent::conformance {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

class VirtualMemory : public WithKernels {
 protected:
  void SetUp() override {
    WithKernels::SetUp();
    int supported = 0;
    OK(cu.device_get_attribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                               0));
    if (!supported) GTEST_SKIP() << "this device has no virtual memory management";
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    OK(cu.mem_get_allocation_granularity(&unit, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  }
  CUmemGenericAllocationHandle create(size_t bytes) {
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_EQ(cu.mem_create(&handle, bytes, &properties, 0), CUDA_SUCCESS);
    return handle;
  }
  CUdeviceptr reserve(size_t bytes) {
    CUdeviceptr address = 0;
    EXPECT_EQ(cu.mem_address_reserve(&address, bytes, 0, 0, 0), CUDA_SUCCESS);
    return address;
  }
  CUresult open(CUdeviceptr address, size_t bytes,
                CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
    CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, flags};
    return cu.mem_set_access(address, bytes, &access, 1);
  }
  // Reserves, creates, maps and opens in one go.
  CUdeviceptr mapped(size_t bytes) {
    CUdeviceptr address = reserve(bytes);
    CUmemGenericAllocationHandle handle = create(bytes);
    EXPECT_EQ(cu.mem_map(address, bytes, 0, handle, 0), CUDA_SUCCESS);
    EXPECT_EQ(cu.mem_release(handle), CUDA_SUCCESS);
    EXPECT_EQ(open(address, bytes), CUDA_SUCCESS);
    return address;
  }

  CUmemAllocationProp properties{};
  size_t unit = 0;
};

TEST_F(VirtualMemory, AnAllocationGrowsInPlaceAndCopiesAndKernelsSeeItAsOne) {
  size_t part = 2 * unit;
  CUdeviceptr base = reserve(3 * part);
  for (int i = 0; i < 3; i++) {
    CUmemGenericAllocationHandle handle = create(part);
    OK(cu.mem_map(base + i * part, part, 0, handle, 0));
    OK(cu.mem_release(handle));
  }
  OK(open(base, 3 * part));
  std::vector<unsigned char> out(3 * part - 10), back(out.size());
  std::iota(out.begin(), out.end(), 0);
  OK(cu.memcpy_h_to_d(base + 5, out.data(), out.size()));
  OK(cu.memcpy_d_to_h(back.data(), base + 5, back.size()));
  if (!driver().model_mode) {
    EXPECT_EQ(out, back);
  }
  OK(cu.memset_d8(base + part - 3, 9, 6));
  OK(cu.memcpy_d_to_h(back.data(), base + part - 3, 6));
  EXPECT_EQ(std::count(back.begin(), back.begin() + 6, 9), 6);
  CUdeviceptr counter = base + part;
  OK(cu.memset_d32(counter, 0, 1));
  OK(launch(function("count"), 7, 32, nullptr, {&counter}));
  uint32_t blocks = 0;
  OK(cu.memcpy_d_to_h(&blocks, counter, 4));
  if (!driver().model_mode) {
    EXPECT_EQ(blocks, 7u);
  }
  OK(cu.mem_unmap(base, 3 * part));
  OK(cu.mem_address_free(base, 3 * part));
}

TEST_F(VirtualMemory, MemoryIsCountedFromItsMakingUntilHandleAndMappingsAreGone) {
  size_t before = free_bytes(), bytes = 4 * unit;
  CUmemGenericAllocationHandle handle = create(bytes);
  EXPECT_LE(free_bytes(), before - bytes);
  CUdeviceptr a = reserve(bytes), b = reserve(bytes);
  OK(cu.mem_map(a, bytes, 0, handle, 0));
  OK(cu.mem_map(b, bytes, 0, handle, 0));
  OK(cu.mem_release(handle));
  OK(cu.mem_unmap(a, bytes));
  EXPECT_LE(free_bytes(), before - bytes);
  OK(cu.mem_unmap(b, bytes));
  EXPECT_EQ(free_bytes(), before);
  EXPECT_EQ(cu.mem_map(a, bytes, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  OK(cu.mem_address_free(a, bytes));
  OK(cu.mem_address_free(b, bytes));
}

TEST_F(VirtualMemory, OneMemoryAtTwoAddressesIsTheSameMemory) {
  CUdeviceptr a = reserve(unit), b = reserve(unit);
  CUmemGenericAllocationHandle handle = create(unit);
  OK(cu.mem_map(a, unit, 0, handle, 0));
  OK(cu.mem_map(b, unit, 0, handle, 0));
  OK(open(a, unit));
  OK(open(b, unit));
  uint32_t word = 0;
  OK(cu.memset_d32(a + 64, 77, 1));
  OK(cu.memcpy_d_to_h(&word, b + 64, 4));
  EXPECT_EQ(word, 77u);
  OK(cu.mem_unmap(a, unit));
  OK(cu.mem_unmap(b, unit));
  OK(cu.mem_release(handle));
}

TEST_F(VirtualMemory, ContentsSurviveBeingMappedElsewhere) {
  CUdeviceptr a = reserve(unit), b = reserve(unit);
  CUmemGenericAllocationHandle handle = create(unit);
  OK(cu.mem_map(a, unit, 0, handle, 0));
  OK(open(a, unit));
  OK(cu.memset_d32(a, 0xABCD, 4));
  OK(cu.mem_unmap(a, unit));
  OK(cu.mem_map(b, unit, 0, handle, 0));
  OK(open(b, unit));
  uint32_t word = 0;
  OK(cu.memcpy_d_to_h(&word, b + 12, 4));
  EXPECT_EQ(word, 0xABCDu);
  OK(cu.mem_unmap(b, unit));
  OK(cu.mem_release(handle));
}

TEST_F(VirtualMemory, MappedMemoryIsClosedUntilAccessIsGranted) {
  CUdeviceptr a = reserve(unit);
  CUmemGenericAllocationHandle handle = create(unit);
  OK(cu.mem_map(a, unit, 0, handle, 0));
  CUmemLocation here{CU_MEM_LOCATION_TYPE_DEVICE, 0};
  unsigned long long flags = 99;
  OK(cu.mem_get_access(&flags, &here, a));
  EXPECT_EQ(flags, 0u);
  EXPECT_NE(cu.memset_d8(a, 1, 4), CUDA_SUCCESS);
  OK(open(a, unit));
  OK(cu.mem_get_access(&flags, &here, a + unit - 1));
  EXPECT_EQ(flags, unsigned{CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
  OK(cu.memset_d8(a, 1, 4));
  OK(cu.mem_unmap(a, unit));
  EXPECT_EQ(cu.mem_get_access(&flags, &here, a), CUDA_ERROR_INVALID_VALUE);
  OK(cu.mem_map(a, unit, 0, handle, 0));  // a new mapping begins closed
  OK(cu.mem_get_access(&flags, &here, a));
  EXPECT_EQ(flags, 0u);
  OK(cu.mem_unmap(a, unit));
  OK(cu.mem_release(handle));
}

TEST_F(VirtualMemory, MemoryThatMayOnlyBeReadRefusesWrites) {
  EMULATOR_ONLY("whether a GPU has read-only mappings of its own memory is not documented");
  CUdeviceptr a = mapped(unit);
  uint32_t word = 5;
  OK(cu.memset_d32(a, 31, 1));
  OK(open(a, unit, CU_MEM_ACCESS_FLAGS_PROT_READ));
  OK(cu.memcpy_d_to_h(&word, a, 4));
  EXPECT_EQ(word, 31u);
  EXPECT_EQ(cu.memcpy_h_to_d(a, &word, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.memset_d32(a, 1, 1), CUDA_ERROR_INVALID_VALUE);
  OK(cu.mem_unmap(a, unit));
}

TEST_F(VirtualMemory, AddressesTellReservationsFromMappings) {
  CUdeviceptr a = reserve(4 * unit), start = 0, base = 0;
  size_t bytes = 0;
  int is_mapped = -1;
  unsigned type = 0;
  unsigned long long types = 99;
  CUmemGenericAllocationHandle handle = create(unit), same = 0;
  OK(cu.mem_map(a + unit, unit, 0, handle, 0));
  OK(open(a + unit, unit));
  CUdeviceptr inside = a + unit + 100;
  OK(cu.pointer_get_attribute(&is_mapped, CU_POINTER_ATTRIBUTE_MAPPED, inside));
  EXPECT_EQ(is_mapped, 1);
  OK(cu.pointer_get_attribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, inside));
  OK(cu.pointer_get_attribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, inside));
  EXPECT_EQ(start, a);
  EXPECT_EQ(bytes, 4 * unit);
  OK(cu.mem_get_address_range(&base, &bytes, inside));
  EXPECT_EQ(base, a + unit);
  EXPECT_EQ(bytes, unit);
  OK(cu.pointer_get_attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, inside));
  EXPECT_EQ(type, unsigned{CU_MEMORYTYPE_DEVICE});
  OK(cu.pointer_get_attribute(&types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, inside));
  EXPECT_EQ(types, 0u);
  OK(cu.mem_retain_allocation_handle(&same, reinterpret_cast<void*>(inside)));
  EXPECT_EQ(same, handle);
  OK(cu.mem_release(same));
  OK(cu.mem_release(handle));
  OK(cu.mem_retain_allocation_handle(&same, reinterpret_cast<void*>(inside)));
  OK(cu.mem_release(same));
  EXPECT_EQ(cu.mem_retain_allocation_handle(&same, reinterpret_cast<void*>(a)),
            CUDA_ERROR_INVALID_VALUE);
  OK(cu.mem_unmap(a + unit, unit));
  OK(cu.mem_address_free(a, 4 * unit));
}

TEST_F(VirtualMemory, WrongSizesAndPlacesAreErrors) {
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr a = reserve(4 * unit);
  EXPECT_EQ(cu.mem_create(&handle, unit + 4096, &properties, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.mem_create(&handle, 0, &properties, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.mem_create(&handle, unit, &properties, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.mem_create(&handle, unit, nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.mem_create(&handle, size_t{1} << 60, &properties, 0), CUDA_ERROR_OUT_OF_MEMORY);
  CUmemAllocationProp nowhere = properties;
  nowhere.location.id = 99;
  EXPECT_EQ(cu.mem_create(&handle, unit, &nowhere, 0), CUDA_ERROR_INVALID_DEVICE);
  nowhere.location = {CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0};
  EXPECT_EQ(cu.mem_create(&handle, unit, &nowhere, 0), CUDA_ERROR_INVALID_VALUE);
  handle = create(2 * unit);
  EXPECT_EQ(cu.mem_map(a + 4096, unit, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.mem_map(a, 4 * unit, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.mem_map(a + 3 * unit, 2 * unit, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.mem_map(a, 2 * unit, 0, handle, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.mem_map(a, 2 * unit, 0, 0xBAD, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.mem_map(0x1000 * unit, 2 * unit, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  OK(cu.mem_map(a + unit, 2 * unit, 0, handle, 0));
  EXPECT_EQ(cu.mem_map(a, 2 * unit, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.mem_map(a + 2 * unit, 2 * unit, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.mem_unmap(a + unit, unit), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.mem_unmap(a, 3 * unit), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(open(a, 4 * unit), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.mem_address_free(a, 4 * unit), CUDA_ERROR_INVALID_VALUE);
  OK(cu.mem_unmap(a + unit, 2 * unit));
  EXPECT_EQ(cu.mem_unmap(a + unit, 2 * unit), CUDA_ERROR_INVALID_VALUE);
  OK(cu.mem_release(handle));
  EXPECT_EQ(cu.mem_release(0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.mem_address_free(a, unit), CUDA_ERROR_INVALID_VALUE);
  OK(cu.mem_address_free(a, 4 * unit));
  EXPECT_EQ(cu.mem_address_free(a, 4 * unit), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.mem_address_reserve(&a, 1000, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.mem_address_reserve(&a, unit, 3, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.mem_address_reserve(&a, size_t{1} << 62, 0, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cu.mem_address_reserve(nullptr, unit, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(VirtualMemory, MappedMemoryIsNotForTheOtherWaysToFree) {
  CUdeviceptr a = mapped(unit);
  EXPECT_EQ(cu.mem_free(a), CUDA_ERROR_INVALID_VALUE);
  OK(cu.mem_unmap(a, unit));
  OK(cu.mem_address_free(a, unit));
}

TEST_F(VirtualMemory, ReservationsKeepTheirAlignmentAndTheirHint) {
  CUdeviceptr a = 0, b = 0;
  OK(cu.mem_address_reserve(&a, unit, 64 * kMiB, 0, 0));
  EXPECT_EQ(a % (64 * kMiB), 0u);
  OK(cu.mem_address_free(a, unit));
  OK(cu.mem_address_reserve(&b, unit, 0, a, 0));
  OK(cu.mem_address_free(b, unit));
}

TEST_F(VirtualMemory, HostMemoryIsMadeAndOpenedToo) {
  int supported = 0;
  OK(cu.device_get_attribute(&supported,
                             CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0));
  if (!supported) GTEST_SKIP() << "this driver makes no host memory this way";
  properties.location = {CU_MEM_LOCATION_TYPE_HOST, 0};
  size_t before = free_bytes();
  CUmemGenericAllocationHandle handle = create(unit);
  CUdeviceptr a = reserve(unit);
  OK(cu.mem_map(a, unit, 0, handle, 0));
  CUmemAccessDesc both[] = {{{CU_MEM_LOCATION_TYPE_HOST, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
                            {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
  OK(cu.mem_set_access(a, unit, both, 2));
  EXPECT_EQ(free_bytes(), before);
  *reinterpret_cast<uint32_t*>(a) = 42;
  uint32_t word = 0;
  CUdeviceptr device = allocate(4);
  OK(cu.memcpy(device, a, 4));
  OK(cu.memcpy_d_to_h(&word, device, 4));
  EXPECT_EQ(word, 42u);
  OK(cu.mem_unmap(a, unit));
  OK(cu.mem_release(handle));
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  EXPECT_EQ(cu.mem_create(&handle, unit, &properties, 0), CUDA_ERROR_INVALID_VALUE);
}

class SharedMemory : public VirtualMemory {
 protected:
  void SetUp() override {
    VirtualMemory::SetUp();
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  }
  int exported(CUmemGenericAllocationHandle handle) {
    int descriptor = -1;
    EXPECT_EQ(cu.mem_export_to_shareable_handle(&descriptor, handle,
                                                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
              CUDA_SUCCESS);
    return descriptor;
  }
  CUresult import(CUmemGenericAllocationHandle* handle, int descriptor) {
    return cu.mem_import_from_shareable_handle(
        handle, reinterpret_cast<void*>(static_cast<intptr_t>(descriptor)),
        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  }
};

TEST_F(SharedMemory, TwoProcessesShareMemoryThatIsCountedOnce) {
  size_t bytes = 4 * kMiB;
  Peer peer;
  ASSERT_TRUE(peer.start("import_memory"));
  ASSERT_TRUE(peer.expect('r'));
  size_t before = free_bytes();
  CUdeviceptr a = reserve(bytes);
  CUmemGenericAllocationHandle handle = create(bytes);
  OK(cu.mem_map(a, bytes, 0, handle, 0));
  OK(open(a, bytes));
  OK(cu.memset_d32(a + bytes - 4, 0x600DF00D, 1));
  OK(cu.ctx_synchronize());
  int descriptor = exported(handle);
  ASSERT_TRUE(send_descriptor(peer.to, descriptor));
  close(descriptor);
  ASSERT_TRUE(peer.expect('w'));
  uint32_t word = 0;
  OK(cu.memcpy_d_to_h(&word, a, 4));
  EXPECT_EQ(word, 0xCAFEu);
  if (driver().emulated) {
    EXPECT_EQ(free_bytes(), before - bytes);
  }
  OK(cu.mem_release(handle));
  OK(cu.mem_unmap(a, bytes));
  if (driver().emulated) {
    EXPECT_EQ(free_bytes(), before - bytes);  // the peer still holds it
  }
  peer.kill_and_wait();
  EXPECT_GE(free_bytes(), before);
}

TEST_F(SharedMemory, ADescriptorOutlivesItsHandle) {
  CUmemGenericAllocationHandle handle = create(unit), again = 0;
  CUdeviceptr a = reserve(unit);
  size_t before = free_bytes();
  OK(cu.mem_map(a, unit, 0, handle, 0));
  OK(open(a, unit));
  OK(cu.memset_d32(a, 123, 1));
  OK(cu.mem_unmap(a, unit));
  int descriptor = exported(handle);
  OK(cu.mem_release(handle));
  OK(import(&again, descriptor));
  close(descriptor);
  if (driver().emulated) {
    EXPECT_EQ(free_bytes(), before);
  }
  OK(cu.mem_map(a, unit, 0, again, 0));
  OK(cu.mem_release(again));
  OK(open(a, unit));
  uint32_t word = 0;
  OK(cu.memcpy_d_to_h(&word, a, 4));
  EXPECT_EQ(word, 123u);
  OK(cu.mem_unmap(a, unit));
  EXPECT_EQ(free_bytes(), before + unit);
}

TEST_F(SharedMemory, WhatWasNotMadeForItIsNotExportedAndOtherDescriptorsAreNotMemory) {
  CUmemGenericAllocationHandle handle = create(unit), imported = 0;
  int descriptor = -1;
  EXPECT_EQ(cu.mem_export_to_shareable_handle(nullptr, handle,
                                              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
            CUDA_ERROR_INVALID_VALUE);
  OK(cu.mem_release(handle));
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
  handle = create(unit);
  EXPECT_EQ(cu.mem_export_to_shareable_handle(&descriptor, handle,
                                              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
            CUDA_ERROR_INVALID_VALUE);
  OK(cu.mem_release(handle));
  EXPECT_NE(import(&imported, -1), CUDA_SUCCESS);
  EXPECT_NE(import(&imported, 9999), CUDA_SUCCESS);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_NE(import(&imported, ends[0]), CUDA_SUCCESS);
  close(ends[0]);
  close(ends[1]);
  int file = memfd_create("not device memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(ftruncate(file, 8 << 20), 0);
  EXPECT_NE(import(&imported, file), CUDA_SUCCESS);
  fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
  EXPECT_NE(import(&imported, file), CUDA_SUCCESS);
  close(file);
}

}  // namespace
}  // namespace lambent::conformance
