// Libraries, linking, damaged images, and host code that stands behind images of GPU code.
#include <elf.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>
#include <set>

#include "conformance/fixture.h"

namespace lambent::conformance {
namespace {

class Libraries : public WithContext {
 protected:
  void SetUp() override {
    WithContext::SetUp();
    std::string why_not;
    image = kernel_image(&why_not);
    if (image.empty()) GTEST_SKIP() << why_not;
    OK(cu.library_load_data(&library, image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  }
  void TearDown() override {
    if (library) {
      EXPECT_EQ(cu.library_unload(library), CUDA_SUCCESS);
    }
    WithContext::TearDown();
  }
  CUkernel kernel(const char* name) {
    CUkernel found = nullptr;
    EXPECT_EQ(cu.library_get_kernel(&found, library, name), CUDA_SUCCESS) << name;
    return found;
  }
  int first_counter() {
    CUdeviceptr address = 0;
    size_t bytes = 0;
    int value = -1;
    EXPECT_EQ(cu.library_get_global(&address, &bytes, library, "counter"), CUDA_SUCCESS);
    EXPECT_EQ(cu.memcpy_d_to_h(&value, address, sizeof value), CUDA_SUCCESS);
    return value;
  }

  std::vector<char> image;
  CUlibrary library = nullptr;
};

TEST_F(Libraries, EachContextHasVariablesOfItsOwn) {
  CUdeviceptr here = 0, there = 0;
  OK(cu.library_get_global(&here, nullptr, library, "counter"));
  OK(cu.memset_d32(here, 77, 1));
  EXPECT_EQ(first_counter(), 77);
  CUcontext other = nullptr;
  OK(cu.ctx_create_v2(&other, 0, 0));
  OK(cu.library_get_global(&there, nullptr, library, "counter"));
  EXPECT_NE(here, there);
  EXPECT_EQ(first_counter(), 1);
  OK(cu.ctx_destroy(other));
  EXPECT_EQ(first_counter(), 77);
}

TEST_F(Libraries, OneKernelIsAFunctionInEachContext) {
  CUkernel count = kernel("count");
  CUfunction here = nullptr, again = nullptr, there = nullptr;
  OK(cu.kernel_get_function(&here, count));
  OK(cu.kernel_get_function(&again, count));
  EXPECT_EQ(here, again);
  CUcontext other = nullptr;
  OK(cu.ctx_create_v2(&other, 0, 0));
  OK(cu.kernel_get_function(&there, count));
  EXPECT_NE(here, there);
  CUdeviceptr blocks = allocate(4);
  OK(cu.memset_d32(blocks, 0, 1));
  void* parameters[] = {&blocks};
  OK(cu.launch_kernel(reinterpret_cast<CUfunction>(count), 3, 1, 1, 32, 1, 1, 0, nullptr,
                      parameters, nullptr));
  OK(cu.ctx_synchronize());
  if (!driver().model_mode) {
    unsigned counted = 0;
    OK(cu.memcpy_d_to_h(&counted, blocks, 4));
    EXPECT_EQ(counted, 3u);
  }
  OK(cu.ctx_destroy(other));
  CUmodule module = nullptr, of_function = nullptr;
  OK(cu.library_get_module(&module, library));
  OK(cu.func_get_module(&of_function, here));
  EXPECT_EQ(module, of_function);
  EXPECT_EQ(cu.module_unload(module), CUDA_ERROR_INVALID_HANDLE) << "it goes with its library";
}

TEST_F(Libraries, TellTheirKernels) {
  unsigned kernels = 0, functions = 0;
  OK(cu.library_get_kernel_count(&kernels, library));
  ASSERT_GE(kernels, 4u);
  std::vector<CUkernel> found(kernels + 1, nullptr);
  OK(cu.library_enumerate_kernels(found.data(), kernels + 1, library));
  EXPECT_EQ(found[kernels], nullptr);
  std::set<std::string> names;
  for (unsigned i = 0; i < kernels; i++) {
    const char* name = nullptr;
    CUlibrary owner = nullptr;
    OK(cu.kernel_get_name(&name, found[i]));
    OK(cu.kernel_get_library(&owner, found[i]));
    EXPECT_EQ(owner, library);
    names.insert(name);
  }
  EXPECT_EQ(names.size(), kernels);
  EXPECT_TRUE(names.count("add") && names.count("count"));
  EXPECT_TRUE(std::count(found.begin(), found.end(), kernel("add")));

  CUmodule module = nullptr;
  OK(cu.module_load_data(&module, image.data()));
  OK(cu.module_get_function_count(&functions, module));
  EXPECT_EQ(functions, kernels);
  CUfunction one = nullptr;
  OK(cu.module_enumerate_functions(&one, 1, module));
  EXPECT_NE(one, nullptr);
  OK(cu.module_unload(module));
}

TEST_F(Libraries, KernelsTellWhatTheyAreLike) {
  size_t offset = 99, bytes = 0;
  CUkernel add = kernel("add");
  OK(cu.kernel_get_param_info(add, 3, &offset, &bytes));
  EXPECT_EQ(offset, 24u);
  EXPECT_EQ(bytes, 4u);
  EXPECT_EQ(cu.kernel_get_param_info(add, 4, &offset, &bytes), CUDA_ERROR_INVALID_VALUE);
  int threads = 0, dynamic = 0;
  OK(cu.kernel_get_attribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, add, 0));
  EXPECT_EQ(threads, 1024);
  OK(cu.kernel_set_attribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1000, add, 0));
  OK(cu.kernel_get_attribute(&dynamic, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, add, 0));
  EXPECT_EQ(dynamic, 1000);
  CUfunction function = nullptr;
  OK(cu.kernel_get_function(&function, add));
  OK(cu.func_get_attribute(&dynamic, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, function));
  EXPECT_EQ(dynamic, 1000);
  OK(cu.kernel_set_cache_config(add, CU_FUNC_CACHE_PREFER_L1, 0));
  EXPECT_EQ(
      cu.kernel_set_attribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1 << 30, add, 0),
      CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.kernel_get_attribute(&threads, CU_FUNC_ATTRIBUTE_NUM_REGS, add, 1000),
            CUDA_ERROR_INVALID_DEVICE);
}

TEST_F(Libraries, WrongNamesAndStaleHandlesAreErrors) {
  CUkernel found = kernel("add");
  CUdeviceptr address = 0;
  size_t bytes = 0;
  const char* name = nullptr;
  void* function = nullptr;
  EXPECT_EQ(cu.library_get_kernel(&found, library, "nothing"), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(cu.library_get_kernel(nullptr, library, "add"), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.library_get_global(&address, &bytes, library, "nothing"), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(cu.library_get_managed(&address, &bytes, library, "counter"), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(cu.library_get_unified_function(&function, library, "add"), CUDA_ERROR_NOT_FOUND);
  CUlibrary gone = library;
  library = nullptr;
  OK(cu.library_unload(gone));
  EXPECT_EQ(cu.library_unload(gone), CUDA_ERROR_INVALID_HANDLE);
  EMULATOR_ONLY("a GPU's driver need not notice stale handles");
  EXPECT_EQ(cu.library_get_kernel(&found, gone, "add"), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cu.kernel_get_name(&name, found), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cu.launch_kernel(reinterpret_cast<CUfunction>(found), 1, 1, 1, 1, 1, 1, 0, nullptr,
                             nullptr, nullptr),
            CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(Libraries, WhatIsLinkedCanBeLoaded) {
  CUlinkState link = nullptr;
  void* linked = nullptr;
  size_t bytes = 0;
  OK(cu.link_create_v2(0, nullptr, nullptr, &link));
  auto type = driver().emulated ? CU_JIT_INPUT_OBJECT : CU_JIT_INPUT_PTX;
  OK(cu.link_add_data_v2(link, type, image.data(), image.size(), "kernels", 0, nullptr, nullptr));
  OK(cu.link_complete(link, &linked, &bytes));
  ASSERT_GT(bytes, 0u);
  CUmodule module = nullptr;
  CUfunction add = nullptr;
  OK(cu.module_load_data(&module, linked));
  OK(cu.module_get_function(&add, module, "add"));
  OK(cu.link_destroy(link));
  OK(cu.module_unload(module));
  EMULATOR_ONLY("a GPU's driver need not notice stale handles");
  EXPECT_EQ(cu.link_destroy(link), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cu.link_complete(link, &linked, &bytes), CUDA_ERROR_INVALID_HANDLE);
}

class Images : public WithContext {};

TEST_F(Images, GpuCodeWithoutHostCodeIsRefusedWithAdvice) {
  EMULATOR_ONLY("a GPU runs GPU code");
  char log[400] = "";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
  CUmodule module = nullptr;
  struct {
    Elf64_Ehdr header;
    Elf64_Shdr none;
  } cubin{};
  std::memcpy(cubin.header.e_ident, ELFMAG, SELFMAG);
  cubin.header.e_ident[EI_CLASS] = ELFCLASS64;
  cubin.header.e_machine = 190;  // NVIDIA's
  cubin.header.e_shoff = sizeof cubin.header;
  cubin.header.e_shnum = 1;
  cubin.header.e_shentsize = sizeof cubin.none;
  EXPECT_EQ(cu.module_load_data_ex(&module, &cubin, 2, options, values),
            CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_NE(std::strstr(log, "lambent-bundle host"), nullptr) << log;
  EXPECT_EQ(reinterpret_cast<size_t>(values[1]), std::strlen(log));
  auto unknown = static_cast<CUjit_option>(5000);
  EXPECT_EQ(cu.module_load_data_ex(&module, ".version 8.0", 1, &unknown, values),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.module_load_data_ex(&module, ".version 8.0", 1, nullptr, nullptr),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Images, GpuCodeRunsByTheHostCodeThatBelongsToTheProgram) {
  EMULATOR_ONLY("a GPU runs GPU code");
  std::string folder = host_module();
  folder.resize(folder.rfind('/'));
  for (const std::string& setting : {host_module(), folder}) {
    ASSERT_EQ(setenv("EMULATED_CUDA_KERNELS", (":/no/such/file:" + setting).c_str(), 1), 0);
    Peer peer;
    ASSERT_TRUE(peer.start("gpu_image"));
    unsetenv("EMULATED_CUDA_KERNELS");
    EXPECT_EQ(peer.wait_for_exit(), 0);
  }
}

// Only the parts that are not machine code: what code does nobody can check.
TEST_F(Images, DamagedOnesAreRefusedOrLoadButNeverCrash) {
  EMULATOR_ONLY("images of this kind are the emulator's");
  std::string why_not;
  const std::vector<char> whole = kernel_image(&why_not);
  if (whole.empty()) GTEST_SKIP() << why_not;
  const unsigned seed = 20261121;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  int refused = 0;
  for (int round = 0; round < 400; round++) {
    std::vector<char> image = whole;
    for (unsigned changes = 1 + random() % 3; changes > 0; changes--) {
      // The headers, the symbols, the relocations and the dynamic section of a linked object.
      const size_t at =
          random() % 2 ? random() % 64 : random() % std::min<size_t>(4096, image.size());
      image[at] = static_cast<char>(random());
    }
    CUmodule module = nullptr;
    CUresult result = cu.module_load_data(&module, image.data());
    if (result == CUDA_SUCCESS) {
      CUfunction function;
      cu.module_get_function(&function, module, "add");
      OK(cu.module_unload(module));
    } else {
      refused++;
    }
  }
  EXPECT_GT(refused, 100);
  for (size_t bytes : {size_t{64}, size_t{100}, whole.size() / 2}) {
    std::vector<char> cut(whole.begin(), whole.begin() + static_cast<long>(bytes));
    CUmodule module = nullptr;
    cut.resize(whole.size());
    EXPECT_EQ(cu.module_load_data(&module, cut.data()), CUDA_ERROR_INVALID_IMAGE);
  }
}

}  // namespace
}  // namespace lambent::conformance
