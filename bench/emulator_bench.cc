// emulator_bench: how far the emulated GPU's clock is from its own model, and what its calls cost.
// Starts itself as child processes over the emulated driver and prints their figures side by side.
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "emulator/emulated_node/machine.h"
#include "gpu/cuda/driver.h"

namespace {

using Json = nlohmann::ordered_json;
using lambent::cuda::Driver;

constexpr size_t kMiB = size_t{1} << 20;
constexpr const char* kPreset = "v100-16gb";
constexpr const char* kKernelImage =
    LAMBENT_BINARY_DIR "/share/lambent/kernels/occupy/host-x86_64.so";

double now_s() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
}

void must(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "emulator_bench: %s: result %d\n", what, static_cast<int>(result));
  std::exit(1);
}

// Keeps a stream shut until everything is submitted, so that how fast this program submits does not
// count.
struct Gate {
  std::atomic<int> is_open{0};
  static void wait(void* gate) { static_cast<Gate*>(gate)->is_open.wait(0); }
  void open() {
    is_open = 1;
    is_open.notify_all();
  }
};

// One process's view of the emulated device, with the kernel that lasts as long as it is told.
struct Device {
  std::unique_ptr<Driver> driver;
  CUcontext context = nullptr;
  CUfunction occupy = nullptr;

  Device() {
    auto loaded = Driver::load();
    if (!loaded.ok()) {
      std::fprintf(stderr, "emulator_bench: %s\n", to_string(loaded.error()).c_str());
      std::exit(1);
    }
    driver = std::move(loaded).value();
    must(cu().device_primary_ctx_retain(&context, 0), "context");
    must(cu().ctx_set_current(context), "context");
    CUmodule module = nullptr;
    must(cu().module_load(&module, kKernelImage), "module");
    must(cu().module_get_function(&occupy, module, "occupy"), "kernel");
  }

  const lambent::cuda::DriverFunctions& cu() const { return *driver->operator->(); }

  // Takes `duration_ns` of virtual time; the grid is wide enough for every multiprocessor.
  void launch(unsigned long long duration_ns, CUstream stream = nullptr) const {
    void* parameters[] = {&duration_ns};
    must(cu().launch_kernel(occupy, 65536, 1, 1, 128, 1, 1, 0, stream, parameters, nullptr),
         "launch");
  }
  CUevent event() const {
    CUevent made = nullptr;
    must(cu().event_create(&made, 0), "event");
    return made;
  }
  CUstream stream() const {
    CUstream made = nullptr;
    must(cu().stream_create(&made, CU_STREAM_NON_BLOCKING), "stream");
    return made;
  }
  double elapsed_ns(CUevent from, CUevent to) const {
    float milliseconds = 0;
    must(cu().event_elapsed_time_v2(&milliseconds, from, to), "elapsed time");
    return 1e6 * static_cast<double>(milliseconds);
  }
};

// The best of several rounds: what a call costs when nothing disturbs it.
double best_ns(int rounds, int times, const std::function<void()>& body) {
  double best = 1e18;
  for (int round = 0; round < rounds; round++) {
    const double begin_s = now_s();
    for (int i = 0; i < times; i++) body();
    best = std::min(best, (now_s() - begin_s) * 1e9 / times);
  }
  return best;
}

Json role_calls(bool quick) {
  Device device;
  const auto& cu = device.cu();
  const int rounds = quick ? 3 : 9;
  const int times = quick ? 200 : 1000;
  CUevent event = device.event();
  CUstream stream = device.stream();
  CUdeviceptr buffer = 0;
  must(cu.mem_alloc(&buffer, kMiB), "allocation");
  void* pinned = nullptr;
  must(cu.mem_host_alloc(&pinned, kMiB, 0), "pinned memory");
  Json costs;
  auto measure = [&](const char* name, const std::function<void()>& body) {
    costs[name] = best_ns(rounds, times, body);
  };
  measure("cuCtxGetCurrent", [&] {
    CUcontext current;
    must(cu.ctx_get_current(&current), "cuCtxGetCurrent");
  });
  measure("cuPointerGetAttribute", [&] {
    unsigned type;
    must(cu.pointer_get_attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, buffer), "attribute");
  });
  measure("cuMemGetInfo", [&] {
    size_t free, total;
    must(cu.mem_get_info(&free, &total), "cuMemGetInfo");
  });
  measure("cuMemAlloc+Free 64 KiB", [&] {
    CUdeviceptr address;
    must(cu.mem_alloc(&address, 65536), "cuMemAlloc");
    must(cu.mem_free(address), "cuMemFree");
  });
  measure("cuMemAlloc+Free 64 MiB", [&] {
    CUdeviceptr address;
    must(cu.mem_alloc(&address, 64 * kMiB), "cuMemAlloc");
    must(cu.mem_free(address), "cuMemFree");
  });
  measure("cuStreamCreate+Destroy", [&] {
    CUstream made;
    must(cu.stream_create(&made, 1), "cuStreamCreate");
    must(cu.stream_destroy(made), "cuStreamDestroy");
  });
  // Submitting alone: the stream is held shut meanwhile, and drained outside of the measurement.
  auto submit_alone = [&](const char* name, const std::function<void()>& body) {
    double best = 1e18;
    for (int round = 0; round < rounds; round++) {
      Gate gate;
      must(cu.launch_host_func(stream, Gate::wait, &gate), "gate");
      const double begin_s = now_s();
      for (int i = 0; i < times; i++) body();
      best = std::min(best, (now_s() - begin_s) * 1e9 / times);
      gate.open();
      must(cu.stream_synchronize(stream), "drain");
    }
    costs[name] = best;
  };
  submit_alone("cuLaunchKernel, submitted", [&] { device.launch(1000, stream); });
  submit_alone("cuEventRecord, submitted",
               [&] { must(cu.event_record(event, stream), "cuEventRecord"); });
  submit_alone("cuMemcpyHtoDAsync 4 B, submitted",
               [&] { must(cu.memcpy_h_to_d_async(buffer, pinned, 4, stream), "copy"); });
  measure("cuLaunchKernel+Synchronize", [&] {
    device.launch(1, stream);
    must(cu.stream_synchronize(stream), "cuStreamSynchronize");
  });
  measure("cuMemcpyHtoD 4 B", [&] { must(cu.memcpy_h_to_d(buffer, pinned, 4), "copy"); });
  return costs;
}

// Kernels one after the other: what the events say, and when the program hears of it.
Json role_kernels(double time_scale, bool quick) {
  constexpr unsigned long long kFirst_ns = 50'000;
  Device device;
  Json rows = Json::array();
  for (double duration_us : {50.0, 200.0, 1000.0, 5000.0, 20000.0}) {
    const auto duration_ns = static_cast<unsigned long long>(duration_us * 1e3);
    const double span_s = duration_us * 1e-6 / time_scale;
    const int times = std::clamp(static_cast<int>((quick ? 0.2 : 2.0) / span_s), 5, 300);
    std::vector<double> event_error_ns, late_us;
    CUevent begin = device.event(), end = device.event();
    CUstream stream = device.stream();
    for (int i = 0; i < times; i++) {
      Gate gate;
      must(device.cu().launch_host_func(stream, Gate::wait, &gate), "gate");
      device.launch(kFirst_ns, stream);  // covers the other one's launch overhead
      must(device.cu().event_record(begin, stream), "record");
      device.launch(duration_ns, stream);
      must(device.cu().event_record(end, stream), "record");
      const double begin_s = now_s();
      gate.open();
      must(device.cu().event_synchronize(end), "synchronize");
      late_us.push_back((now_s() - begin_s - span_s - kFirst_ns * 1e-9 / time_scale) * 1e6);
      event_error_ns.push_back(
          std::abs(device.elapsed_ns(begin, end) - static_cast<double>(duration_ns)));
    }
    rows.push_back({{"modelled_us", duration_us},
                    {"event_error_max_ns", quantile(event_error_ns, 1)},
                    {"wall_error_p50_us", quantile(late_us, 0.5)},
                    {"wall_error_p99_us", quantile(late_us, 0.99)},
                    {"wall_error_p50_pct", 100 * quantile(late_us, 0.5) / (span_s * 1e6)}});
  }
  return rows;
}

// Keeps the device busy with kernels and counts what ended within the window.
Json role_contender(double duration_us, double from_s, double until_s) {
  Device device;
  CUstream stream = device.stream();
  const auto duration_ns = static_cast<unsigned long long>(duration_us * 1e3);
  constexpr int kAhead = 4;  // the stream never runs dry
  std::vector<CUevent> events;
  for (int i = 0; i < kAhead; i++) events.push_back(device.event());
  int counted = 0;
  for (int i = 0; i < kAhead; i++) {
    device.launch(duration_ns, stream);
    must(device.cu().event_record(events[i], stream), "record");
  }
  for (int i = 0; now_s() < until_s; i++) {
    must(device.cu().event_synchronize(events[i % kAhead]), "synchronize");
    const double at_s = now_s();
    if (at_s >= from_s && at_s < until_s) counted++;
    device.launch(duration_ns, stream);
    must(device.cu().event_record(events[i % kAhead], stream), "record");
  }
  return {{"count", counted}};
}

// Copies without end and counts the bytes that arrived within the window.
Json role_copier(size_t bytes, double from_s, double until_s) {
  Device device;
  CUdeviceptr target = 0;
  void* source = nullptr;
  must(device.cu().mem_alloc(&target, bytes), "allocation");
  must(device.cu().mem_host_alloc(&source, bytes, 0), "pinned memory");
  int counted = 0;
  while (now_s() < until_s) {
    must(device.cu().memcpy_h_to_d(target, source, bytes), "copy");
    const double at_s = now_s();
    if (at_s >= from_s && at_s < until_s) counted++;
  }
  return {{"count", counted}};
}

// Four streams that meet in events: the whole timeline, as the events tell it.
Json role_timeline() {
  Device device;
  constexpr int kStreams = 4, kRounds = 8;
  std::vector<CUstream> streams;
  std::vector<CUevent> events;
  for (int i = 0; i < kStreams; i++) streams.push_back(device.stream());
  CUevent origin = device.event();
  Gate gate;
  must(device.cu().launch_host_func(streams[0], Gate::wait, &gate), "gate");
  must(device.cu().event_record(origin, streams[0]), "record");
  for (int i = 1; i < kStreams; i++) must(device.cu().stream_wait_event(streams[i], origin, 0), "");
  for (int round = 0; round < kRounds; round++) {
    for (int i = 0; i < kStreams; i++) {
      device.launch(300'000ull + 170'000ull * static_cast<unsigned>(i) +
                        90'000ull * static_cast<unsigned>(round),
                    streams[i]);
      events.push_back(device.event());
      must(device.cu().event_record(events.back(), streams[i]), "record");
    }
    CUevent met = events[events.size() - 1 - static_cast<size_t>(round % kStreams)];
    for (CUstream stream : streams) must(device.cu().stream_wait_event(stream, met, 0), "wait");
  }
  gate.open();
  must(device.cu().ctx_synchronize(), "synchronize");
  Json times = Json::array();
  for (CUevent event : events) times.push_back(device.elapsed_ns(origin, event));
  return times;
}

// A child's command, its environment pointing at one emulated node.
struct Setting {
  std::string folder, node, config, mode = "model";
};

std::vector<Json> run_children(const std::string& self, const Setting& setting,
                               const std::vector<std::string>& roles) {
  std::vector<FILE*> children;
  for (const std::string& role : roles) {
    const std::string command =
        "LD_LIBRARY_PATH='" LAMBENT_BINARY_DIR "/lib/emulated' EMULATED_CUDA_NODE='" +
        setting.node + "' EMULATED_CUDA_CONFIG='" + setting.config +
        "' EMULATED_CUDA_LAUNCH_MODE=" + setting.mode + " '" + self + "' --role " + role;
    children.push_back(popen(command.c_str(), "r"));
  }
  std::vector<Json> results;
  bool failed = false;
  for (FILE* child : children) {
    std::string text;
    char part[4096];
    for (size_t count; child && (count = std::fread(part, 1, sizeof part, child)) > 0;) {
      text.append(part, count);
    }
    failed |= !child || pclose(child) != 0 || !Json::accept(text);
    if (!failed) results.push_back(Json::parse(text));
  }
  if (failed) {
    std::fprintf(stderr, "emulator_bench: a child failed\n");
    std::exit(1);
  }
  return results;
}

// A copy of the preset with another time scale.
Setting make_setting(const std::string& folder, const std::string& name, double time_scale) {
  Setting setting{folder, folder + "/" + name + ".node", folder + "/" + name + ".toml"};
  const std::string command = "sed 's/^time_scale = .*/time_scale = " + std::to_string(time_scale) +
                              "/' '" LAMBENT_BINARY_DIR "/lib/emulated/presets/" + kPreset +
                              ".toml' > '" + setting.config + "'";
  if (std::system(command.c_str()) != 0) std::exit(1);
  return setting;
}

Json study_contention(const std::string& self, const std::string& folder, int processes,
                      double penalty, bool quick) {
  constexpr double kDuration_us = 5000;
  Setting setting = make_setting(folder, "contention" + std::to_string(processes), 1);
  const double from_s = now_s() + 1.5, until_s = from_s + (quick ? 1 : 4);
  const std::string role = "contender " + std::to_string(kDuration_us) + " " +
                           std::to_string(from_s) + " " + std::to_string(until_s);
  double count = 0;
  for (const Json& result :
       run_children(self, setting, std::vector<std::string>(processes, role))) {
    count += result["count"].get<double>();
  }
  const double modelled =
      (until_s - from_s) / (kDuration_us * 1e-6 * (1 + penalty * (processes - 1)));
  return {{"processes", processes},
          {"modelled_kernels_per_s", modelled / (until_s - from_s)},
          {"elapsed_kernels_per_s", count / (until_s - from_s)},
          {"error_pct", 100 * (count / modelled - 1)}};
}

Json study_link(const std::string& self, const std::string& folder, int processes,
                double time_scale, double bytes_per_s, double latency_s, bool quick) {
  constexpr size_t kBytes = 16 * kMiB;
  Setting setting = make_setting(
      folder, "link" + std::to_string(processes) + "x" + std::to_string(time_scale), time_scale);
  const double from_s = now_s() + 1.5 / std::min(1.0, time_scale * 2);
  const double until_s = from_s + (quick ? 1 : 4);
  const std::string role = "copier " + std::to_string(kBytes) + " " + std::to_string(from_s) + " " +
                           std::to_string(until_s);
  double count = 0;
  for (const Json& result :
       run_children(self, setting, std::vector<std::string>(processes, role))) {
    count += result["count"].get<double>();
  }
  // A single process waits for the latency between its copies; several hide each other's.
  const double copy_s = kBytes / bytes_per_s + (processes == 1 ? latency_s : 0);
  const double modelled_bytes_per_s = kBytes / copy_s;
  const double elapsed_bytes_per_s = count * kBytes / ((until_s - from_s) * time_scale);
  return {{"processes", processes},
          {"time_scale", time_scale},
          {"modelled_gb_per_s", modelled_bytes_per_s * 1e-9},
          {"elapsed_gb_per_s", elapsed_bytes_per_s * 1e-9},
          {"error_pct", 100 * (elapsed_bytes_per_s / modelled_bytes_per_s - 1)}};
}

// The largest difference of any event's time between runs of one program.
Json study_repeatability(const std::string& self, const std::string& folder, bool quick) {
  const int runs = quick ? 3 : 10;
  std::vector<Json> timelines;
  for (int i = 0; i < runs; i++) {
    Setting setting = make_setting(folder, "repeat" + std::to_string(i), 1);
    timelines.push_back(run_children(self, setting, {"timeline"})[0]);
  }
  double worst_ns = 0, end_ns = 0;
  for (const Json& timeline : timelines) {
    for (size_t i = 0; i < timeline.size(); i++) {
      worst_ns =
          std::max(worst_ns, std::abs(timeline[i].get<double>() - timelines[0][i].get<double>()));
      end_ns = std::max(end_ns, timeline[i].get<double>());
    }
  }
  return {{"runs", runs},
          {"events", timelines[0].size()},
          {"timeline_ms", end_ns * 1e-6},
          {"largest_difference_us", worst_ns * 1e-3}};
}

int play(const std::vector<std::string>& words, bool quick) {
  auto number = [&](size_t i) { return std::stod(words.at(i)); };
  Json result;
  if (words[0] == "calls") result = role_calls(quick);
  if (words[0] == "kernels") result = role_kernels(number(1), quick);
  if (words[0] == "contender") result = role_contender(number(1), number(2), number(3));
  if (words[0] == "copier")
    result = role_copier(static_cast<size_t>(number(1)), number(2), number(3));
  if (words[0] == "timeline") result = role_timeline();
  std::printf("%s\n", result.dump().c_str());
  std::fflush(stdout);
  _exit(result.is_null() ? 2 : 0);  // the driver's threads need no farewell
}

void print(const char* title, const Json& rows) {
  std::printf("\n%s\n", title);
  for (const Json& row : rows) {
    std::string line;
    for (const auto& [key, value] : row.items()) {
      char text[96];
      std::snprintf(text, sizeof text, "  %s %.6g", key.c_str(), value.get<double>());
      line += text;
    }
    std::printf("%s\n", line.c_str());
  }
}

}  // namespace

int main(int count, char** words) {
  std::vector<std::string> role;
  bool quick = false;
  for (int i = 1; i < count; i++) {
    const std::string word = words[i];
    if (word == "--quick") {
      quick = true;
    } else if (word == "--role") {
      role.assign(words + i + 1, words + count);
      break;
    } else {
      return std::fprintf(stderr, "usage: emulator_bench [--quick]\n"), 3;
    }
  }
  if (!role.empty()) {
    quick = role.back() == "quick";
    return play(role, quick);
  }
  lambent::emulated_node::NodeSpec spec;
  std::string error;
  if (!read_node_spec(kPreset, &spec, &error)) {
    return std::fprintf(stderr, "emulator_bench: %s\n", error.c_str()), 1;
  }
  const auto& device = spec.device;
  const std::string self = words[0];
  char folder_name[] = "/tmp/emulator_bench_XXXXXX";
  const std::string folder = mkdtemp(folder_name);
  const std::string pace = quick ? " quick" : "";

  Json result{
      {"name", "emulator"}, {"quick", quick}, {"preset", kPreset}, {"launch_mode", "model"}};
  Setting tiny{folder, folder + "/calls.node", "tiny"};
  result["call_ns"] = run_children(self, tiny, {"calls" + pace})[0];
  Setting alone = make_setting(folder, "kernels", 1);
  result["kernels"] = run_children(self, alone, {"kernels 1" + pace})[0];
  for (int processes : {1, 2, 4}) {
    result["contention"].push_back(
        study_contention(self, folder, processes, device.context_penalty, quick));
  }
  for (double time_scale : {0.1, 1.0}) {
    for (int processes : {1, 2}) {
      result["link"].push_back(
          study_link(self, folder, processes, time_scale, device.host_to_device_bytes_per_s,
                     1e-9 * static_cast<double>(device.link_latency_ns), quick));
    }
  }
  result["repeatability"] = study_repeatability(self, folder, quick);
  std::system(("rm -r '" + folder + "'").c_str());

  std::printf("Cost of a call, ns (best of rounds)\n");
  for (const auto& [name, ns] : result["call_ns"].items()) {
    std::printf("  %-36s %10.0f\n", name.c_str(), ns.get<double>());
  }
  print("Kernels alone: modelled against event time and wall time", result["kernels"]);
  print("Contention of processes", result["contention"]);
  print("Copies over one link, 16 MiB each, pinned", result["link"]);
  print("One program again and again", Json::array({result["repeatability"]}));
  std::printf("%s\n", result.dump().c_str());
  return 0;
}
