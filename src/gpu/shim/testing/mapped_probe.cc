// A program that uses memory in every way, over the emulated driver with the shim preloaded, and
// prints what it was told, one "name value" a line. Run by mapped_memory_test. usage: mapped_probe
// SCENARIO
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "gpu/cuda_abi/driver.h"

namespace {

constexpr size_t kMiB = size_t{1} << 20;
CUcontext context;
CUstream stream;

void must(int status) {
  if (status == 0) return;
  printf("failed %d\n", status);
  exit(90);
}

void begin() {
  must(cuInit(0));
  must(cuDevicePrimaryCtxRetain(&context, 0));
  must(cuCtxSetCurrent(context));
  must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

size_t used_mib() {
  size_t free_bytes = 0;
  size_t total = 0;
  must(cuMemGetInfo_v2(&free_bytes, &total));
  return (total - free_bytes + kMiB - 1) / kMiB;
}

CUdeviceptr allocate(size_t bytes) {
  CUdeviceptr address = 0;
  must(cuMemAlloc_v2(&address, bytes));
  return address;
}

bool holds(CUdeviceptr address, size_t bytes, unsigned char value) {
  std::vector<unsigned char> seen(bytes);
  if (cuMemcpyDtoH_v2(seen.data(), address, bytes) != 0) return false;
  for (const unsigned char byte : seen) {
    if (byte != value) return false;
  }
  return true;
}

template <typename Value>
Value attribute(CUpointer_attribute which, CUdeviceptr address) {
  Value value = {};
  must(cuPointerGetAttribute(&value, which, address));
  return value;
}

void print_range(const char* name, CUdeviceptr address) {
  CUdeviceptr base = 0;
  size_t bytes = 0;
  const int status = cuMemGetAddressRange_v2(&base, &bytes, address);
  printf("%s %d:%zu:%zu\n", name, status, status == 0 ? size_t{address - base} : 0, bytes);
}

// What the program is told of a small and of a large allocation.
void attributes_scenario() {
  const CUdeviceptr small = allocate(1000);
  const CUdeviceptr large = allocate(3 * kMiB + 5);
  print_range("small", small);
  print_range("small_last", small + 999);
  print_range("small_behind", small + 1000);
  print_range("large_inside", large + 12345);
  print_range("large_behind", large + 3 * kMiB + 5);
  printf("type %u\n", attribute<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, small));
  printf("managed %d\n", attribute<int>(CU_POINTER_ATTRIBUTE_IS_MANAGED, large));
  printf("ordinal %d\n", attribute<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, large));
  printf("own_context %d\n",
         attribute<CUcontext>(CU_POINTER_ATTRIBUTE_CONTEXT, small + 5) == context);
  printf("legacy_ipc %d\n", attribute<int>(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, large));
  printf("start %d\n",
         attribute<CUdeviceptr>(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, large + 9) == large);
  printf("size %zu\n", attribute<size_t>(CU_POINTER_ATTRIBUTE_RANGE_SIZE, large + 9));
  const auto number = attribute<unsigned long long>(CU_POINTER_ATTRIBUTE_BUFFER_ID, small);
  printf("numbers_differ %d\n",
         number != attribute<unsigned long long>(CU_POINTER_ATTRIBUTE_BUFFER_ID, large));
  int value = 77;
  printf("nothing_there %d\n",
         cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_IS_MANAGED, small + 5000));
  CUpointer_attribute many[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_HOST_POINTER,
                                CU_POINTER_ATTRIBUTE_RANGE_SIZE};
  unsigned type = 77;
  void* host = &value;
  size_t bytes = 77;
  void* answers[] = {&type, &host, &bytes};
  printf("many %d\n", cuPointerGetAttributes(3, many, answers, small + 1));
  printf("many_answers %u:%d:%zu\n", type, host == nullptr, bytes);
  printf("many_nothing %d\n", cuPointerGetAttributes(3, many, answers, small + 5000));
  printf("many_nothing_answers %u:%zu\n", type, bytes);
  CUipcMemHandle handle;
  printf("ipc %d\n", cuIpcGetMemHandle(&handle, large));
}

void nonsense_scenario() {
  CUdeviceptr address = 0;
  printf("nothing %d\n", cuMemAlloc_v2(&address, 0));
  printf("nowhere %d\n", cuMemAlloc_v2(nullptr, 5));
  printf("petabyte %d\n", cuMemAlloc_v2(&address, size_t{1} << 50));
  printf("most %d\n", cuMemAlloc_v2(&address, SIZE_MAX));
  size_t pitch = 0;
  printf("odd_element %d\n", cuMemAllocPitch_v2(&address, &pitch, 100, 5, 3));
  const CUdeviceptr small = allocate(1000);
  const CUdeviceptr large = allocate(8 * kMiB);
  printf("interior %d\n", cuMemFree_v2(small + 512));
  printf("interior_large %d\n", cuMemFree_v2(large + 2 * kMiB));
  printf("foreign %d\n", cuMemFree_v2(0x1234000));
  printf("null %d\n", cuMemFree_v2(0));
  printf("held %zu\n", used_mib());
  printf("freed %d\n", cuMemFree_v2(large));
  printf("freed_twice %d\n", cuMemFree_v2(large));
  printf("small_freed %d\n", cuMemFree_v2(small));
  printf("small_freed_twice %d\n", cuMemFree_v2(small));
  printf("freed_twice_in_stream %d\n", cuMemFreeAsync(small, stream));
  printf("left %zu\n", used_mib());
  must(cuCtxSetCurrent(nullptr));
  printf("no_context %d\n", cuMemAlloc_v2(&address, 1000));
}

sem_t reached;
sem_t go_on;
void hold(void*) {
  sem_post(&reached);
  sem_wait(&go_on);
}

// A stream that is held up has not got to the frees behind.
void streams_scenario() {
  CUstream other;
  must(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  CUdeviceptr a = 0;
  CUdeviceptr again = 0;
  CUdeviceptr elsewhere = 0;
  for (const size_t bytes : {size_t{1000}, 4 * kMiB}) {
    sem_init(&reached, 0, 0);
    sem_init(&go_on, 0, 0);
    must(cuMemAllocAsync(&a, bytes, stream));
    must(cuMemsetD8Async(a, 7, bytes, stream));
    must(cuLaunchHostFunc(stream, hold, nullptr));
    sem_wait(&reached);
    CUmemoryPool pool = nullptr;
    CUmemoryPool own = nullptr;
    must(cuDeviceGetDefaultMemPool(&own, 0));
    must(cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, a));
    must(cuMemFreeAsync(a, stream));
    const bool twice = cuMemFreeAsync(a, stream) == CUDA_ERROR_INVALID_VALUE;
    must(cuMemAllocAsync(&elsewhere, bytes, other));
    must(cuMemsetD8Async(elsewhere, 9, bytes, other));
    must(cuMemAllocAsync(&again, bytes, stream));
    sem_post(&go_on);
    must(cuCtxSynchronize());
    printf("pool %d\ntwice %d\n", pool == own, twice);
    printf("same_stream_same_place %d\n", again == a);
    printf("other_stream_other_place %d\n", elsewhere != a);
    printf("intact %d\n", holds(again, bytes, 7) && holds(elsewhere, bytes, 9));
    must(cuMemFree_v2(again));
    must(cuMemFreeAsync(elsewhere, other));
  }
  must(cuCtxSynchronize());
  printf("left %zu\n", used_mib());
}

void captures_scenario() {
  const CUdeviceptr before = allocate(1000);
  CUdeviceptr node = 0;
  CUdeviceptr plain = 0;
  must(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  printf("in_graph %d\n", cuMemAllocAsync(&node, kMiB, stream));
  must(cuMemsetD8Async(node, 5, kMiB, stream));
  printf("freed_meanwhile %d\n", cuMemFree_v2(before));
  printf("allocated_meanwhile %d\n", cuMemAlloc_v2(&plain, 1000));
  must(cuMemFreeAsync(node, stream));
  CUgraph graph = nullptr;
  printf("capture %d\n", cuStreamEndCapture(stream, &graph));
  size_t nodes = 0;
  must(cuGraphGetNodes(graph, nullptr, &nodes));
  printf("nodes %zu\n", nodes);
  must(cuMemFree_v2(plain));
  printf("freed_twice %d\n", cuMemFree_v2(before));
}

void contexts_scenario() {
  CUcontext other;
  must(cuCtxCreate_v2(&other, 0, 0));
  allocate(1000);
  allocate(16 * kMiB);
  printf("held %zu\n", used_mib());
  must(cuCtxDestroy_v2(other));
  must(cuCtxSetCurrent(context));
  printf("left %zu\n", used_mib());
}

// Each holds a few at a time and looks whether they are still what it made them.
void threads_scenario() {
  int broken[4] = {};
  std::vector<std::thread> threads;
  for (unsigned number = 0; number < 4; ++number) {
    threads.emplace_back([number, &broken] {
      must(cuCtxSetCurrent(context));
      struct Held {
        CUdeviceptr address = 0;
        size_t bytes = 0;
        unsigned char value = 0;
      } ring[6];
      unsigned seed = number + 1;
      for (unsigned step = 0; step < 300; ++step) {
        Held& held = ring[step % 6];
        if (held.bytes > 0) {
          if (!holds(held.address, held.bytes, held.value)) ++broken[number];
          must(cuMemFree_v2(held.address));
        }
        seed = seed * 1664525 + 1013904223;
        held.bytes = 1 + (seed >> 8) % (step % 4 == 0 ? 5 * kMiB : 5000);
        held.value = static_cast<unsigned char>(seed >> 3);
        held.address = allocate(held.bytes);
        must(cuMemsetD8_v2(held.address, held.value, held.bytes));
      }
      for (const Held& held : ring) must(cuMemFree_v2(held.address));
    });
  }
  for (std::thread& thread : threads) thread.join();
  printf("broken %d\n", broken[0] + broken[1] + broken[2] + broken[3]);
  printf("left %zu\n", used_mib());
}

// More than fits, but only if what streams have freed is not waited for.
void full_scenario() {
  CUdeviceptr address = 0;
  size_t free_bytes = 0;
  size_t total = 0;
  must(cuMemGetInfo_v2(&free_bytes, &total));
  const size_t most = free_bytes / 3 * 2;
  int failures = 0;
  for (int i = 0; i < 4; ++i) {
    if (cuMemAllocAsync(&address, most + i * 2 * kMiB, stream) != 0) ++failures;
    must(cuMemFreeAsync(address, stream));
  }
  printf("failures %d\n", failures);
  CUdeviceptr held = allocate(most);
  printf("too_much %d\n", cuMemAlloc_v2(&address, most));
  must(cuMemFree_v2(held));
  printf("room_again %d\n", cuMemAlloc_v2(&address, most));
}

void fork_scenario() {
  const CUdeviceptr address = allocate(1000);
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    CUdeviceptr own = 0;
    printf("child_frees %d\n", cuMemFree_v2(address) != 0);
    printf("child_allocates %d\n", cuMemAlloc_v2(&own, 1000) != 0);
    fflush(stdout);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  printf("child %d\n", status);
  printf("parent_frees %d\n", cuMemFree_v2(address));
}

}  // namespace

int main(int count, char** words) {
  if (count < 2) return 2;
  const struct {
    const char* name;
    void (*play)();
  } scenarios[] = {{"attributes", attributes_scenario},
                   {"nonsense", nonsense_scenario},
                   {"streams", streams_scenario},
                   {"captures", captures_scenario},
                   {"contexts", contexts_scenario},
                   {"threads", threads_scenario},
                   {"full", full_scenario},
                   {"fork", fork_scenario}};
  begin();
  for (const auto& scenario : scenarios) {
    if (strcmp(scenario.name, words[1]) == 0) return scenario.play(), 0;
  }
  return 2;
}
