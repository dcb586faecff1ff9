// shim_bench: what the preloaded shim costs per driver call. Starts itself twice over the emulated
// driver (or the one given with --driver), once bare and once under the shim, and prints both
// beside each other.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "ledger/ledger.h"

namespace {

using Address = unsigned long long;
using Clock = std::chrono::steady_clock;

constexpr size_t kMiB = size_t{1} << 20;

struct Options {
  bool quick = false;
  std::string driver = LAMBENT_BINARY_DIR "/lib/emulated/libcuda.so.1";
};

struct Costs {
  double forward_ns = 0;
  double alloc_us = 0;
};

template <typename Function>
Function found(void* library, const char* name) {
  void* address = dlsym(library, name);
  if (address == nullptr) {
    std::fprintf(stderr, "shim_bench: the driver has no %s\n", name);
    std::exit(1);
  }
  return reinterpret_cast<Function>(address);
}

// The best of several rounds: what the code costs when nothing disturbs it.
template <typename Body>
double best_ns(int rounds, int times, Body body) {
  double best = 1e18;
  for (int round = 0; round < rounds; ++round) {
    const auto start = Clock::now();
    for (int i = 0; i < times; ++i) body();
    const std::chrono::duration<double, std::nano> took = Clock::now() - start;
    best = std::min(best, took.count() / times);
  }
  return best;
}

// Runs in the child: under the shim or not, the driver is found by its name.
int measure(bool quick) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) return std::fprintf(stderr, "shim_bench: %s\n", dlerror()), 1;
  const auto version = found<int (*)(int*)>(library, "cuDriverGetVersion");
  const auto allocate = found<int (*)(Address*, size_t)>(library, "cuMemAlloc_v2");
  const auto deallocate = found<int (*)(Address)>(library, "cuMemFree_v2");
  void* context = nullptr;
  int failed = found<int (*)(unsigned)>(library, "cuInit")(0);
  failed |= found<int (*)(void**, int)>(library, "cuDevicePrimaryCtxRetain")(&context, 0);
  failed |= found<int (*)(void*)>(library, "cuCtxSetCurrent")(context);
  if (failed != 0) return std::fprintf(stderr, "shim_bench: no device\n"), 1;

  const int rounds = quick ? 5 : 15;
  int number = 0;
  const double forward_ns = best_ns(rounds, 1'000'000, [&] { version(&number); });
  int refused = 0;
  const double alloc_ns = best_ns(rounds, quick ? 300 : 1000, [&] {
    Address address = 0;
    refused |= allocate(&address, 2 * kMiB);
    refused |= deallocate(address);
  });
  if (refused != 0) return std::fprintf(stderr, "shim_bench: an allocation failed\n"), 1;
  std::printf("%.3f %.3f\n", forward_ns, alloc_ns / 1000);
  return 0;
}

Costs run_child(const Options& options, const char* self, const std::string& environment) {
  const std::string command =
      environment + " '" + self + "' --measure" + (options.quick ? " --quick" : "");
  FILE* child = popen(command.c_str(), "r");
  Costs costs;
  const int fields = std::fscanf(child, "%lf %lf", &costs.forward_ns, &costs.alloc_us);
  if (pclose(child) != 0 || fields != 2) {
    std::fprintf(stderr, "shim_bench: failed: %s\n", command.c_str());
    std::exit(1);
  }
  return costs;
}

}  // namespace

int main(int count, char** words) {
  Options options;
  bool is_child = false;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word == "--quick") {
      options.quick = true;
    } else if (word == "--measure") {
      is_child = true;
    } else if (word == "--driver" && i + 1 < count) {
      options.driver = words[++i];
    } else {
      return std::fprintf(stderr, "usage: shim_bench [--quick] [--driver PATH_OF_LIBCUDA]\n"), 3;
    }
  }
  if (is_child) return measure(options.quick);

  char folder_name[] = "/tmp/shim_bench_XXXXXX";
  const std::filesystem::path folder = mkdtemp(folder_name);
  const auto ledger = lambent::ledger::create_ledger(folder / "ledger", lambent::Bytes::mib(512));
  if (!ledger.ok()) return std::fprintf(stderr, "%s\n", to_string(ledger.error()).c_str()), 1;
  const std::string driver_folder = std::filesystem::path(options.driver).parent_path();
  const std::string common = "EMULATED_CUDA_NODE='" + (folder / "node").string() +
                             "' EMULATED_CUDA_CONFIG=tiny LD_LIBRARY_PATH='" + driver_folder + "'";
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  const Costs bare = run_child(options, self.c_str(), common);
  const Costs shim =
      run_child(options, self.c_str(),
                common + " LD_PRELOAD='" SHIM_LIBRARY "' LAMBENT_SHIM_DRIVER='" + options.driver +
                    "' LAMBENT_SHIM_LEDGER='" + (folder / "ledger").string() + "'");
  std::filesystem::remove_all(folder);

  std::printf("driver %s\n%-28s %10s %10s\n", options.driver.c_str(), "", "bare", "shim");
  std::printf("%-28s %10.1f %10.1f  ns a call\n", "forwarded call", bare.forward_ns,
              shim.forward_ns);
  std::printf("%-28s %10.2f %10.2f  us a pair\n", "allocate and free 2 MiB", bare.alloc_us,
              shim.alloc_us);
  std::printf(
      "{\"bench\":\"shim\",\"quick\":%s,\"forward_ns\":%.2f,\"bare_ns\":%.2f,\"alloc_us\":%.3f,"
      "\"bare_alloc_us\":%.3f,\"calls_times_extra_over_runtime_pct\":null}\n",
      options.quick ? "true" : "false", shim.forward_ns, bare.forward_ns, shim.alloc_us,
      bare.alloc_us);
  return 0;
}
