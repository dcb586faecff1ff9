#include <cstring>

#include "conformance/fixture.h"

namespace lambent::conformance {
namespace {

class Devices : public testing::Test {
 protected:
  Driver& cu = driver();
};

TEST_F(Devices, ThereIsAtLeastOneAndItSaysWhatItIs) {
  int count = 0, major = 0, version = 0;
  CUdevice device = -1;
  char name[96] = "";
  size_t bytes = 0;
  OK(cu.driver_get_version(&version));
  EXPECT_GE(version, 12000);
  OK(cu.device_get_count(&count));
  EXPECT_GE(count, 1);
  OK(cu.device_get(&device, 0));
  OK(cu.device_get_name(name, sizeof name, device));
  EXPECT_GT(std::strlen(name), 3u);
  OK(cu.device_total_mem(&bytes, device));
  EXPECT_GE(bytes, size_t{1} << 30);
  OK(cu.device_get_attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
  EXPECT_GE(major, 5);
  int unified = 0;
  OK(cu.device_get_attribute(&unified, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, device));
  EXPECT_EQ(unified, 1);
}

// What the emulated driver does, its devices say that they can, and the other way round.
TEST_F(Devices, AttributesSayWhatIsEmulated) {
  EMULATOR_ONLY("a GPU can do other things");
  auto attribute = [&](CUdevice_attribute which) {
    int value = -7;
    EXPECT_EQ(cu.device_get_attribute(&value, which, 0), CUDA_SUCCESS) << which;
    return value;
  };
  for (CUdevice_attribute able :
       {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS,
        CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR,
        CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY}) {
    EXPECT_EQ(attribute(able), 1) << able;
  }
  for (CUdevice_attribute unable :
       {CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED}) {
    EXPECT_EQ(attribute(unable), 0) << unable;
  }
}

TEST_F(Devices, WrongOrdinalsAndNullPointersAreErrors) {
  CUdevice device;
  int value;
  EXPECT_EQ(cu.device_get(&device, 1000), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cu.device_get(&device, -1), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cu.device_get_count(nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.device_get_attribute(&value, static_cast<CUdevice_attribute>(100000), 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.init(7), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Devices, ThePciBusIdLeadsBackToTheDevice) {
  char id[32];
  CUdevice device = -1;
  OK(cu.device_get_pci_bus_id(id, sizeof id, 0));
  OK(cu.device_get_by_pci_bus_id(&device, id));
  EXPECT_EQ(device, 0);
  EXPECT_EQ(cu.device_get_pci_bus_id(id, 3, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Devices, ErrorsHaveNamesAndTexts) {
  const char* text = nullptr;
  OK(cu.get_error_name(CUDA_ERROR_OUT_OF_MEMORY, &text));
  EXPECT_STREQ(text, "CUDA_ERROR_OUT_OF_MEMORY");
  OK(cu.get_error_string(CUDA_ERROR_OUT_OF_MEMORY, &text));
  EXPECT_STREQ(text, "out of memory");
  EXPECT_EQ(cu.get_error_name(static_cast<CUresult>(12345), &text), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Devices, GetProcAddressKnowsNamesVersionsAndFlags) {
  using Status = CUdriverProcAddressQueryResult;
  void *old_abi = nullptr, *new_abi = nullptr, *own = nullptr, *none = nullptr;
  Status status;
  OK(cu.get_proc_address_v2("cuMemAlloc", &old_abi, 3000, 0, &status));
  OK(cu.get_proc_address_v2("cuMemAlloc", &new_abi, 13000, 0, &status));
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SUCCESS);
  EXPECT_NE(old_abi, new_abi);
  OK(cu.get_proc_address_v2("cuStreamSynchronize", &own, 13000,
                            CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status));
  OK(cu.get_proc_address_v2("cuStreamSynchronize", &none, 13000, 0, &status));
  EXPECT_NE(own, none);
  cu.get_proc_address_v2("cuNothingOfTheKind", &none, 13000, 0, &status);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  EXPECT_EQ(none, nullptr);
  cu.get_proc_address_v2("cuGreenCtxCreate", &none, 11000, 0, &status);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  auto count = reinterpret_cast<CUresult (*)(int*)>(old_abi);
  OK(cu.get_proc_address("cuDeviceGetCount", reinterpret_cast<void**>(&count), 13000, 0));
  int devices = 0;
  OK(count(&devices));
  EXPECT_GE(devices, 1);
}

TEST_F(Devices, WhatIsNotEmulatedIsRefusedByAClearCode) {
  EMULATOR_ONLY("a GPU has these functions");
  using Function = CUresult (*)(void);
  for (const char* name : {"cuMulticastCreate", "cuTensorMapEncodeTiled", "cuTexRefCreate"}) {
    Function function = nullptr;
    OK(cu.get_proc_address(name, reinterpret_cast<void**>(&function), 13000, 0));
    ASSERT_NE(function, nullptr) << name;
    EXPECT_EQ(function(), CUDA_ERROR_NOT_SUPPORTED) << name;
  }
}

TEST_F(Devices, ContextsFormAStackOfTheThread) {
  CUcontext a = nullptr, b = nullptr, now = nullptr;
  OK(cu.ctx_create_v2(&a, 0, 0));
  OK(cu.ctx_create_v4(&b, nullptr, CU_CTX_SCHED_SPIN, 0));
  OK(cu.ctx_get_current(&now));
  EXPECT_EQ(now, b);
  unsigned flags = 0;
  OK(cu.ctx_get_flags(&flags));
  EXPECT_EQ(flags & CU_CTX_SCHED_MASK, unsigned{CU_CTX_SCHED_SPIN});
  OK(cu.ctx_destroy(b));
  OK(cu.ctx_get_current(&now));
  EXPECT_EQ(now, a);
  OK(cu.ctx_pop_current(&now));
  EXPECT_EQ(now, a);
  CUdeviceptr address;
  EXPECT_EQ(cu.mem_alloc(&address, 64), CUDA_ERROR_INVALID_CONTEXT);
  OK(cu.ctx_push_current(a));
  OK(cu.ctx_synchronize());
  OK(cu.ctx_destroy(a));
}

// Calls that CUDA gave up long ago, which some programs still make.
TEST_F(Devices, AContextLivesUntilItsLastUserDetaches) {
  CUresult (*attach)(CUcontext*, unsigned) = nullptr;
  CUresult (*detach)(CUcontext) = nullptr;
  OK(cu.get_proc_address("cuCtxAttach", reinterpret_cast<void**>(&attach), 12000, 0));
  OK(cu.get_proc_address("cuCtxDetach", reinterpret_cast<void**>(&detach), 12000, 0));
  CUcontext context = nullptr, again = nullptr, current = nullptr;
  OK(cu.ctx_create_v2(&context, 0, 0));
  OK(attach(&again, 0));
  EXPECT_EQ(again, context);
  EXPECT_EQ(attach(&again, 1), CUDA_ERROR_INVALID_VALUE);
  OK(detach(context));
  OK(cu.ctx_get_current(&current));
  EXPECT_EQ(current, context);
  OK(detach(context));
  EXPECT_EQ(detach(context), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(attach(&again, 0), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(Devices, ThePrimaryContextLivesWhileItIsRetained) {
  CUcontext first = nullptr, second = nullptr;
  unsigned flags;
  int active;
  OK(cu.device_primary_ctx_retain(&first, 0));
  OK(cu.device_primary_ctx_retain(&second, 0));
  EXPECT_EQ(first, second);
  OK(cu.device_primary_ctx_release(0));
  OK(cu.device_primary_ctx_get_state(0, &flags, &active));
  EXPECT_EQ(active, 1);
  OK(cu.device_primary_ctx_release(0));
  OK(cu.device_primary_ctx_get_state(0, &flags, &active));
  EXPECT_EQ(active, 0);
  EXPECT_NE(cu.device_primary_ctx_release(0), CUDA_SUCCESS);
}

}  // namespace
}  // namespace lambent::conformance
