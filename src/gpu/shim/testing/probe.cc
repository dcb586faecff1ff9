// A program as users have them: finds the driver in one of the usual ways, allocates, and prints
// what it was told, one "name value" a line. Run by shim_test with the shim preloaded. usage:
// shim_probe linked|dlsym|absolute|getproc|getproc_ptsz SCENARIO [LIBRARY]
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

using Address = unsigned long long;
constexpr size_t kMiB = size_t{1} << 20;

extern "C" {
int cuInit(unsigned);
int cuMemAlloc_v2(Address*, size_t);
int cuMemFree_v2(Address);
int cuMemGetInfo_v2(size_t*, size_t*);
int cuDeviceTotalMem_v2(size_t*, int);
int cuGetProcAddress_v2(const char*, void**, int, unsigned long long, int*);
}

namespace {

struct Driver {
  int (*init)(unsigned) = cuInit;
  int (*allocate)(Address*, size_t) = cuMemAlloc_v2;
  int (*deallocate)(Address) = cuMemFree_v2;
  int (*info)(size_t*, size_t*) = cuMemGetInfo_v2;
  int (*total)(size_t*, int) = cuDeviceTotalMem_v2;
};

template <typename Function>
void find_in(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) exit(90);
}

template <typename Function>
void ask_for(const char* name, Function& function) {
  void* address = nullptr;
  if (cuGetProcAddress_v2(name, &address, 12000, 0, nullptr) != 0) exit(91);
  function = reinterpret_cast<Function>(address);
}

Driver driver_by(const char* way, const char* library_path) {
  Driver driver;
  if (strcmp(way, "getproc") == 0) {
    ask_for("cuMemAlloc", driver.allocate);
    ask_for("cuMemFree", driver.deallocate);
    ask_for("cuMemGetInfo", driver.info);
    ask_for("cuDeviceTotalMem", driver.total);
  } else if (strcmp(way, "linked") != 0) {
    void* library = dlopen(strcmp(way, "dlsym") == 0 ? "libcuda.so.1" : library_path, RTLD_NOW);
    if (library == nullptr) exit(92);
    find_in(library, "cuInit", driver.init);
    find_in(library, "cuMemAlloc_v2", driver.allocate);
    find_in(library, "cuMemFree_v2", driver.deallocate);
    find_in(library, "cuMemGetInfo_v2", driver.info);
    find_in(library, "cuDeviceTotalMem_v2", driver.total);
  }
  return driver;
}

void print_memory(const Driver& driver) {
  size_t free_bytes = 0;
  size_t total = 0;
  size_t device_total = 0;
  driver.info(&free_bytes, &total);
  driver.total(&device_total, 0);
  printf("free %zu\ntotal %zu\ndevice_total %zu\n", free_bytes, total, device_total);
}

// Given a limit of 64 MiB: 40 fit, 40 more do not, after a free they do.
void limit_scenario(const Driver& driver) {
  Address first = 0;
  Address second = 0;
  printf("first %d\n", driver.allocate(&first, 40 * kMiB));
  printf("too_much %d\n", driver.allocate(&second, 40 * kMiB));
  print_memory(driver);
  printf("freed %d\n", driver.deallocate(first));
  printf("after_free %d\n", driver.allocate(&second, 40 * kMiB));
}

// The child of a program that already allocated starts afresh.
void fork_scenario(const Driver& driver) {
  Address address = 0;
  printf("parent %d\n", driver.allocate(&address, 30 * kMiB));
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    Address own = 0;
    printf("child %d\n", driver.allocate(&own, 30 * kMiB));
    printf("child_too_much %d\n", driver.allocate(&own, 30 * kMiB));
    // A free of the parent's address is not the child's to give back.
    driver.deallocate(address);
    printf("child_after_foreign_free %d\n", driver.allocate(&own, 30 * kMiB));
    fflush(stdout);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  printf("parent_again %d\n", driver.allocate(&address, 30 * kMiB));
}

void threads_scenario(const Driver& driver) {
  std::atomic<size_t> granted = 0;
  std::atomic<size_t> most = 0;
  std::atomic<int> denied = 0;
  const auto hammer = [&](unsigned seed) {
    // Each holds a few at a time, so that the limit is nearly always reached.
    struct Held {
      Address address = 0;
      size_t bytes = 0;
    } ring[4];
    for (int i = 0; i < 5000; ++i) {
      Held& held = ring[i % 4];
      if (held.bytes > 0) {
        granted.fetch_sub(held.bytes);
        driver.deallocate(held.address);
        held.bytes = 0;
      }
      seed = seed * 1664525 + 1013904223;
      const size_t bytes = (1 + (seed >> 8) % 24) * kMiB;
      if (driver.allocate(&held.address, bytes) != 0) {
        ++denied;
        continue;
      }
      held.bytes = bytes;
      const size_t now = granted.fetch_add(bytes) + bytes;
      size_t seen = most.load();
      while (seen < now && !most.compare_exchange_weak(seen, now)) {
      }
    }
    for (const Held& held : ring) {
      if (held.bytes == 0) continue;
      granted.fetch_sub(held.bytes);
      driver.deallocate(held.address);
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 8; ++i) threads.emplace_back(hammer, i);
  for (std::thread& thread : threads) thread.join();
  printf("passed_limit %d\nwas_denied %d\n", most > 64 * kMiB, denied > 0);
}

// How many of 100 MiB does this process get? Holds them until its input ends.
void hold_scenario(const Driver& driver) {
  int got = 0;
  for (int i = 0; i < 100; ++i) {
    Address address = 0;
    if (driver.allocate(&address, kMiB) == 0) ++got;
    usleep(100);
  }
  printf("got %d\n", got);
  fflush(stdout);
  char byte;
  while (read(0, &byte, 1) > 0) {
  }
}

// More than the device has, whatever the limit says.
void refused_scenario(const Driver& driver) {
  Address address = 0;
  printf("refused %d\n", driver.allocate(&address, size_t{20} << 30));
  printf("small %d\n", driver.allocate(&address, kMiB));
}

// A runtime that is newer than the shim, over a driver that is as new.
void newer_scenario(const Driver&) {
  for (const char* name : {"cuMemAllocTomorrow", "cuMemGetInfo", "cuMemFree"}) {
    void* address = nullptr;
    printf("%s %d\n", name, cuGetProcAddress_v2(name, &address, 14000, 0, nullptr));
  }
}

void killed_scenario(const Driver& driver) {
  Address address = 0;
  printf("held %d\n", driver.allocate(&address, 60 * kMiB));
  fflush(stdout);
  raise(SIGKILL);
}

}  // namespace

int main(int count, char** words) {
  if (count < 3) return 2;
  if (strcmp(words[2], "silent") == 0) return 0;
  const Driver driver = driver_by(words[1], count > 3 ? words[3] : nullptr);
  printf("init %d\n", driver.init(0));
  if (strcmp(words[2], "limit") == 0) limit_scenario(driver);
  if (strcmp(words[2], "fork") == 0) fork_scenario(driver);
  if (strcmp(words[2], "threads") == 0) threads_scenario(driver);
  if (strcmp(words[2], "hold") == 0) hold_scenario(driver);
  if (strcmp(words[2], "refused") == 0) refused_scenario(driver);
  if (strcmp(words[2], "newer") == 0) newer_scenario(driver);
  if (strcmp(words[2], "killed") == 0) killed_scenario(driver);
  return 0;
}
