// transfer_bench: what the order of copies over a device's link is worth, on an emulated V100 in
// model mode: a cold request that computes while its weights arrive, and a small request beside
// another function's load. Times are the device's, which runs slower here than a real one, so that
// the host's own copies do not decide.
//
// transfer_bench [--quick]
#include <sys/mman.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "executor_under_test.h"

namespace {

using namespace lambent;
using namespace lambent::bench;
using Json = nlohmann::ordered_json;

const std::string kBundle = LAMBENT_BINARY_DIR "/bench/transfer/layer";
// Of the device's seconds in one of ours.
constexpr double kTimeScale = 1.0 / 64;

std::string number(uint64_t value) { return std::to_string(value); }

// A row of layers, each with weights and a bias; its graph and its files, which have holes
// but for a number.
struct Model {
  uint64_t layers = 0;
  Bytes weights;       // of a layer
  Duration compute{};  // of a layer
  Bytes input = Bytes(4);

  Bytes size() const { return (weights + Bytes::kib(4)) * layers; }
  std::string graph() const {
    std::string buffers = tensor("x", "input", input) + "," + tensor("s", "output", Bytes(4));
    std::string steps = step("x", layers == 0 ? compute : Duration(0));
    for (uint64_t i = 0; i < layers; ++i) {
      for (const auto& [kind, bytes] : {std::pair("w", weights), std::pair("b", Bytes::kib(4))}) {
        const std::string name = kind + number(i);
        buffers += "," + tensor(name, "constant", bytes, R"(, "file": ")" + name + "\"");
        steps += "," + step(name, *kind == 'w' ? compute : Duration(0));
      }
    }
    return R"({"buffers": [)" + buffers + R"(], "steps": [)" + steps + "]}";
  }
  std::vector<std::pair<std::string, OwnedFd>> files() const {
    std::vector<std::pair<std::string, OwnedFd>> files;
    for (uint64_t i = 0; i < layers; ++i) {
      for (const auto& [kind, bytes] : {std::pair("w", weights), std::pair("b", Bytes::kib(4))}) {
        OwnedFd file(memfd_create("weights", MFD_CLOEXEC));
        if (ftruncate(file.get(), static_cast<off_t>(bytes.count)) != 0) std::exit(1);
        // No two are the same, or they would lie on the device once.
        static uint64_t mark = 0;
        if (pwrite(file.get(), &++mark, sizeof(mark), 0) != sizeof(mark)) std::exit(1);
        files.emplace_back(kind + number(i), std::move(file));
      }
    }
    return files;
  }

 private:
  static std::string tensor(const std::string& name, const std::string& role, Bytes bytes,
                            const std::string& more = "") {
    return R"({"name": ")" + name + R"(", "role": ")" + role +
           R"(", "datatype": "FP32", "shape": [)" + number(bytes.count / 4) + "]" + more + "}";
  }
  static std::string step(const std::string& reads, Duration time) {
    return R"({"kernel": "layer", "bundle": "bundles/k", "grid": [1], "block": [32], "arguments": [
      {"buffer": ")" +
           reads + R"(", "access": "read"}, {"buffer": "s"}, {"literal": )" +
           number(static_cast<uint64_t>(time.count())) + R"(, "datatype": "UINT64"}]})";
  }
};

class Device {
 public:
  // An executor with these words on its command line, on a device of its own.
  explicit Device(const std::vector<std::string>& words)
      : folder_(folder()), executor_(folder_, false, words) {}
  ~Device() { std::filesystem::remove_all(folder_); }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // The device's milliseconds until the instance is ready.
  double add_ms(uint64_t instance, const Model& model) {
    const auto files = model.files();
    ExecutorUnderTest::InstanceOptions options;
    options.memory = model.size() + model.input * 2 + Bytes::mib(8 + 4 * model.layers);
    options.modelled = true;
    for (const auto& [name, file] : files) options.files.emplace_back(name, file.get());
    return device_ms(executor_.add_instance_us(instance, kBundle, model.graph(), options));
  }
  double run_ms(uint64_t instance, const Model& model) {
    const Instant begin = SystemClock().now();
    ask(instance, model);
    answer();
    return device_ms(microseconds_since(begin));
  }
  void ask(uint64_t instance, const Model& model) {
    executor_.ask(instance, std::string(model.input.count, '\0'));
  }
  // Whose request has ended.
  uint64_t answer() {
    const auto finished = executor_.receive<protocol::Finished>();
    if (finished.error) must(*finished.error, "a request");
    return finished.invocation.low;
  }
  static double device_ms(double us) { return us / 1e3 * kTimeScale; }

 private:
  static std::string folder() {
    char name[] = "/tmp/transfer_bench_XXXXXX";
    return mkdtemp(name);
  }

  const std::string folder_;
  ExecutorUnderTest executor_;
};

// From the package to the first answer, with constants first and with both at once.
Json cold(const Model& model) {
  const Model small{.layers = 1, .weights = Bytes::kib(4)};
  Json result = {{"mib", model.size().count >> 20}};
  for (const bool pipelined : {false, true}) {
    Device device(pipelined ? std::vector<std::string>()
                            : std::vector<std::string>{"--no-pipelining"});
    device.add_ms(1, small);  // the bundle is loaded, the context warm
    device.run_ms(1, small);
    const Instant begin = SystemClock().now();
    const double ready_ms = device.add_ms(2, model);
    device.run_ms(2, model);
    const double cold_ms = Device::device_ms(microseconds_since(begin));
    if (pipelined) {
      result["pipelined_ms"] = cold_ms;
      continue;
    }
    result["load_ms"] = ready_ms;
    result["compute_ms"] = device.run_ms(2, model);
    result["whole_ms"] = cold_ms;
  }
  const double load_ms = result["load_ms"], compute_ms = result["compute_ms"];
  result["sum_ms"] = load_ms + compute_ms;
  result["max_ms"] = std::max(load_ms, compute_ms);
  result["over_max"] = result["pipelined_ms"].get<double>() / std::max(load_ms, compute_ms);
  return result;
}

// A warm function's requests, with an input of 1 MiB, while another function is loaded.
Json beside_a_load(const Model& large, const std::vector<std::string>& words) {
  const Model small{.compute = microseconds(100), .input = Bytes::mib(1)};
  Device device(words);
  device.add_ms(1, small);
  std::vector<double> alone, beside;
  for (int i = 0; i < 6; ++i) alone.push_back(device.run_ms(1, small));
  device.add_ms(2, large);
  const Instant begin = SystemClock().now();
  device.ask(2, large);
  double load_ms = 0;
  for (bool loads = true; loads;) {
    const Instant asked = SystemClock().now();
    device.ask(1, small);
    for (int answers = 0;;) {
      if (device.answer() == 1) break;
      loads = false;
      load_ms = Device::device_ms(microseconds_since(begin));
      if (++answers > 1) std::exit(1);
    }
    beside.push_back(Device::device_ms(microseconds_since(asked)));
  }
  return {{"alone_ms", quantile(alone, 0.5)},
          {"beside_ms", quantile(beside, 0.5)},
          {"beside_most_ms", quantile(beside, 1)},
          {"requests", beside.size()},
          {"load_ms", load_ms}};
}

void prepare() {
  std::ifstream preset(LAMBENT_BINARY_DIR "/lib/emulated/presets/v100-16gb.toml");
  std::stringstream text;
  text << preset.rdbuf();
  std::string config = text.str();
  // Contexts are there before anything is measured: they need not take their time.
  for (const auto& [key, value] :
       {std::pair("time_scale = ", std::to_string(kTimeScale)),
        std::pair("init_us = ", std::string("0")), std::pair("context_us = ", std::string("0"))}) {
    const size_t found = config.find(key);
    if (found == std::string::npos) must(Error{ErrorCode::kNotFound, key}, "the preset");
    const size_t at = found + strlen(key);
    config.replace(at, config.find_first_of(" \n", at) - at, value);
  }
  const std::string path =
      "/tmp/transfer_bench-" + number(static_cast<uint64_t>(getpid())) + ".toml";
  must(write_file_atomically(path, config, false), "a file");
  setenv("EMULATED_CUDA_CONFIG", path.c_str(), 1);
}

}  // namespace

int main(int count, char** words) {
  const bool quick = count == 2 && strcmp(words[1], "--quick") == 0;
  if (count > 1 && !quick) return std::fprintf(stderr, "usage: transfer_bench [--quick]\n"), 3;
  double machine_load = 0;
  std::ifstream("/proc/loadavg") >> machine_load;
  prepare();
  const uint64_t layers = quick ? 4 : 24;
  const Bytes weights = Bytes::mib(8);
  // 8 MiB take 0.7 ms over this link.
  Json result = {{"bench", "transfer"}, {"quick", quick}, {"emulated", true}};
  std::printf("%-22s %9s %9s %9s %9s %9s\n", "cold request, ms", "load", "compute", "whole",
              "pipelined", "over max");
  for (const auto& [name, compute_us] :
       {std::pair("compute_bound", 1400), std::pair("balanced", 700),
        std::pair("load_bound", 200)}) {
    const Json row = cold({layers, weights, microseconds(compute_us)});
    result["cold"][name] = row;
    std::printf("%-22s %9.2f %9.2f %9.2f %9.2f %9.2f\n", name, row["load_ms"].get<double>(),
                row["compute_ms"].get<double>(), row["whole_ms"].get<double>(),
                row["pipelined_ms"].get<double>(), row["over_max"].get<double>());
  }
  std::printf("%-22s %9s %9s %9s %9s\n", "small beside load, ms", "alone", "beside", "most",
              "load");
  const std::vector<std::pair<const char*, std::vector<std::string>>> orders = {
      {"in_turn", {}},
      {"first_come", {"--first-come"}},
      {"batch_of_all", {"--transfer-batch", "0"}},
      {"blocks_of_16_kib", {"--transfer-block-kib", "16"}},
      {"not_fused", {"--no-fusing"}}};
  const Model large{layers * 2, weights, microseconds(10)};
  for (const auto& [name, options] : orders) {
    const Json row = beside_a_load(large, options);
    result["beside"][name] = row;
    std::printf("%-22s %9.2f %9.2f %9.2f %9.2f\n", name, row["alone_ms"].get<double>(),
                row["beside_ms"].get<double>(), row["beside_most_ms"].get<double>(),
                row["load_ms"].get<double>());
  }
  std::remove(getenv("EMULATED_CUDA_CONFIG"));
  result["machine"] = {{"cores", std::thread::hardware_concurrency()},
                       {"load_1min_at_start", machine_load}};
  std::printf("%s\n", result.dump().c_str());
  return 0;
}
