// forward_bench: what a CUDA call costs that is forwarded to an executor, beside the same call of
// the bare driver, the bare ring, and a socket that carries one call and its answer at a time. The
// processes are real; driver and device are emulated.
//
// forward_bench [--quick]
#include <dlfcn.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "core/base/time.h"
#include "forwarded/forwarding_host.h"
#include "gpu/cuda_abi/driver_types.h"
#include "gpu/forward_ring/ring.h"
#include "gpu/forward_ring/shared_memory.h"
#include "gpu/forward_ring/waiting.h"

namespace {

using namespace lambent;
using Json = nlohmann::ordered_json;

// Between two waits; far less than the ring holds.
constexpr int kBatch = 64;
// Of a captured graph; and how many of its launches there are between two waits.
constexpr int kGraphKernels = 100, kGraphBatch = 8;

double now_us() {
  static const SystemClock clock;
  return to_milliseconds(clock.now() - Instant()) * 1e3;
}
double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}
void must(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "forward_bench: %s\n", what);
  _exit(1);
}

struct Driver {
#define DRIVER_FUNCTION(name, symbol, parameters) CUresult(*name) parameters = nullptr;
#include "gpu/cuda_abi/driver_table.inc"
#undef DRIVER_FUNCTION
  explicit Driver(const std::string& path) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    must(library != nullptr, "a driver is built");
#define DRIVER_FUNCTION(name, symbol, parameters) \
  name = reinterpret_cast<CUresult(*) parameters>(dlsym(library, #symbol));
#include "gpu/cuda_abi/driver_table.inc"
#undef DRIVER_FUNCTION
    must(init(0) == CUDA_SUCCESS, "cuInit");
    CUcontext context = nullptr;
    must(device_primary_ctx_retain(&context, 0) == CUDA_SUCCESS, "a context");
    must(ctx_set_current(context) == CUDA_SUCCESS, "a current context");
  }
};

struct Measured {
  double enqueue_us = 0;  // a launch, without the wait for it
  double sync_us = 0;     // a question that is answered at once
  // A launch of a captured graph until it is over, and of its kernels by themselves; of that, what
  // the process is busy with.
  double graph_us = 0, kernels_us = 0;
  double graph_enqueue_us = 0, kernels_enqueue_us = 0;
  // Of the calls whose rate is measured: how many, and when.
  uint64_t calls = 0;
  double begin_us = 0, end_us = 0;
};

// Of all processes together, over the time from the first one's first call to the last one's last.
double rate_per_s(const std::vector<Measured>& all) {
  uint64_t calls = 0;
  double begin_us = all[0].begin_us, end_us = all[0].end_us;
  for (const Measured& each : all) {
    calls += each.calls;
    begin_us = std::min(begin_us, each.begin_us);
    end_us = std::max(end_us, each.end_us);
  }
  return static_cast<double>(calls) / (end_us - begin_us) * 1e6;
}

// What of a step of so many kernels is one launch if they are captured.
void measure_graph(const Driver& driver, CUfunction kernel, CUstream stream, double seconds,
                   Measured* measured) {
  uint64_t duration = 0;
  void* parameters[] = {&duration};
  const auto launch_all = [&] {
    for (int i = 0; i < kGraphKernels; ++i) {
      must(driver.launch_kernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr) ==
               CUDA_SUCCESS,
           "a launch");
    }
  };
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  must(driver.stream_begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS,
       "a capture");
  launch_all();
  must(driver.stream_end_capture(stream, &graph) == CUDA_SUCCESS, "its graph");
  must(driver.graph_instantiate(&executable, graph, 0) == CUDA_SUCCESS, "an executable graph");
  std::vector<double> graphs, kernels, graph_enqueues, kernel_enqueues;
  for (double until = now_us() + seconds * 1e6; now_us() < until;) {
    double begin = now_us();
    for (int i = 0; i < kGraphBatch; ++i) {
      must(driver.graph_launch(executable, stream) == CUDA_SUCCESS, "a launch of a graph");
    }
    graph_enqueues.push_back((now_us() - begin) / kGraphBatch);
    must(driver.stream_synchronize(stream) == CUDA_SUCCESS, "a wait");
    graphs.push_back((now_us() - begin) / kGraphBatch);
    begin = now_us();
    for (int i = 0; i < kGraphBatch; ++i) launch_all();
    kernel_enqueues.push_back((now_us() - begin) / kGraphBatch);
    must(driver.stream_synchronize(stream) == CUDA_SUCCESS, "a wait");
    kernels.push_back((now_us() - begin) / kGraphBatch);
  }
  measured->graph_us = median(graphs);
  measured->kernels_us = median(kernels);
  measured->graph_enqueue_us = median(graph_enqueues);
  measured->kernels_enqueue_us = median(kernel_enqueues);
}

// The calls of one process. The kernel does nothing; a stream waits for an event that was never
// recorded, which costs the driver least, where the rate of calls is measured.
Measured measure(const Driver& driver, double seconds) {
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  CUstream stream = nullptr;
  CUevent event = nullptr;
  const std::string image = LAMBENT_BINARY_DIR "/share/lambent/kernels/occupy/host-x86_64.so";
  must(driver.module_load(&module, image.c_str()) == CUDA_SUCCESS, "the kernel occupy is built");
  must(driver.module_get_function(&kernel, module, "occupy") == CUDA_SUCCESS, "its function");
  must(driver.stream_create(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS, "a stream");
  must(driver.event_create(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS, "an event");
  uint64_t duration = 0;
  void* parameters[] = {&duration};
  Measured measured;
  std::vector<double> enqueues, questions;
  for (double until = now_us() + seconds * 1e6; now_us() < until;) {
    const double begin = now_us();
    for (int i = 0; i < kBatch; ++i) {
      must(driver.launch_kernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr) ==
               CUDA_SUCCESS,
           "a launch");
    }
    enqueues.push_back((now_us() - begin) / kBatch);
    must(driver.stream_synchronize(stream) == CUDA_SUCCESS, "a wait");
    const double asked = now_us();
    for (int i = 0; i < kBatch; ++i) {
      must(driver.stream_query(stream) == CUDA_SUCCESS, "a question");
    }
    questions.push_back((now_us() - asked) / kBatch);
  }
  measure_graph(driver, kernel, stream, seconds, &measured);
  measured.enqueue_us = median(enqueues);
  measured.sync_us = median(questions);
  measured.begin_us = now_us();
  do {
    for (int i = 0; i < kBatch; ++i) {
      must(driver.stream_wait_event(stream, event, 0) == CUDA_SUCCESS, "a wait for nothing");
    }
    must(driver.stream_synchronize(stream) == CUDA_SUCCESS, "a wait");
    measured.calls += kBatch + 1;
    measured.end_us = now_us();
  } while (measured.end_us < measured.begin_us + seconds * 1e6);
  return measured;
}

// Runs `work` in processes of its own, all at once.
std::vector<Measured> in_processes(int count, const std::function<Measured(int)>& work) {
  int results[2];
  must(pipe(results) == 0, "a pipe");
  std::vector<pid_t> processes;
  for (int i = 0; i < count; ++i) {
    processes.push_back(fork());
    if (processes.back() != 0) continue;
    const Measured measured = work(i);
    must(write(results[1], &measured, sizeof(measured)) == sizeof(measured), "a pipe");
    _exit(0);
  }
  close(results[1]);
  std::vector<Measured> all;
  for (Measured one; read(results[0], &one, sizeof(one)) == sizeof(one);) all.push_back(one);
  close(results[0]);
  for (const pid_t process : processes) waitpid(process, nullptr, 0);
  must(all.size() == static_cast<size_t>(count), "every process has measured");
  return all;
}

// The ring alone: calls to a process that answers those that want it and does nothing else.
Measured bare_ring(double seconds) {
  forward_ring::SharedMemory memory;
  const int fd = memory.create();
  must(fd >= 0, "shared memory");
  const pid_t server = fork();
  if (server == 0) {
    forward_ring::SharedMemory own;
    must(own.map(fd), "shared memory");
    forward_ring::CallReader reader(own.pages());
    std::vector<char> data(forward_ring::kMostInlineBytes);
    forward_ring::SpinBudget budget;
    auto& slot = own.pages()->slots[0];
    for (uint32_t answered = 0;;) {
      forward_ring::Call call;
      if (reader.next(call, data.data()) != forward_ring::CallReader::Next::kCall) {
        forward_ring::wait_until(
            own.pages()->control.server_sleeps, &budget, 1000, [&] { return !reader.is_empty(); },
            [] { return true; });
        continue;
      }
      if (call.slot == forward_ring::kNoSlot) continue;
      slot.answered.store(++answered, std::memory_order_release);
      forward_ring::wake(slot.client_sleeps);
    }
  }
  forward_ring::CallWriter writer(memory.pages());
  forward_ring::SpinBudget budget;
  auto& slot = memory.pages()->slots[0];
  uint32_t asked = 0;
  const auto ask = [&] {
    forward_ring::Call call;
    call.code = static_cast<uint16_t>(forward_ring::CallCode::kMemoryInfo);
    call.slot = 0;
    writer.write(call);
    ++asked;
    forward_ring::wait_until(
        slot.client_sleeps, &budget, 1000, [&] { return slot.answered.load() == asked; },
        [] { return true; });
  };
  std::vector<double> enqueues, questions;
  for (double until = now_us() + seconds * 1e6; now_us() < until;) {
    forward_ring::Call call;
    call.code = static_cast<uint16_t>(forward_ring::CallCode::kDestroyEvent);
    const double begin = now_us();
    for (int i = 0; i < kBatch; ++i) writer.write(call);
    enqueues.push_back((now_us() - begin) / kBatch);
    ask();
    const double again = now_us();
    for (int i = 0; i < kBatch; ++i) ask();
    questions.push_back((now_us() - again) / kBatch);
  }
  kill(server, SIGKILL);
  waitpid(server, nullptr, 0);
  close(fd);
  return {median(enqueues), median(questions)};
}

// A call and its answer as packets, as systems forward calls that have no ring.
double socket_us(double seconds) {
  int ends[2];
  must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0, "a pair of sockets");
  const pid_t server = fork();
  char packet[sizeof(forward_ring::Call)] = {};
  if (server == 0) {
    close(ends[0]);
    while (recv(ends[1], packet, sizeof(packet), 0) > 0) send(ends[1], packet, 16, 0);
    _exit(0);
  }
  close(ends[1]);
  std::vector<double> times;
  for (double until = now_us() + seconds * 1e6; now_us() < until;) {
    const double begin = now_us();
    for (int i = 0; i < kBatch; ++i) {
      must(send(ends[0], packet, sizeof(packet), 0) == sizeof(packet), "a packet");
      must(recv(ends[0], packet, sizeof(packet), 0) > 0, "an answer");
    }
    times.push_back((now_us() - begin) / kBatch);
  }
  close(ends[0]);
  waitpid(server, nullptr, 0);
  return median(times);
}

constexpr size_t kCopyBytes = size_t{512} << 10;
constexpr int kCopiers = 6;  // processes of the client that copies all the time

// A small device whose link carries 1 GB/s.
std::string slow_link(const TemporaryFolder& folder) {
  std::ifstream preset(LAMBENT_SOURCE_DIR "/src/emulator/emulated_node/presets/tiny.toml");
  std::string text((std::istreambuf_iterator<char>(preset)), {});
  for (const std::string key : {"host_to_device_gb_per_s = ", "device_to_host_gb_per_s = "}) {
    const size_t at = text.find(key);
    must(at != std::string::npos, "the preset tiny has a link");
    text.replace(at, text.find('\n', at) - at, key + "1.0");
  }
  const std::string path = folder / "slow.toml";
  std::ofstream(path) << text;
  return path;
}

// How long one client's copies to the device take, each by itself, ms; `copiers` processes of
// another client copy all that they can meanwhile. The link carries 1 GB/s, so that it is the link
// that they wait for.
Json copies_beside(const std::string& config, const std::vector<std::string>& order, int copiers,
                   double seconds) {
  forwarded_testing::ForwardingHost host(
      {{"EMULATED_CUDA_LAUNCH_MODE", "model"}, {"EMULATED_CUDA_CONFIG", config}}, order);
  must(host.executor.expect<protocol::ExecutorHello>().has_value(), "an executor");
  host.add_client(1, Bytes::mib(64));
  host.add_client(2, Bytes::mib(64));
  const auto all = in_processes(copiers + 1, [&](int number) {
    setenv("LAMBENT_FORWARD_SOCKET", host.socket_of(number == 0 ? 1 : 2).c_str(), 1);
    const Driver driver(LAMBENT_BINARY_DIR "/lib/forward/libcuda.so.1");
    const size_t bytes = number == 0 ? kCopyBytes : 8 * kCopyBytes;
    const std::vector<char> content(bytes, 'x');
    CUdeviceptr address = 0;
    CUstream stream = nullptr;
    must(driver.mem_alloc(&address, bytes) == CUDA_SUCCESS, "memory");
    must(driver.stream_create(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS, "a stream");
    std::vector<double> mine;
    Measured measured;
    measured.begin_us = now_us();
    while (now_us() < measured.begin_us + seconds * 1e6) {
      const double begin = now_us();
      must(driver.memcpy_h_to_d_async(address, content.data(), bytes, stream) == CUDA_SUCCESS,
           "a copy");
      // The others never wait: their chunks are full at all times.
      if (number == 0) {
        must(driver.stream_synchronize(stream) == CUDA_SUCCESS, "a wait");
        mine.push_back((now_us() - begin) / 1e3);
        usleep(2000);
      }
      measured.calls += bytes;
    }
    measured.end_us = now_us();
    if (number != 0) return measured;
    std::sort(mine.begin(), mine.end());
    measured.enqueue_us = mine[mine.size() / 2];
    measured.sync_us = mine[mine.size() * 99 / 100];
    measured.calls = 0;  // of the others
    return measured;
  });
  Json found = {{"others_mb_per_s", rate_per_s(all) / 1e6}};
  for (const Measured& each : all) {
    if (each.enqueue_us == 0) continue;
    found["median_ms"] = each.enqueue_us;
    found["p99_ms"] = each.sync_us;
  }
  return found;
}

}  // namespace

int main(int count, char** words) {
  const bool quick = count > 1 && std::strcmp(words[1], "--quick") == 0;
  const double seconds = quick ? 0.2 : 2;
  double load = 0;
  std::ifstream("/proc/loadavg") >> load;
  cpu_set_t usable;
  must(sched_getaffinity(0, sizeof(usable), &usable) == 0, "a set of cores");
  const int cores = CPU_COUNT(&usable);

  TemporaryFolder folder;
  const Measured bare = in_processes(1, [&](int) {
    setenv("EMULATED_CUDA_NODE", (folder / "bare").c_str(), 1);
    setenv("EMULATED_CUDA_CONFIG", "tiny", 1);
    setenv("EMULATED_CUDA_LAUNCH_MODE", "model", 1);
    return measure(Driver(LAMBENT_BINARY_DIR "/lib/emulated/libcuda.so.1"), seconds);
  })[0];
  const Measured ring = bare_ring(seconds);
  const double socket = socket_us(seconds);

  Json result, clients_enqueue = Json::object(), clients_sync = Json::object();
  Json rates = Json::object(), graphs = Json::object();
  const std::vector<std::pair<std::string, std::string>> settings = {
      {"EMULATED_CUDA_LAUNCH_MODE", "model"}};
  forwarded_testing::ForwardingHost host(settings);
  must(host.executor.expect<protocol::ExecutorHello>().has_value(), "an executor");
  uint64_t last = 0;
  for (const int clients : {1, 8, 48}) {
    const uint64_t first = last + 1;
    for (int i = 0; i < clients; ++i) host.add_client(++last, Bytes::mib(16));
    const auto all = in_processes(clients, [&](int number) {
      const std::string path = host.socket_of(first + static_cast<uint64_t>(number));
      setenv("LAMBENT_FORWARD_SOCKET", path.c_str(), 1);
      return measure(Driver(LAMBENT_BINARY_DIR "/lib/forward/libcuda.so.1"), seconds);
    });
    std::vector<double> enqueues, syncs;
    if (clients == 1) {
      graphs = {{"kernels", kGraphKernels},
                {"graph_us", all[0].graph_us},
                {"graph_enqueue_us", all[0].graph_enqueue_us},
                {"one_by_one_us", all[0].kernels_us},
                {"one_by_one_enqueue_us", all[0].kernels_enqueue_us},
                {"bare_graph_us", bare.graph_us},
                {"bare_graph_enqueue_us", bare.graph_enqueue_us},
                {"bare_one_by_one_us", bare.kernels_us},
                {"bare_one_by_one_enqueue_us", bare.kernels_enqueue_us}};
    }
    for (const Measured& each : all) {
      enqueues.push_back(each.enqueue_us);
      syncs.push_back(each.sync_us);
    }
    const std::string key = std::to_string(clients);
    clients_enqueue[key] = median(enqueues);
    clients_sync[key] = median(syncs);
    rates[key] = rate_per_s(all) / cores;
    for (uint64_t client = first; client <= last; ++client) host.remove_client(client);
  }
  result["enqueue_us"] = clients_enqueue["1"];
  result["sync_us"] = clients_sync["1"];
  result["calls_per_s_per_core"] = rates;
  result["enqueue_us_by_clients"] = clients_enqueue;
  result["sync_us_by_clients"] = clients_sync;
  result["bare"] = {{"enqueue_us", bare.enqueue_us},
                    {"sync_us", bare.sync_us},
                    {"calls_per_s", rate_per_s({bare})}};
  result["ring"] = {{"enqueue_us", ring.enqueue_us}, {"sync_us", ring.sync_us}};
  result["socket_us"] = socket;
  result["captured"] = graphs;
  const double copying = quick ? 0.5 : 4;
  const std::string config = slow_link(folder);
  result["copies"] = {{"alone", copies_beside(config, {}, 0, copying)},
                      {"beside", copies_beside(config, {}, kCopiers, copying)},
                      {"first_come", copies_beside(config, {"--first-come"}, kCopiers, copying)}};
  result["emulated"] = true;
  result["machine"] = {{"cores", cores}, {"load_1min_at_start", load}};

  std::printf("%-22s %12s %12s %16s\n", "", "enqueue, us", "sync, us", "calls/s/core");
  std::printf("%-22s %12.3f %12.3f %16.0f\n", "bare driver", bare.enqueue_us, bare.sync_us,
              rate_per_s({bare}));
  std::printf("%-22s %12.3f %12.3f\n", "bare ring", ring.enqueue_us, ring.sync_us);
  std::printf("%-22s %12.3f %12.3f\n", "socket", socket, socket);
  for (const char* key : {"1", "8", "48"}) {
    std::printf("forwarded, %2s clients  %12.3f %12.3f %16.0f\n", key,
                clients_enqueue[key].get<double>(), clients_sync[key].get<double>(),
                rates[key].get<double>());
  }
  std::printf(
      "%d kernels, us (of that busy): as a graph %.0f (%.1f), bare %.0f (%.1f); "
      "one by one %.0f (%.1f), bare %.0f (%.1f)\n",
      kGraphKernels, graphs["graph_us"].get<double>(), graphs["graph_enqueue_us"].get<double>(),
      bare.graph_us, bare.graph_enqueue_us, graphs["one_by_one_us"].get<double>(),
      graphs["one_by_one_enqueue_us"].get<double>(), bare.kernels_us, bare.kernels_enqueue_us);
  for (const char* key : {"alone", "beside", "first_come"}) {
    const Json& each = result["copies"][key];
    std::printf("a copy of 512 KiB, %-10s: median %7.2f ms, p99 %7.2f; the others %6.0f MB/s\n",
                key, each["median_ms"].get<double>(), each["p99_ms"].get<double>(),
                each["others_mb_per_s"].get<double>());
  }
  std::printf("%s\n", result.dump().c_str());
  return 0;
}
