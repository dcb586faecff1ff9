// A program whose device memory moves while it does what standard input says, one word a line, over
// the emulated driver with the shim preloaded. Run by moves_test. Prints one "name value" a line.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "gpu/cuda_abi/driver.h"

namespace {

constexpr size_t kMiB = size_t{1} << 20;
CUcontext context;
CUstream stream;
CUgraphExec graph;
CUdeviceptr graph_target;

void must(int status) {
  if (status == 0) return;
  printf("failed %d\n", status);
  fflush(stdout);
  _exit(90);
}

void say(const char* name, long long value) {
  printf("%s %lld\n", name, value);
  fflush(stdout);
}

long long now_ns() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

// Every word tells its place, so that no two pieces of memory look alike.
struct Piece {
  CUdeviceptr address;
  size_t words;
};
std::vector<Piece> pieces;

uint32_t word_at(const Piece& piece, size_t index) {
  return static_cast<uint32_t>((piece.address >> 9) * 2654435761u + index);
}

void fill(size_t bytes) {
  Piece piece{0, bytes / 4};
  must(cuMemAlloc_v2(&piece.address, bytes));
  std::vector<uint32_t> words(piece.words);
  for (size_t i = 0; i < words.size(); ++i) words[i] = word_at(piece, i);
  must(cuMemcpyHtoD_v2(piece.address, words.data(), piece.words * 4));
  pieces.push_back(piece);
}

// Sizes that lie singly, beside each other, and together in a block.
void fill_all() {
  for (const size_t bytes : {size_t{4000}, 70 * kMiB, size_t{512}, 2 * kMiB, 3 * kMiB + 4,
                             size_t{100000}, 40 * kMiB, kMiB}) {
    fill(bytes);
  }
  say("filled", static_cast<long long>(pieces.size()));
}

void check() {
  int broken = 0;
  for (const Piece& piece : pieces) {
    std::vector<uint32_t> words(piece.words);
    must(cuMemcpyDtoH_v2(words.data(), piece.address, piece.words * 4));
    for (size_t i = 0; i < words.size(); ++i) {
      if (words[i] != word_at(piece, i)) {
        ++broken;
        break;
      }
    }
  }
  say("broken", broken);
  say("checked", now_ns());
}

// Memory that the program makes and maps by itself: with a handle that is kept, with one that is
// released while it is mapped, in two places at once, and in a place that may not be used.
CUmemGenericAllocationHandle kept_handle = 0;
CUdeviceptr twin = 0;

CUmemAllocationProp exportable_memory() {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return properties;
}

void open_to_device(CUdeviceptr address, size_t bytes) {
  const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0},
                                  CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  must(cuMemSetAccess(address, bytes, &access, 1));
}

void map_own(CUdeviceptr place, size_t bytes, CUmemGenericAllocationHandle* handle) {
  const CUmemAllocationProp properties = exportable_memory();
  must(cuMemCreate(handle, bytes, &properties, 0));
  must(cuMemMap(place, bytes, 0, *handle, 0));
  open_to_device(place, bytes);
  Piece piece{place, bytes / 4};
  std::vector<uint32_t> words(piece.words);
  for (size_t i = 0; i < words.size(); ++i) words[i] = word_at(piece, i);
  must(cuMemcpyHtoD_v2(place, words.data(), bytes));
  pieces.push_back(piece);
}

void make_own() {
  CUdeviceptr place = 0;
  CUmemGenericAllocationHandle released = 0;
  must(cuMemAddressReserve(&place, 100 * kMiB, 0, 0, 0));
  map_own(place, 6 * kMiB, &kept_handle);
  map_own(place + 6 * kMiB, 34 * kMiB, &released);
  must(cuMemRelease(released));
  twin = place + 50 * kMiB;
  must(cuMemMap(twin, 6 * kMiB, 0, kept_handle, 0));
  must(cuMemMap(place + 60 * kMiB, 6 * kMiB, 0, kept_handle, 0));
  open_to_device(twin, 6 * kMiB);
  say("own", 1);
}

// What is written in one place is read in the other; the handle still names the memory.
void check_own() {
  const CUdeviceptr first = twin - 50 * kMiB;
  uint32_t word = 0;
  must(cuMemsetD32_v2(twin, 0xabcd, 1));
  must(cuMemcpyDtoH_v2(&word, first, 4));
  const bool is_one = word == 0xabcd;
  const uint32_t before = word_at(Piece{first, 1}, 0);
  must(cuMemcpyHtoD_v2(first, &before, 4));
  unsigned long long access = 9;
  const CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  must(cuMemGetAccess(&access, &here, twin + 10 * kMiB));
  CUmemGenericAllocationHandle again = 0;
  must(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(twin)));
  must(cuMemRelease(again));
  CUmemAllocationProp properties = {};
  must(cuMemGetAllocationPropertiesFromHandle(&properties, kept_handle));
  say("one_memory", is_one);
  say("closed", access == 0);
  say("same_handle", again == kept_handle && properties.location.id == 0);
}

void export_own() {
  int descriptor = -1;
  must(cuMemExportToShareableHandle(&descriptor, kept_handle,
                                    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  say("exported", descriptor >= 0);
}

void free_own() {
  const CUdeviceptr place = twin - 50 * kMiB;
  must(cuMemUnmap(place, 40 * kMiB));
  must(cuMemUnmap(twin, 6 * kMiB));
  must(cuMemUnmap(twin + 10 * kMiB, 6 * kMiB));
  must(cuMemRelease(kept_handle));
  const bool twice = cuMemRelease(kept_handle) == CUDA_ERROR_INVALID_VALUE;
  must(cuMemAddressFree(place, 100 * kMiB));
  pieces.clear();
  say("freed_own", twice);
}

// A graph that was made before a move is launched after it.
void make_graph() {
  must(cuMemAlloc_v2(&graph_target, 4096));
  CUgraph description = nullptr;
  must(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  must(cuMemsetD32Async(graph_target, 0x5eed, 1024, stream));
  must(cuStreamEndCapture(stream, &description));
  must(cuGraphInstantiateWithFlags(&graph, description, 0));
  say("graph", 1);
}

void launch_graph() {
  uint32_t words[1024];
  must(cuGraphLaunch(graph, stream));
  must(cuStreamSynchronize(stream));
  must(cuMemcpyDtoH_v2(words, graph_target, sizeof(words)));
  must(cuMemsetD32_v2(graph_target, 0, 1024));
  say("launched", words[0] == 0x5eed && words[1023] == 0x5eed);
}

// Threads that allocate, write, read and free until they are told to stop.
std::atomic<bool> stop_hammering = false;
std::atomic<long long> rounds = 0;
std::atomic<int> broken_rounds = 0;
std::vector<std::thread> hammers;

void hammer(unsigned number) {
  must(cuCtxSetCurrent(context));
  CUstream own;
  must(cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
  unsigned seed = number;
  while (!stop_hammering) {
    seed = seed * 1664525 + 1013904223;
    const size_t bytes = 1 + (seed >> 8) % (seed % 5 == 0 ? 3 * kMiB : 3000);
    const auto value = static_cast<unsigned char>(seed >> 3);
    CUdeviceptr address = 0;
    const bool in_stream = (seed >> 5) % 2 == 0;
    must(in_stream ? cuMemAllocAsync(&address, bytes, own) : cuMemAlloc_v2(&address, bytes));
    must(cuMemsetD8Async(address, value, bytes, own));
    unsigned char last = 0;
    must(cuMemcpyDtoHAsync_v2(&last, address + bytes - 1, 1, own));
    must(cuStreamSynchronize(own));
    if (last != value) ++broken_rounds;
    must(in_stream ? cuMemFreeAsync(address, own) : cuMemFree_v2(address));
    ++rounds;
  }
}

void start_hammering() {
  for (unsigned number = 0; number < 3; ++number) hammers.emplace_back(hammer, number + 1);
  say("hammering", 1);
}

void some_rounds() {
  const long long before = rounds;
  while (rounds < before + 5) sched_yield();
  say("rounds", rounds - before);
}

void end_hammering() {
  stop_hammering = true;
  for (std::thread& thread : hammers) thread.join();
  say("broken_rounds", broken_rounds);
}

void fork_child() {
  const pid_t child = fork();
  if (child == 0) {
    // The child has no device and no agent; its gate is open, so it is told so at once.
    CUdeviceptr address = 0;
    _exit(cuMemAlloc_v2(&address, 1000) != 0 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  say("child", status);
}

// A child that outlives its parent: it ends when standard input does.
void leave_a_child() {
  if (fork() == 0) {
    close(1);
    close(2);
    char byte = 0;
    while (read(0, &byte, 1) > 0) {
    }
    _exit(0);
  }
  say("left", 1);
}

// As a program does that closes all descriptors which it has not opened itself.
void close_sockets() {
  int closed = 0;
  for (int descriptor = 3; descriptor < 1024; ++descriptor) {
    struct stat status = {};
    if (fstat(descriptor, &status) != 0 || !S_ISSOCK(status.st_mode)) continue;
    close(descriptor);
    ++closed;
  }
  say("closed", closed);
}

void free_all() {
  for (const Piece& piece : pieces) must(cuMemFree_v2(piece.address));
  pieces.clear();
  say("freed", now_ns());
}

void report_free() {
  size_t free_bytes = 0;
  size_t total = 0;
  must(cuMemGetInfo_v2(&free_bytes, &total));
  say("free_mib", static_cast<long long>(free_bytes / kMiB));
}

// Another tenant: takes all of the device but so much.
CUdeviceptr taken = 0;
void take_all_but(size_t mib) {
  size_t free_bytes = 0;
  size_t total = 0;
  must(cuMemGetInfo_v2(&free_bytes, &total));
  must(cuMemAlloc_v2(&taken, (free_bytes / kMiB - mib) * kMiB));
  say("took", 1);
}

void give_all_back() {
  must(cuMemFree_v2(taken));
  say("gave", 1);
}

// What follows is done on another device, in its primary context.
void go_on_with_device(int device) {
  must(cuDevicePrimaryCtxRetain(&context, device));
  must(cuCtxSetCurrent(context));
  must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  say("on_device", device);
}

void make_array() {
  CUDA_ARRAY_DESCRIPTOR shape = {1024, 1024, CU_AD_FORMAT_UNSIGNED_INT8, 1};
  CUarray array = nullptr;
  must(cuArrayCreate_v2(&array, &shape));
  say("array", 1);
}

}  // namespace

void use_the_driver() {
  CUcontext same = nullptr;
  must(cuDevicePrimaryCtxRetain(&same, 0));
  say("entered", 1);
}

int main(int count, char** words) {
  must(cuInit(0));
  if (count > 1 && strcmp(words[1], "by_two_threads") == 0) {
    std::thread other(use_the_driver);
    use_the_driver();
    other.join();
  }
  must(cuDevicePrimaryCtxRetain(&context, 0));
  must(cuCtxSetCurrent(context));
  must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  say("ready", 1);
  const struct {
    const char* word;
    void (*act)();
  } acts[] = {{"fill", fill_all},
              {"check", check},
              {"graph", make_graph},
              {"launch", launch_graph},
              {"hammer", start_hammering},
              {"rounds", some_rounds},
              {"end_hammering", end_hammering},
              {"fork", fork_child},
              {"leave_a_child", leave_a_child},
              {"close_sockets", close_sockets},
              {"free", free_all},
              {"report", report_free},
              {"give_back", give_all_back},
              {"array", make_array},
              {"own", make_own},
              {"check_own", check_own},
              {"export_own", export_own},
              {"free_own", free_own}};
  char line[128];
  while (fgets(line, sizeof(line), stdin) != nullptr) {
    line[strcspn(line, "\n")] = '\0';
    if (strncmp(line, "take_all_but ", 13) == 0) take_all_but(strtoul(line + 13, nullptr, 10));
    if (strncmp(line, "device ", 7) == 0) go_on_with_device(atoi(line + 7));
    if (strcmp(line, "exit") == 0) exit(0);
    if (strcmp(line, "exec") == 0) execl("/bin/true", "true", nullptr);
    for (const auto& act : acts) {
      if (strcmp(line, act.word) == 0) act.act();
    }
  }
  for (std::thread& thread : hammers) {
    if (thread.joinable()) thread.detach();
  }
  fflush(stdout);
  _exit(0);
}
