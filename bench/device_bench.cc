// device_bench: the constants of a CUDA device as a program meets them: contexts, launches, copies,
// allocation, mapping, graphs. On a GPU they replace the guesses in an emulated device's TOML; on
// the emulated device they show that it keeps to its own.
//
// device_bench [--quick] [--image FILE]...: the images hold the kernel `occupy`, the first one that
// the driver takes is used.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gpu/cuda/driver.h"

namespace {

using Json = nlohmann::ordered_json;
using lambent::cuda::Driver;
using lambent::cuda::DriverFunctions;

constexpr size_t kMiB = size_t{1} << 20;

double now_us() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return 1e6 * static_cast<double>(now.tv_sec) + 1e-3 * static_cast<double>(now.tv_nsec);
}

struct Spread {
  double p10, p50, p90;
};
void to_json(Json& json, const Spread& spread) {
  json = {{"p50", spread.p50}, {"p10", spread.p10}, {"p90", spread.p90}};
}

Spread spread_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  auto at = [&](double share) {
    return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
  };
  return {at(0.1), at(0.5), at(0.9)};
}

class Bench {
 public:
  Bench(const Driver& driver, bool quick)
      : driver_(driver), cu(*driver.operator->()), repeats_(quick ? 9 : 51) {}

  void must(CUresult result, const char* call) const {
    if (auto checked = driver_.check(result, call); !checked.ok()) {
      std::fprintf(stderr, "device_bench: %s\n", to_string(checked.error()).c_str());
      std::exit(1);
    }
  }

  // How long the body takes until it returns, in microseconds.
  Spread wall_us(const std::function<void()>& body, int times = 0) const {
    std::vector<double> values;
    body();  // once for whatever is only done the first time
    for (int i = 0; i < (times ? times : repeats_); i++) {
      const double begin_us = now_us();
      body();
      values.push_back(now_us() - begin_us);
    }
    return spread_of(values);
  }

  // How long the device takes for what `submit` puts into the stream, by its own events.
  Spread device_us(const std::function<void()>& submit) const {
    CUevent begin, end;
    must(cu.event_create(&begin, 0), "cuEventCreate");
    must(cu.event_create(&end, 0), "cuEventCreate");
    std::vector<double> values;
    for (int i = 0; i <= repeats_; i++) {
      must(cu.event_record(begin, stream_), "cuEventRecord");
      submit();
      must(cu.event_record(end, stream_), "cuEventRecord");
      must(cu.event_synchronize(end), "cuEventSynchronize");
      float milliseconds = 0;
      must(cu.event_elapsed_time_v2(&milliseconds, begin, end), "cuEventElapsedTime");
      if (i > 0) values.push_back(1e3 * static_cast<double>(milliseconds));
    }
    cu.event_destroy(begin);
    cu.event_destroy(end);
    return spread_of(values);
  }

  void sync() const { must(cu.stream_synchronize(stream_), "cuStreamSynchronize"); }

  Json contexts() {
    Json out;
    const double begin_us = now_us();
    must(cu.device_primary_ctx_retain(&context_, 0), "cuDevicePrimaryCtxRetain");
    out["primary_context_us"] = now_us() - begin_us;
    must(cu.ctx_set_current(context_), "cuCtxSetCurrent");
    must(cu.stream_create(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    size_t free = 0, total = 0;
    must(cu.mem_get_info(&free, &total), "cuMemGetInfo");
    out["memory_mib"] = total / kMiB;
    out["memory_used_by_context_mib"] = (total - free) / kMiB;
    return out;
  }

  // Loads the first image that the driver takes; its kernel takes as long as it is told.
  Json modules(const std::vector<std::string>& images) {
    for (const std::string& path : images) {
      std::ifstream file(path, std::ios::binary);
      std::string image((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
      if (image.empty()) continue;
      CUmodule module = nullptr;
      const double begin_us = now_us();
      if (cu.module_load_data(&module, image.c_str()) != CUDA_SUCCESS) continue;
      Json out{{"image", path.substr(path.rfind('/') + 1)}, {"load_us", now_us() - begin_us}};
      must(cu.module_get_function(&occupy_, module, "occupy"), "cuModuleGetFunction");
      return out;
    }
    std::fprintf(stderr, "device_bench: the driver takes none of the images\n");
    std::exit(1);
  }

  void launch(unsigned long long ns) const {
    void* parameters[] = {&ns};
    must(cu.launch_kernel(occupy_, 1, 1, 1, 32, 1, 1, 0, stream_, parameters, nullptr),
         "cuLaunchKernel");
  }

  Json launches() {
    Json out;
    constexpr int kMany = 100;
    out["submit_us"] = wall_us([&] {
                         for (int i = 0; i < kMany; i++) launch(0);
                       }).p50 /
                       kMany;
    sync();
    out["and_synchronize_us"] = wall_us([&] {
      launch(0);
      sync();
    });
    out["empty_kernel_us"] = device_us([&] {
                               for (int i = 0; i < kMany; i++) launch(0);
                             }).p50 /
                             kMany;
    out["kernel_of_100_us"] = device_us([&] { launch(100'000); });
    if (cu.stream_begin_capture && cu.graph_instantiate && cu.graph_launch) {
      CUgraph graph = nullptr;
      CUgraphExec exec = nullptr;
      must(cu.stream_begin_capture(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "capture");
      for (int i = 0; i < kMany; i++) launch(0);
      must(cu.stream_end_capture(stream_, &graph), "capture");
      must(cu.graph_instantiate(&exec, graph, 0), "cuGraphInstantiate");
      out["graph_of_100_kernels"] = {
          {"submit_us", wall_us([&] { must(cu.graph_launch(exec, stream_), "launch"); })},
          {"device_us", device_us([&] { must(cu.graph_launch(exec, stream_), "launch"); })}};
      sync();
    }
    return out;
  }

  Json copies() {
    Json rows = Json::array();
    const size_t largest = 256 * kMiB;
    CUdeviceptr device = 0, other = 0;
    void* pinned = nullptr;
    must(cu.mem_alloc(&device, largest), "cuMemAlloc");
    must(cu.mem_alloc(&other, largest), "cuMemAlloc");
    must(cu.mem_host_alloc(&pinned, largest, 0), "cuMemHostAlloc");
    std::vector<char> pageable(largest, 1);
    std::memset(pinned, 1, largest);
    for (size_t bytes : {size_t{4}, size_t{65536}, kMiB, 2 * kMiB, 16 * kMiB, largest}) {
      auto rate = [&](const Spread& us) { return static_cast<double>(bytes) / us.p50 * 1e-3; };
      const Spread up =
          device_us([&] { must(cu.memcpy_h_to_d_async(device, pinned, bytes, stream_), "copy"); });
      const Spread down =
          device_us([&] { must(cu.memcpy_d_to_h_async(pinned, device, bytes, stream_), "copy"); });
      const Spread inside =
          device_us([&] { must(cu.memcpy_d_to_d_async(other, device, bytes, stream_), "copy"); });
      const Spread from_pageable =
          wall_us([&] { must(cu.memcpy_h_to_d(device, pageable.data(), bytes), "copy"); });
      rows.push_back({{"bytes", bytes},
                      {"host_to_device_us", up},
                      {"host_to_device_gb_per_s", rate(up)},
                      {"device_to_host_us", down},
                      {"device_to_host_gb_per_s", rate(down)},
                      {"inside_us", inside},
                      {"inside_gb_per_s", rate(inside)},
                      {"pageable_to_device_gb_per_s", rate(from_pageable)}});
    }
    cu.mem_free(device);
    cu.mem_free(other);
    cu.mem_free_host(pinned);
    return rows;
  }

  Json allocations() {
    Json rows = Json::array();
    for (size_t bytes : {size_t{65536}, 2 * kMiB, 64 * kMiB, 512 * kMiB}) {
      CUdeviceptr address = 0;
      Json row{{"bytes", bytes}};
      row["alloc_and_free_us"] = wall_us([&] {
        must(cu.mem_alloc(&address, bytes), "cuMemAlloc");
        must(cu.mem_free(address), "cuMemFree");
      });
      row["alloc_async_and_free_async_us"] = wall_us([&] {
        must(cu.mem_alloc_async(&address, bytes, stream_), "cuMemAllocAsync");
        must(cu.mem_free_async(address, stream_), "cuMemFreeAsync");
        sync();
      });
      if (bytes % (2 * kMiB) == 0) row["virtual_memory_us"] = virtual_memory(bytes);
      rows.push_back(row);
    }
    return rows;
  }

  // One physical allocation of this size, mapped and given back, call by call.
  Json virtual_memory(size_t bytes) {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
    CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, {0}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr address = 0;
    must(cu.mem_address_reserve(&address, bytes, 0, 0, 0), "cuMemAddressReserve");
    std::vector<double> create, map, set, unmap, release;
    for (int i = 0; i < repeats_; i++) {
      CUmemGenericAllocationHandle handle = 0;
      auto timed = [&](std::vector<double>& into, CUresult result, double begin_us) {
        into.push_back(now_us() - begin_us);
        must(result, "virtual memory");
      };
      double begin_us = now_us();
      timed(create, cu.mem_create(&handle, bytes, &properties, 0), begin_us);
      begin_us = now_us();
      timed(map, cu.mem_map(address, bytes, 0, handle, 0), begin_us);
      begin_us = now_us();
      timed(set, cu.mem_set_access(address, bytes, &access, 1), begin_us);
      begin_us = now_us();
      timed(unmap, cu.mem_unmap(address, bytes), begin_us);
      begin_us = now_us();
      timed(release, cu.mem_release(handle), begin_us);
    }
    must(cu.mem_address_free(address, bytes), "cuMemAddressFree");
    return {{"create", spread_of(create).p50},
            {"map", spread_of(map).p50},
            {"set_access", spread_of(set).p50},
            {"unmap", spread_of(unmap).p50},
            {"release", spread_of(release).p50}};
  }

 private:
  const Driver& driver_;

 public:
  const DriverFunctions& cu;

 private:
  int repeats_;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  CUfunction occupy_ = nullptr;
};

void print(const std::string& indent, const Json& json) {
  for (const auto& [key, value] : json.items()) {
    if (value.is_structured()) {
      std::printf("%s%s\n", indent.c_str(), key.c_str());
      print(indent + "  ", value);
    } else {
      std::printf("%s%-32s %s\n", indent.c_str(), key.c_str(), value.dump().c_str());
    }
  }
}

}  // namespace

int main(int count, char** words) {
  bool quick = false;
  const std::string bundle = LAMBENT_BINARY_DIR "/share/lambent/kernels/occupy/";
  std::vector<std::string> images;
  for (int i = 1; i < count; i++) {
    if (!std::strcmp(words[i], "--quick")) {
      quick = true;
    } else if (!std::strcmp(words[i], "--image") && i + 1 < count) {
      images.push_back(words[++i]);
    } else {
      return std::fprintf(stderr, "usage: device_bench [--quick] [--image FILE]...\n"), 3;
    }
  }
  for (const char* file : {"host-x86_64.so", "sm_90.cubin", "compute_80.ptx"}) {
    images.push_back(bundle + file);
  }
  const double begin_us = now_us();
  auto driver = Driver::load();
  if (!driver.ok()) {
    return std::fprintf(stderr, "device_bench: %s\n", to_string(driver.error()).c_str()), 1;
  }
  Json result{{"name", "device"}, {"quick", quick}, {"init_us", now_us() - begin_us}};
  Bench bench(*driver.value(), quick);
  char name[96] = "";
  int version = 0;
  bench.must(bench.cu.device_get_name(name, sizeof name, 0), "cuDeviceGetName");
  bench.must(bench.cu.driver_get_version(&version), "cuDriverGetVersion");
  result["device"] = name;
  result["driver"] = version;
  result["context"] = bench.contexts();
  result["module"] = bench.modules(images);
  result["launch"] = bench.launches();
  result["copy"] = bench.copies();
  result["allocation"] = bench.allocations();
  print("", result);
  std::printf("%s\n", result.dump().c_str());
  std::fflush(stdout);
  return 0;
}
