// What the other process does in the cases with two: it says 'r' when it is ready, waits for a
// byte, and so on.
#include <elf.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "conformance/fixture.h"
#include "conformance/ptx.h"

namespace lambent::conformance {

namespace {

void say(char byte) {
  if (write(1, &byte, 1) != 1) _exit(9);
}
char hear() {
  char byte = 0;
  return read(0, &byte, 1) == 1 ? byte : '\0';
}

#define NEED(call) \
  if ((call) != CUDA_SUCCESS) return 4

// Holds 128 MiB until told to leave; perhaps leaves a child behind that outlives it.
int hold(bool with_child) {
  Driver& cu = driver();
  CUcontext context;
  CUdeviceptr address;
  NEED(cu.ctx_create_v2(&context, 0, 0));
  NEED(cu.mem_alloc(&address, 128 << 20));
  if (with_child && fork() == 0) {
    int count = 0;
    say(cu.device_get_count(&count) == CUDA_ERROR_NOT_INITIALIZED ? 'c' : 'x');
    while (hear() != '\0') {
    }
    _exit(0);
  }
  if (!with_child) say('r');
  if (with_child) pause();
  hear();
  return 0;
}

// Loads a module of PTX on two threads at a time and runs its kernel; the result is how that went.
int run_ptx() {
  Driver& cu = driver();
  CUcontext context;
  if (CUresult result = cu.ctx_create_v2(&context, 0, 0)) return result;
  const int value = std::atoi(std::getenv("CONFORMANCE_PTX_VALUE"));
  const std::string text = ptx_storing("store", value);
  CUmodule modules[2] = {};
  CUresult results[2] = {};
  const auto load = [&](int number) {
    cu.ctx_set_current(context);
    results[number] = cu.module_load_data(&modules[number], text.c_str());
  };
  std::thread other(load, 1);
  load(0);
  other.join();
  if (results[0] != CUDA_SUCCESS || results[1] != CUDA_SUCCESS) return results[0];
  CUfunction function;
  CUdeviceptr out;
  int stored = 0;
  void* parameters[] = {&out};
  const bool ran = cu.module_get_function(&function, modules[1], "store") == CUDA_SUCCESS &&
                   cu.mem_alloc(&out, 4) == CUDA_SUCCESS &&
                   cu.launch_kernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr) ==
                       CUDA_SUCCESS &&
                   cu.memcpy_d_to_h(&stored, out, 4) == CUDA_SUCCESS;
  return ran && (stored == value || driver().model_mode) ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

// Host code beside the program has a kernel `add`, and not what else is in this PTX.
int run_ptx_beside() {
  Driver& cu = driver();
  CUcontext context;
  CUmodule module;
  CUdeviceptr address;
  CUfunction function;
  CUlinkState link;
  size_t bytes;
  void* linked;
  NEED(cu.ctx_create_v2(&context, 0, 0));
  const std::string variable = ptx_module(".visible .global .align 4 .u32 number = 5;\n");
  NEED(cu.module_load_data(&module, variable.c_str()));
  NEED(cu.module_get_global(&address, &bytes, module, "number"));
  int number = 0;
  NEED(cu.memcpy_d_to_h(&number, address, sizeof number));
  if (number != 5) return 4;

  std::string texts[] = {ptx_module(".visible .entry add() { ret; }"), ptx_storing("not_beside", 6),
                         variable};
  NEED(cu.link_create_v2(0, nullptr, nullptr, &link));
  for (std::string& text : texts) {
    NEED(cu.link_add_data_v2(link, CU_JIT_INPUT_PTX, text.data(), text.size() + 1, "part", 0,
                             nullptr, nullptr));
  }
  NEED(cu.link_complete(link, &linked, &bytes));
  NEED(cu.module_load_data(&module, linked));
  NEED(cu.module_get_function(&function, module, "add"));
  NEED(cu.module_get_function(&function, module, "not_beside"));
  NEED(cu.module_get_global(&address, &bytes, module, "number"));

  // GPU code in binary form comes from beside the program, with which nothing is linked.
  Elf64_Ehdr cubin{};
  std::memcpy(cubin.e_ident, ELFMAG, SELFMAG);
  cubin.e_ident[EI_CLASS] = ELFCLASS64;
  cubin.e_machine = 190;  // NVIDIA's
  NEED(cu.link_create_v2(0, nullptr, nullptr, &link));
  NEED(cu.link_add_data_v2(link, CU_JIT_INPUT_CUBIN, &cubin, sizeof cubin, "code", 0, nullptr,
                           nullptr));
  NEED(cu.link_add_data_v2(link, CU_JIT_INPUT_PTX, texts[0].data(), texts[0].size() + 1, "part", 0,
                           nullptr, nullptr));
  NEED(cu.link_complete(link, &linked, &bytes));
  NEED(cu.link_create_v2(0, nullptr, nullptr, &link));
  NEED(cu.link_add_data_v2(link, CU_JIT_INPUT_CUBIN, &cubin, sizeof cubin, "code", 0, nullptr,
                           nullptr));
  NEED(cu.link_add_data_v2(link, CU_JIT_INPUT_PTX, texts[1].data(), texts[1].size() + 1, "part", 0,
                           nullptr, nullptr));
  return cu.link_complete(link, &linked, &bytes) == CUDA_ERROR_NOT_SUPPORTED ? 0 : 5;
}

// Runs a kernel of an image that holds nothing but GPU code.
int run_gpu_image() {
  Driver& cu = driver();
  CUcontext context;
  CUmodule module;
  CUfunction add;
  CUdeviceptr memory;
  NEED(cu.ctx_create_v2(&context, 0, 0));
  NEED(cu.module_load_data(&module, ptx_module(".visible .entry add() { ret; }").c_str()));
  NEED(cu.module_get_function(&add, module, "add"));
  NEED(cu.mem_alloc(&memory, 32 * sizeof(float)));
  const float one = 1.0f;
  unsigned bits;
  std::memcpy(&bits, &one, sizeof bits);
  NEED(cu.memset_d32(memory, bits, 32));
  int count = 32;
  void* parameters[] = {&memory, &memory, &memory, &count};
  NEED(cu.launch_kernel(add, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr));
  float sums[32];
  NEED(cu.memcpy_d_to_h(sums, memory, sizeof sums));
  if (driver().model_mode) return 0;
  for (float sum : sums) {
    if (sum != 2.0f) return 6;
  }
  return 0;
}

// Occupies the device with one long kernel, or with one that never ends.
int occupy(bool endless) {
  Driver& cu = driver();
  CUcontext context;
  CUmodule module;
  CUfunction busy;
  std::string why_not;
  auto image = kernel_image(&why_not);
  if (image.empty()) return 5;
  NEED(cu.ctx_create_v2(&context, 0, 0));
  NEED(cu.module_load_data(&module, image.data()));
  NEED(cu.module_get_function(&busy, module, endless ? "endless" : "busy"));
  CUstream stream;
  CUevent under_way;
  NEED(cu.stream_create(&stream, CU_STREAM_NON_BLOCKING));
  NEED(cu.event_create(&under_way, CU_EVENT_DISABLE_TIMING));
  uint64_t ns = 2'000'000'000;
  void* parameters[] = {&ns};
  Gate gate;
  NEED(gate.close(stream));
  NEED(cu.event_record(under_way, stream));
  NEED(cu.launch_kernel(busy, 1000, 1, 1, 256, 1, 1, 0, stream, parameters, nullptr));
  gate.open();
  NEED(cu.event_synchronize(under_way));  // the kernel begins there: nobody overtakes it
  say('r');
  hear();
  if (endless) NEED(cu.ctx_synchronize());
  _exit(0);
}

// Allocates, copies, launches and frees without end, to be killed at any moment.
int churn() {
  Driver& cu = driver();
  CUcontext context;
  CUmodule module;
  CUfunction busy;
  std::string why_not;
  auto image = kernel_image(&why_not);
  if (image.empty()) return 5;
  NEED(cu.ctx_create_v2(&context, 0, 0));
  NEED(cu.module_load_data(&module, image.data()));
  NEED(cu.module_get_function(&busy, module, "busy"));
  std::vector<char> host(1 << 20);
  say('r');
  for (;;) {
    CUdeviceptr address;
    uint64_t ns = 200'000;
    void* parameters[] = {&ns};
    NEED(cu.mem_alloc(&address, 8 << 20));
    NEED(cu.memcpy_h_to_d(address, host.data(), host.size()));
    NEED(cu.launch_kernel(busy, 64, 1, 1, 256, 1, 1, 0, nullptr, parameters, nullptr));
    NEED(cu.memcpy_d_to_h(host.data(), address, host.size()));
    NEED(cu.mem_free(address));
  }
}

// Imports memory that was sent as a descriptor, checks what is written there, writes its own, and
// holds on to it until told to leave.
int import_memory() {
  Driver& cu = driver();
  constexpr size_t kBytes = 4 << 20;
  CUcontext context;
  CUmemGenericAllocationHandle handle;
  CUdeviceptr address;
  NEED(cu.ctx_create_v2(&context, 0, 0));
  say('r');
  int descriptor = receive_descriptor(0);
  NEED(cu.mem_import_from_shareable_handle(
      &handle, reinterpret_cast<void*>(static_cast<intptr_t>(descriptor)),
      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  close(descriptor);
  CUmemAllocationProp properties{};
  NEED(cu.mem_get_allocation_properties_from_handle(&properties, handle));
  if (properties.location.type != CU_MEM_LOCATION_TYPE_DEVICE || properties.location.id != 0) {
    return 6;
  }
  NEED(cu.mem_address_reserve(&address, kBytes, 0, 0, 0));
  NEED(cu.mem_map(address, kBytes, 0, handle, 0));
  NEED(cu.mem_release(handle));
  CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  NEED(cu.mem_set_access(address, kBytes, &access, 1));
  uint32_t word = 0;
  NEED(cu.memcpy_d_to_h(&word, address + kBytes - 4, 4));
  if (word != 0x600DF00D) return 7;
  NEED(cu.memset_d32(address, 0xCAFE, 1));
  NEED(cu.ctx_synchronize());
  say('w');
  hear();
  return 0;
}

// Imports a pool that was sent as a descriptor and one pointer into it, checks what is written
// there and writes its own.
int import_pool() {
  Driver& cu = driver();
  CUcontext context;
  CUmemoryPool pool;
  CUdeviceptr address;
  CUmemPoolPtrExportData data;
  NEED(cu.ctx_create_v2(&context, 0, 0));
  say('r');
  int descriptor = receive_descriptor(0);
  NEED(cu.mem_pool_import_from_shareable_handle(
      &pool, reinterpret_cast<void*>(static_cast<intptr_t>(descriptor)),
      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  close(descriptor);
  // Its access can be asked for and set, as of a pool of one's own.
  CUmemLocation home{CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  NEED(cu.mem_pool_get_access(&flags, pool, &home));
  if (flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) return 10;
  const CUmemAccessDesc wanted{home, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  NEED(cu.mem_pool_set_access(pool, &wanted, 1));
  if (read(0, &data, sizeof data) != sizeof data) return 5;
  NEED(cu.mem_pool_import_pointer(&address, pool, &data));
  uint32_t word = 0;
  NEED(cu.memcpy_d_to_h(&word, address + 996, 4));
  if (word != 0x600DF00D) return 7;
  if (cu.mem_alloc_from_pool_async(&address, 100, pool, nullptr) == CUDA_SUCCESS) return 8;
  NEED(cu.memset_d32(address, 0xCAFE, 1));
  NEED(cu.ctx_synchronize());
  NEED(cu.mem_free(address));
  if (cu.mem_free(address) != CUDA_ERROR_INVALID_VALUE) return 9;
  NEED(cu.mem_pool_destroy(pool));
  if (cu.mem_pool_get_access(&flags, pool, &home) != CUDA_ERROR_INVALID_VALUE) return 11;
  say('w');
  hear();
  return 0;
}

// Opens memory by a handle, checks what is written there and writes its own.
int open_memory() {
  Driver& cu = driver();
  CUcontext context;
  CUipcMemHandle handle;
  CUdeviceptr address, again;
  NEED(cu.ctx_create_v2(&context, 0, 0));
  say('r');
  if (read(0, &handle, sizeof handle) != sizeof handle) return 5;
  NEED(cu.ipc_open_mem_handle(&address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  uint32_t word = 0;
  NEED(cu.memcpy_d_to_h(&word, address + 996, 4));
  if (word != 0x600DF00D) return 7;
  NEED(cu.memset_d32(address, 0xCAFE, 1));
  NEED(cu.ctx_synchronize());
  NEED(cu.ipc_open_mem_handle(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  if (again != address || cu.mem_free(address) == CUDA_SUCCESS) return 8;
  NEED(cu.ipc_close_mem_handle(address));
  NEED(cu.memcpy_d_to_h(&word, address, 4));
  NEED(cu.ipc_close_mem_handle(address));
  if (cu.ipc_close_mem_handle(address) == CUDA_SUCCESS) return 9;
  say('w');
  hear();
  if (cu.ipc_open_mem_handle(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) == CUDA_SUCCESS &&
      driver().emulated) {
    return 10;  // freed by its owner meanwhile
  }
  say('g');
  return 0;
}

// Opens memory of the first device in a context on the second one, and closes it while work runs.
int open_memory_of_a_peer() {
  Driver& cu = driver();
  CUcontext context;
  CUipcMemHandle handle;
  CUdeviceptr address;
  CUstream stream;
  NEED(cu.ctx_create_v2(&context, 0, 1));
  NEED(cu.stream_create(&stream, CU_STREAM_NON_BLOCKING));
  say('r');
  if (read(0, &handle, sizeof handle) != sizeof handle) return 5;
  NEED(cu.ipc_open_mem_handle(&address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  LateWork work;
  NEED(work.submit(stream));
  return work.is_waited_for([&] { return cu.ipc_close_mem_handle(address); }) ? 0 : 7;
}

// Opens an event by a handle, waits for it, then records it behind a gate until told.
int open_event() {
  Driver& cu = driver();
  CUcontext context;
  CUipcEventHandle handle;
  CUevent event;
  CUstream stream;
  NEED(cu.ctx_create_v2(&context, 0, 0));
  NEED(cu.stream_create(&stream, CU_STREAM_NON_BLOCKING));
  say('r');
  if (read(0, &handle, sizeof handle) != sizeof handle) return 5;
  NEED(cu.ipc_open_event_handle(&event, handle));
  CUipcEventHandle again;
  if (cu.ipc_get_event_handle(&again, event) == CUDA_SUCCESS) return 6;  // not its to hand on
  NEED(cu.stream_wait_event(stream, event, 0));
  say('n');
  NEED(cu.stream_synchronize(stream));
  NEED(cu.event_query(event));
  NEED(cu.event_synchronize(event));
  say('d');
  hear();
  Gate gate;
  NEED(gate.close(stream));
  NEED(cu.event_record(event, stream));
  if (cu.event_query(event) != CUDA_ERROR_NOT_READY) return 7;
  say('s');
  hear();
  gate.open();
  NEED(cu.event_synchronize(event));
  NEED(cu.event_destroy(event));
  return 0;
}

}  // namespace

int play(const std::string& role) {
  if (role == "hold") return hold(false);
  if (role == "hold_and_fork") return hold(true);
  if (role == "occupy") return occupy(false);
  if (role == "endless") return occupy(true);
  if (role == "churn") return churn();
  if (role == "checkpoint") return play_checkpoint();
  if (role.starts_with("node_")) return play_node(role);
  if (role == "gpu_image") return run_gpu_image();
  if (role == "ptx") return run_ptx();
  if (role == "ptx_beside") return run_ptx_beside();
  if (role.starts_with("faults_")) return play_faults(role);
  if (role == "import_memory") return import_memory();
  if (role == "import_pool") return import_pool();
  if (role == "open_memory") return open_memory();
  if (role == "open_memory_of_a_peer") return open_memory_of_a_peer();
  if (role == "open_event") return open_event();
  return 3;
}

}  // namespace lambent::conformance
