// shim_bench: what the preloaded shim costs per driver call. Starts itself over the emulated driver
// (or the one given with --driver), bare and under the shim in each of its memory modes, and prints
// them beside each other; then what that comes to in programs whose calls it has counted.
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

#include "bench/shim_bench_programs.h"
#include "gpu/ledger/ledger.h"

namespace {

using Address = unsigned long long;
using Clock = std::chrono::steady_clock;

constexpr size_t kMiB = size_t{1} << 20;

struct Options {
  bool quick = false;
  std::string driver = LAMBENT_BINARY_DIR "/lib/emulated/libcuda.so.1";
  std::string shim = SHIM_LIBRARY;
};

struct Costs {
  double forward_ns = 0;
  double gated_ns = 0;
  double look_up_ns = 0;
  double alloc_us = 0;
};

constexpr Costs kUnknown{1e18, 1e18, 1e18, 1e18};

Costs best_of(const Costs& a, const Costs& b) {
  return {std::min(a.forward_ns, b.forward_ns), std::min(a.gated_ns, b.gated_ns),
          std::min(a.look_up_ns, b.look_up_ns), std::min(a.alloc_us, b.alloc_us)};
}

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
  const auto copy = found<int (*)(const void*)>(library, "cuMemcpy3D_v2");
  const auto allocate = found<int (*)(Address*, size_t)>(library, "cuMemAlloc_v2");
  const auto deallocate = found<int (*)(Address)>(library, "cuMemFree_v2");
  void* context = nullptr;
  int failed = found<int (*)(unsigned)>(library, "cuInit")(0);
  failed |= found<int (*)(void**, int)>(library, "cuDevicePrimaryCtxRetain")(&context, 0);
  failed |= found<int (*)(void*)>(library, "cuCtxSetCurrent")(context);
  if (failed != 0) return std::fprintf(stderr, "shim_bench: no device\n"), 1;

  const int rounds = quick ? 3 : 10;
  int number = 0;
  const double forward_ns = best_ns(rounds, 1'000'000, [&] { version(&number); });
  // A copy of nothing: the driver refuses it at once, but it has to pass the gate first.
  int copied = 0;
  const double gated_ns = best_ns(rounds, 1'000'000, [&] { copied |= copy(nullptr) == 0 ? 1 : 0; });
  if (copied != 0) return std::fprintf(stderr, "shim_bench: copied nothing\n"), 1;
  using LookUp = int (*)(const char*, void**, int, unsigned long long, int*);
  const auto look_up = found<LookUp>(library, "cuGetProcAddress_v2");
  int missing = 0;
  const double look_up_ns = best_ns(rounds, 20'000, [&] {
    void* function = nullptr;
    int why = 0;
    missing |= look_up("cuMemcpyHtoDAsync", &function, 12000, 0, &why);
  });
  if (missing != 0) return std::fprintf(stderr, "shim_bench: a function was not found\n"), 1;
  int refused = 0;
  const double alloc_ns = best_ns(rounds, quick ? 300 : 1000, [&] {
    Address address = 0;
    refused |= allocate(&address, 2 * kMiB);
    refused |= deallocate(address);
  });
  if (refused != 0) return std::fprintf(stderr, "shim_bench: an allocation failed\n"), 1;
  std::printf("%.3f %.3f %.3f %.3f\n", forward_ns, gated_ns, look_up_ns, alloc_ns / 1000);
  return 0;
}

Costs run_child(const Options& options, const char* self, const std::string& environment) {
  const std::string command =
      environment + " '" + self + "' --measure" + (options.quick ? " --quick" : "");
  FILE* child = popen(command.c_str(), "r");
  Costs costs;
  const int fields = std::fscanf(child, "%lf %lf %lf %lf", &costs.forward_ns, &costs.gated_ns,
                                 &costs.look_up_ns, &costs.alloc_us);
  if (pclose(child) != 0 || fields != 4) {
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
    } else if (word == "--shim" && i + 1 < count) {
      options.shim = words[++i];
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
  // What we were given to load, as in an archive with libraries of its own, our children are too.
  const char* given = getenv("LD_LIBRARY_PATH");
  const std::string common = "EMULATED_CUDA_NODE='" + (folder / "node").string() +
                             "' EMULATED_CUDA_CONFIG=tiny LD_LIBRARY_PATH='" + driver_folder +
                             (given == nullptr ? "" : ":" + std::string(given)) + "'";
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  // In turns, and the best of them: others are at work on the machine.
  Costs bare = kUnknown;
  Costs off = kUnknown;
  Costs vmm = kUnknown;
  const auto under_shim = [&](const std::string& mode) {
    return run_child(options, self.c_str(),
                     common + " LD_PRELOAD='" + options.shim + "' LAMBENT_SHIM_DRIVER='" +
                         options.driver + "' LAMBENT_SHIM_LEDGER='" + (folder / "ledger").string() +
                         "' LAMBENT_SHIM_MEMORY_MODE=" + mode);
  };
  for (int turn = 0; turn < 5; ++turn) {
    bare = best_of(bare, run_child(options, self.c_str(), common));
    off = best_of(off, under_shim("off"));
    vmm = best_of(vmm, under_shim("vmm"));
  }
  std::filesystem::remove_all(folder);

  std::printf("driver %s\n%-28s %10s %10s %10s\n", options.driver.c_str(), "", "bare", "off",
              "vmm");
  const auto row = [&](const char* name, double Costs::*cost, const char* unit) {
    std::printf("%-28s %10.2f %10.2f %10.2f  %s\n", name, bare.*cost, off.*cost, vmm.*cost, unit);
  };
  row("forwarded call", &Costs::forward_ns, "ns a call");
  row("call that passes the gate", &Costs::gated_ns, "ns a call");
  row("cuGetProcAddress", &Costs::look_up_ns, "ns a call");
  row("allocate and free 2 MiB", &Costs::alloc_us, "us a pair");
  const auto extra = [&](const Costs& shim) {
    return lambent::bench::ExtraCosts{
        shim.forward_ns - bare.forward_ns, shim.gated_ns - bare.gated_ns,
        shim.look_up_ns - bare.look_up_ns, (shim.alloc_us - bare.alloc_us) * 1000 / 2};
  };
  const auto programs =
      lambent::bench::count_programs(LAMBENT_BINARY_DIR "/tests/programs", driver_folder);
  std::printf(
      "{\"bench\":\"shim\",\"quick\":%s,\"forward_ns\":%.2f,\"bare_ns\":%.2f,\"gated_ns\":%.2f,"
      "\"bare_gated_ns\":%.2f,\"look_up_ns\":%.1f,\"bare_look_up_ns\":%.1f,\"alloc_us\":%.3f,"
      "\"bare_alloc_us\":%.3f,"
      "\"calls_times_extra_over_runtime_pct\":%s,\"vmm\":{\"forward_ns\":%.2f,\"gated_ns\":%.2f,"
      "\"alloc_us\":%.3f,\"calls_times_extra_over_runtime_pct\":%s}}\n",
      options.quick ? "true" : "false", off.forward_ns, bare.forward_ns, off.gated_ns,
      bare.gated_ns, off.look_up_ns, bare.look_up_ns, off.alloc_us, bare.alloc_us,
      lambent::bench::share_of_runtime(programs, extra(off)).c_str(), vmm.forward_ns, vmm.gated_ns,
      vmm.alloc_us, lambent::bench::share_of_runtime(programs, extra(vmm)).c_str());
  return 0;
}
