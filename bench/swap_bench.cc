// swap_bench: how fast the shim moves a program's device memory to the host and back, beside plain
// copies of as many bytes between page-locked memory and the device in the same run. Plays the
// worker and lambent-device for programs of its own, over the emulated driver or a real one.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "bench/moved_program.h"
#include "bin/installation.h"

namespace {

using namespace lambent;
using namespace lambent::bench;

constexpr size_t kMiB = size_t{1} << 20;

struct Options {
  bool quick = false;
  bool real = false;
  std::string driver;  // empty: the emulated one
  Installation installation;
};

// ---- The programs whose memory is moved

// Best seconds of `rounds` for one copy of `bytes` in each direction, page-locked.
int measure_pinned(size_t bytes, int rounds) {
  Driver driver = open_driver();
  Address device = 0;
  void* host = nullptr;
  driver("cuMemAlloc_v2", &device, bytes);
  driver("cuMemHostAlloc", &host, bytes, 0U);
  double out = 1e9;
  double in = 1e9;
  for (int round = 0; round < rounds; ++round) {
    auto start = std::chrono::steady_clock::now();
    driver("cuMemcpyDtoH_v2", host, device, bytes);
    out = std::min(out, seconds_since(start));
    start = std::chrono::steady_clock::now();
    driver("cuMemcpyHtoD_v2", device, static_cast<const void*>(host), bytes);
    in = std::min(in, seconds_since(start));
  }
  std::printf("%.9f %.9f\n", out, in);
  return 0;
}

// Seconds until all of `bytes` of managed memory that lie on the host have been touched on the
// device, by its page faults alone: what sharing a device costs without moving memory ahead.
int measure_faults(size_t bytes, int rounds) {
  Driver driver = open_driver();
  Address managed = 0;
  driver("cuMemAllocManaged", &managed, bytes, 1U);
  double best = 1e9;
  for (int round = 0; round < rounds; ++round) {
    constexpr int kHost = -1;
    driver("cuMemPrefetchAsync", managed, bytes, kHost, static_cast<void*>(nullptr));
    driver("cuCtxSynchronize");
    const auto start = std::chrono::steady_clock::now();
    driver("cuMemsetD8_v2", managed, static_cast<unsigned char>(1), bytes);
    driver("cuCtxSynchronize");
    best = std::min(best, seconds_since(start));
  }
  std::printf("%.9f\n", best);
  return 0;
}

unsigned pattern_of(size_t piece) { return 0x9e3779b9U * static_cast<unsigned>(piece + 1); }

// Holds memory in pieces until it is told to look whether all of it is as it was.
int hold(size_t bytes, bool checks) {
  Driver driver = open_driver();
  const size_t piece_bytes = std::min<size_t>(bytes, 64 * kMiB);
  std::vector<Address> pieces(bytes / piece_bytes);
  for (size_t i = 0; i < pieces.size(); ++i) {
    driver("cuMemAlloc_v2", &pieces[i], piece_bytes);
    driver("cuMemsetD32_v2", pieces[i], pattern_of(i), piece_bytes / 4);
  }
  driver("cuCtxSynchronize");
  std::puts("ready");
  std::fflush(stdout);
  char word[16];
  while (std::fgets(word, sizeof(word), stdin) != nullptr) {
    std::vector<unsigned> read(piece_bytes / 4);
    for (size_t i = 0; checks && i < pieces.size(); ++i) {
      driver("cuMemcpyDtoH_v2", static_cast<void*>(read.data()), pieces[i], piece_bytes);
      const unsigned meant = pattern_of(i);
      if (std::any_of(read.begin(), read.end(), [=](unsigned one) { return one != meant; })) {
        std::fprintf(stderr, "swap_bench: piece %zu came back changed\n", i);
        return 1;
      }
    }
    std::puts("same");
    std::fflush(stdout);
  }
  return 0;
}

// ---- The other side

struct Row {
  size_t bytes = 0;
  double pinned_out_s = 0;
  double pinned_in_s = 0;
  double faults_s = 0;
  double first_out_s = 0;  // with leasing and registering the host memory
  double out_s = 0;
  double in_s = 0;
};

Row measure(const Options& options, const std::filesystem::path& folder, size_t bytes) {
  const int rounds = options.quick ? 3 : 7;
  const std::string size = std::to_string(bytes);
  std::vector<std::string> environment = {
      "LD_LIBRARY_PATH=" + std::filesystem::path(options.driver).parent_path().string()};
  if (!options.real) {
    environment.push_back("EMULATED_CUDA_NODE=" + (folder / "node").string());
    environment.push_back("EMULATED_CUDA_LAUNCH_MODE=model");
  }
  Row row{.bytes = bytes};
  {
    Child pinned({"swap_bench", "--pinned", size, std::to_string(rounds)}, environment);
    std::sscanf(pinned.line().c_str(), "%lf %lf", &row.pinned_out_s, &row.pinned_in_s);
  }
  {
    Child faults({"swap_bench", "--faults", size, "2"}, environment);
    row.faults_s = std::atof(faults.line().c_str());
  }
  Node node({.shim_folder = options.installation.shim(),
             .driver = options.driver,
             .limit = Bytes(2 * bytes),
             .host_memory = Bytes::gib(256)});
  for (const std::string& variable : node.variables()) environment.push_back(variable);
  Child program({"swap_bench", options.real ? "--hold" : "--hold-unchecked", size}, environment);
  node.line_of(program);
  node.wait_for_process();
  row.first_out_s = to_seconds(node.move(true).duration);
  row.in_s = to_seconds(node.move(false).duration);
  row.out_s = row.first_out_s;
  for (int round = 0; round < rounds; ++round) {
    row.out_s = std::min(row.out_s, to_seconds(node.move(true).duration));
    row.in_s = std::min(row.in_s, to_seconds(node.move(false).duration));
  }
  program.say("look\n");
  node.line_of(program);
  return row;
}

int usage() {
  return std::fprintf(stderr, "usage: swap_bench [--quick] [--real PATH_OF_LIBCUDA]\n"), 3;
}

}  // namespace

int main(int count, char** words) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const size_t bytes = i + 1 < count ? std::strtoull(words[i + 1], nullptr, 10) : 0;
    const int rounds = i + 2 < count ? std::atoi(words[i + 2]) : 1;
    if (word == "--pinned") return measure_pinned(bytes, rounds);
    if (word == "--faults") return measure_faults(bytes, rounds);
    if (word == "--hold") return hold(bytes, true);
    if (word == "--hold-unchecked") return hold(bytes, false);
    if (word == "--quick") {
      options.quick = true;
    } else if (word == "--real" && i + 1 < count) {
      options.real = true;
      options.driver = words[++i];
    } else {
      return usage();
    }
  }
  auto installation = find_installation();
  if (!installation.ok()) return std::fprintf(stderr, "swap_bench: not installed\n"), 1;
  options.installation = *installation;
  if (!options.real) options.driver = options.installation.emulated_driver() + "/libcuda.so.1";
  char folder_name[] = "/tmp/swap_bench_XXXXXX";
  const std::filesystem::path folder = mkdtemp(folder_name);
  if (!options.real) {
    const std::string create = "'" + options.installation.program("emulated-gpu") +
                               "' create --config h200 --memory-scale 32 --node '" +
                               (folder / "node").string() + "'";
    if (std::system(create.c_str()) != 0) return 1;
  }
  std::vector<size_t> sizes = {64 * kMiB, 256 * kMiB, 1024 * kMiB};
  if (!options.quick) sizes.push_back(4096 * kMiB);

  std::printf("%s\n%10s %12s %12s %12s %12s %12s %10s %10s %12s\n",
              options.real ? options.driver.c_str()
                           : "the emulated driver (H200 preset, modelled time: not a GPU's)",
              "MiB", "pinned out", "out", "first out", "pinned in", "in", "out share", "in share",
              "over faults");
  std::string out_json;
  std::string in_json;
  std::string stock_json;
  for (const size_t bytes : sizes) {
    const Row row = measure(options, folder, bytes);
    const double out_share = row.pinned_out_s / row.out_s;
    const double in_share = row.pinned_in_s / row.in_s;
    const double over_stock = row.in_s / row.faults_s;
    std::printf("%10zu %9.2f ms %9.2f ms %9.2f ms %9.2f ms %9.2f ms %10.3f %10.3f %12.3f\n",
                bytes / kMiB, row.pinned_out_s * 1e3, row.out_s * 1e3, row.first_out_s * 1e3,
                row.pinned_in_s * 1e3, row.in_s * 1e3, out_share, in_share, over_stock);
    char text[64];
    const auto add = [&](std::string& json, double value) {
      std::snprintf(text, sizeof(text), "%s\"%zu\":%.4f", json.empty() ? "" : ",", bytes, value);
      json += text;
    };
    add(out_json, out_share);
    add(in_json, in_share);
    add(stock_json, over_stock);
  }
  std::filesystem::remove_all(folder);
  std::printf(
      "{\"bench\":\"swap\",\"quick\":%s,\"emulated\":%s,\"out_share_of_pinned\":{%s},"
      "\"in_share_of_pinned\":{%s},\"prefetch_swap_over_stock\":{%s}}\n",
      options.quick ? "true" : "false", options.real ? "false" : "true", out_json.c_str(),
      in_json.c_str(), stock_json.c_str());
  return 0;
}
