// kernel_bench: what lambent-executor adds to a kernel function's request, beside the bare driver
// calls for the same work in a process of their own kind: copies, graph launch, wait. Requests and
// bare calls take turns, each on an emulated device of its own (or both on the machine's GPU).
//
// kernel_bench [--quick] [--gpu]
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "core/base/packet.h"
#include "core/base/time.h"
#include "core/protocol/executor_message.h"
#include "executor_under_test.h"
#include "gpu/bundle/bundle.h"
#include "gpu/cuda/device.h"
#include "gpu/cuda/graph.h"
#include "gpu/cuda/stream.h"

namespace {

using namespace lambent;
using namespace lambent::bench;
using Json = nlohmann::ordered_json;

const std::string kKernels = LAMBENT_BINARY_DIR "/share/lambent/kernels";
constexpr int kSize = 32;  // of the matrices: small, for they are multiplied by the host's cores

// One function: its bundle, its graph, and how much goes in and comes out.
struct Work {
  std::string bundle, kernel;
  cuda::Dimensions grid, block;
  size_t in_bytes = 0, out_bytes = 0;  // inputs are one after the other
  std::string graph;
  std::vector<std::pair<size_t, size_t>> pointers;  // of parameters: 0: in, 1: out; offset
  uint64_t literal = 0;                             // the last parameter
};

Work noop() {
  Work work;
  work.bundle = work.kernel = "occupy";
  work.graph = R"({"buffers": [], "steps": [{"kernel": "occupy", "bundle": "bundles/k",
    "grid": [1], "block": [1], "arguments": [{"literal": 0, "datatype": "UINT64"}]}]})";
  return work;
}

Work matmul() {
  Work work;
  work.bundle = "matmul_tiled";
  work.kernel = "matmul_tiled_16";
  work.grid = {kSize / 16, kSize / 16, 1};
  work.block = {16, 16, 1};
  const size_t matrix = kSize * kSize * sizeof(float);
  work.in_bytes = 2 * matrix;
  work.out_bytes = matrix;
  work.pointers = {{0, 0}, {0, matrix}, {1, 0}};
  work.literal = kSize;
  const std::string size = std::to_string(kSize), tiles = std::to_string(kSize / 16);
  const auto buffer = [&](const char* name, const char* role) {
    return std::string(R"({"name": ")") + name + R"(", "role": ")" + role +
           R"(", "datatype": "FP32", "shape": [)" + size + ", " + size + "]}";
  };
  work.graph = R"({"buffers": [)" + buffer("a", "input") + "," + buffer("b", "input") + "," +
               buffer("c", "output") + R"(], "steps": [{"kernel": "matmul_tiled_16",
    "bundle": "bundles/k", "grid": [)" +
               tiles + ", " + tiles + R"(], "block": [16, 16],
    "arguments": [{"buffer": "a"}, {"buffer": "b"}, {"buffer": "c"}, {"literal": )" +
               size + R"(, "datatype": "INT32"}]}]})";
  return work;
}

// The same work by the driver's calls alone.
class Bare {
 public:
  Bare(const cuda::Driver& driver, std::pair<int, int> capability, const Work& work)
      : work_(work),
        stream_(must(cuda::Stream::create(driver), "a stream")),
        in_(must(cuda::PinnedBuffer::allocate(driver, Bytes(work.in_bytes + 1)), "host memory")),
        out_(must(cuda::PinnedBuffer::allocate(driver, Bytes(work.out_bytes + 1)), "host memory")),
        device_in_(must(cuda::DeviceBuffer::allocate(driver, Bytes(work.in_bytes + 1)), "memory")),
        device_out_(
            must(cuda::DeviceBuffer::allocate(driver, Bytes(work.out_bytes + 1)), "memory")),
        graph_(must(cuda::Graph::create(driver), "a graph")) {
    const auto bundle = must(bundle::Bundle::open(kKernels + "/" + work.bundle), "a bundle");
    for (const auto& image : bundle.images_for(capability.first, capability.second)) {
      image_ = must(read_file(image.path, size_t{1} << 28), "an image");
      auto module = cuda::Module::load(driver, image_);
      if (!module.ok()) continue;
      symbol_ = must(bundle.symbol_of(work.kernel, image), "a kernel");
      module_ = std::make_unique<cuda::Module>(std::move(*module));
      break;
    }
    if (module_ == nullptr) must(Error{ErrorCode::kFailedPrecondition, "no image"}, "a bundle");
    std::vector<CUdeviceptr> addresses;
    for (const auto& [which, offset] : work.pointers) {
      addresses.push_back((which == 0 ? device_in_ : device_out_).pointer() + offset);
    }
    std::vector<void*> parameters;
    for (auto& address : addresses) parameters.push_back(&address);
    uint64_t literal = work.literal;
    parameters.push_back(&literal);
    cuda::KernelNode node;
    node.function = must(module_->function(symbol_), "a kernel");
    node.grid = work.grid;
    node.block = work.block;
    node.parameters = parameters;
    must(graph_.add_kernel(node, {}), "a node");
    exec_ = std::make_unique<cuda::ExecutableGraph>(
        must(cuda::ExecutableGraph::instantiate(driver, graph_), "a graph"));
  }

  double run_us(const std::string& payload, std::string* answer) {
    const Instant begin = SystemClock().now();
    if (work_.in_bytes > 0) {
      memcpy(in_.pointer(), payload.data(), work_.in_bytes);
      must(stream_.copy_to_device(device_in_.pointer(), in_.pointer(), Bytes(work_.in_bytes)),
           "a copy");
    }
    must(exec_->launch(stream_.get()), "a launch");
    if (work_.out_bytes > 0) {
      must(stream_.copy_to_host(out_.pointer(), device_out_.pointer(), Bytes(work_.out_bytes)),
           "a copy");
    }
    must(stream_.synchronize(), "waiting");
    answer->assign(static_cast<const char*>(out_.pointer()), work_.out_bytes);
    return microseconds_since(begin);
  }
  // The driver loads the image once more.
  double load_us(const cuda::Driver& driver) const {
    const Instant begin = SystemClock().now();
    const auto module = must(cuda::Module::load(driver, image_), "an image");
    must(module.function(symbol_), "a kernel");
    return microseconds_since(begin);
  }

 private:
  const Work work_;
  cuda::Stream stream_;
  cuda::PinnedBuffer in_, out_;
  cuda::DeviceBuffer device_in_, device_out_;
  std::string image_, symbol_;
  std::unique_ptr<cuda::Module> module_;
  cuda::Graph graph_;
  std::unique_ptr<cuda::ExecutableGraph> exec_;
};

// A process that sends every message back as it came: what two hops over a socket cost here.
class Echo {
 public:
  Echo() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) std::exit(1);
    pid_ = fork();
    if (pid_ == 0) {
      close(ends[0]);
      char buffer[1 << 16];
      pollfd readable = {ends[1], POLLIN, 0};
      while (poll(&readable, 1, -1) == 1) {
        const ssize_t size = recv(ends[1], buffer, sizeof(buffer), 0);
        if (size <= 0 || send(ends[1], buffer, static_cast<size_t>(size), 0) < 0) break;
      }
      _exit(0);
    }
    close(ends[1]);
    socket_ = OwnedFd(ends[0]);
  }
  ~Echo() {
    socket_.reset();
    waitpid(pid_, nullptr, 0);
  }
  Echo(const Echo&) = delete;
  Echo& operator=(const Echo&) = delete;

  double round_trip_us(const std::string& message) {
    char buffer[1 << 16];
    const Instant begin = SystemClock().now();
    const bool good = send(socket_.get(), message.data(), message.size(), 0) > 0 &&
                      recv(socket_.get(), buffer, sizeof(buffer), 0) > 0;
    if (!good) must(Error{ErrorCode::kInternal, "lost"}, "the echo");
    return microseconds_since(begin);
  }

 private:
  pid_t pid_ = -1;
  OwnedFd socket_;
};

// Warm requests, bare calls and echoes in turns; medians of the differences within a turn.
Json compare(ExecutorUnderTest& executor, Bare& bare, Echo& echo, uint64_t instance,
             const Work& work, int turns) {
  std::string payload(work.in_bytes, '\0');
  for (size_t i = 0; i < work.in_bytes / sizeof(float); ++i) {
    const auto value = static_cast<float>(i % 7);
    memcpy(payload.data() + i * sizeof(float), &value, sizeof(value));
  }
  std::string answer, bare_answer;
  std::vector<double> added, ours, bares, insides, echoes, over_echo;
  const std::string message = payload + std::string(64, ' ');
  for (int i = 0; i < turns + 20; ++i) {
    double inside_us = 0;
    const double ours_us = executor.run_us(instance, payload, &answer, &inside_us);
    const double bare_us = bare.run_us(payload, &bare_answer);
    const double echo_us = echo.round_trip_us(message);
    if (answer != bare_answer) {
      must(Error{ErrorCode::kDataLoss, "another answer than the bare calls have"}, "a request");
    }
    if (i < 20) continue;  // the first ones warm up
    ours.push_back(ours_us);
    bares.push_back(bare_us);
    insides.push_back(inside_us);
    echoes.push_back(echo_us);
    added.push_back(ours_us - bare_us);
    over_echo.push_back(ours_us - bare_us - echo_us);
  }
  return {{"added_us", quantile(added, 0.5)},     {"added_p10_us", quantile(added, 0.1)},
          {"added_p90_us", quantile(added, 0.9)}, {"request_us", quantile(ours, 0.5)},
          {"inside_us", quantile(insides, 0.5)},  {"bare_us", quantile(bares, 0.5)},
          {"echo_us", quantile(echoes, 0.5)},     {"added_over_echo_us", quantile(over_echo, 0.5)}};
}

// A copy of a bundle that nobody has seen: another name, so another content.
std::string new_bundle(const std::string& folder, int number) {
  const std::string copy = folder + "/bundle-" + std::to_string(number);
  std::filesystem::copy(kKernels + "/vector_add", copy, std::filesystem::copy_options::recursive);
  auto manifest = must(bundle::Bundle::open(copy), "a bundle").manifest();
  manifest.name += "_" + std::to_string(number);
  manifest.content_sha256 = must(bundle::content_hash(copy, manifest), "a hash");
  must(write_file_atomically(copy + "/manifest.json", to_json(manifest), false), "a file");
  return copy;
}

// A round of one small kernel in a loop of many: with a flag that nobody sets, looked at by the
// host or by the device, and with nothing but a count. Medians of requests in turns, over their
// rounds.
Json loop_rounds(ExecutorUnderTest& executor, uint64_t first_instance, bool quick) {
  constexpr int kRounds = 1000;
  std::vector<OwnedFd> fds;
  std::vector<std::pair<std::string, int>> loops;
  const std::string folder = kKernels + "/loops";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    fds.emplace_back(open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
    loops.emplace_back("lambent:loops/" + entry.path().lexically_relative(folder).string(),
                       fds.back().get());
  }
  const auto graph = [](const std::string& until) {
    return R"({"buffers": [
      {"name": "zero", "role": "constant", "datatype": "FP32", "shape": [1], "fill": 0},
      {"name": "flag", "role": "temporary", "datatype": "FP32", "shape": [1]}],
      "steps": [{"repeat": )" +
           std::to_string(kRounds) + until + R"(, "steps": [{"kernel": "vector_add",
        "bundle": "bundles/k", "grid": [1], "block": [1], "arguments": [{"buffer": "zero"},
        {"buffer": "zero"}, {"buffer": "flag", "access": "write"},
        {"literal": 1, "datatype": "UINT32"}]}]}]})";
  };
  const std::string flag = R"(, "until": "flag")";
  const char* const names[] = {"host_round_us", "device_round_us", "counted_round_us"};
  const std::string bundle = kKernels + "/vector_add";
  // Without the kernels for it the device cannot do the loop.
  executor.add_instance_us(first_instance, bundle, graph(flag));
  executor.add_instance_us(first_instance + 1, bundle, graph(flag), {.files = loops});
  executor.add_instance_us(first_instance + 2, bundle, graph(""));
  std::vector<double> rounds_us[std::size(names)];
  for (int turn = 0; turn < (quick ? 5 : 30); ++turn) {
    for (size_t i = 0; i < std::size(names); ++i) {
      std::string answer;
      double inside_us = 0;
      const double took_us = executor.run_us(first_instance + i, "", &answer, &inside_us);
      if (turn > 0) rounds_us[i].push_back(took_us / kRounds);
    }
  }
  Json result;
  for (size_t i = 0; i < std::size(names); ++i) result[names[i]] = quantile(rounds_us[i], 0.5);
  result["host_over_device"] =
      result["host_round_us"].get<double>() / result["device_round_us"].get<double>();
  return result;
}

double load_of_machine() {
  double load = 0;
  std::ifstream("/proc/loadavg") >> load;
  return load;
}

}  // namespace

int main(int count, char** words) {
  bool quick = false, gpu = false;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    quick = quick || word == "--quick";
    gpu = gpu || word == "--gpu";
    if (word != "--quick" && word != "--gpu") {
      return std::fprintf(stderr, "usage: kernel_bench [--quick] [--gpu]\n"), 3;
    }
  }
  const double load = load_of_machine();
  char folder_name[] = "/tmp/kernel_bench_XXXXXX";
  const std::string folder = mkdtemp(folder_name);
  if (!gpu) {
    setenv("EMULATED_CUDA_CONFIG", "tiny", 1);
    setenv("EMULATED_CUDA_NODE", (folder + "/bare.node").c_str(), 1);
    dlopen(LAMBENT_BINARY_DIR "/lib/emulated/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  }
  Json result = {{"bench", "kernel"}, {"quick", quick}, {"emulated", !gpu}};
  Echo echo;  // made before there are threads
  {
    ExecutorUnderTest executor(folder, gpu);
    const auto driver = must(cuda::Driver::load(), "the driver");
    const auto context = must(cuda::Context::create(*driver, 0), "a context");
    const auto capability = must(context.compute_capability(), "the device");
    const Work works[] = {noop(), matmul()};
    const int turns = quick ? 300 : 3000;
    Json details;
    uint64_t instances = 0;
    for (const Work& work : works) {
      Bare bare(*driver, capability, work);
      executor.add_instance_us(++instances, kKernels + "/" + work.bundle, work.graph);
      const char* name = instances == 1 ? "noop" : "matmul";
      details[name] = compare(executor, bare, echo, instances, work, turns);
      result[std::string(name) + "_added_us"] = details[name]["added_us"];
    }
    result["end_to_end_us"] = nullptr;  // through the worker: not measured here

    // Many instances, each with a request under way.
    const uint64_t first = instances + 1;
    const int concurrent = 8;
    for (int i = 0; i < concurrent; ++i) {
      executor.add_instance_us(++instances, kKernels + "/occupy", works[0].graph);
    }
    const int requests = quick ? 2'000 : 20'000;
    const Instant begin = SystemClock().now();
    for (int i = 0; i < concurrent; ++i) executor.ask(first + static_cast<uint64_t>(i), "");
    for (int answered = 0, asked = concurrent; answered < requests; ++answered) {
      const auto finished = executor.receive<protocol::Finished>();
      if (asked < requests) {
        executor.ask(finished.invocation.low, "");
        ++asked;
      }
    }
    result["rps"] = requests / (microseconds_since(begin) * 1e-6);

    // New functions: the package's files to InstanceReady, and the driver's part of that.
    std::vector<double> cold, loads, warm;
    Work added = noop();
    added.bundle = added.kernel = "vector_add";
    added.literal = 0;
    const std::string graph = R"({"buffers": [
      {"name": "a", "role": "input", "datatype": "FP32", "shape": [4]},
      {"name": "c", "role": "output", "datatype": "FP32", "shape": [4]}],
      "steps": [{"kernel": "vector_add", "bundle": "bundles/k", "grid": [1], "block": [4],
        "arguments": [{"buffer": "a"}, {"buffer": "a"}, {"buffer": "c"},
                      {"literal": 4, "datatype": "UINT32"}]}]})";
    added.in_bytes = added.out_bytes = 16;
    added.pointers = {{0, 0}, {0, 0}, {1, 0}};
    const Bare bare(*driver, capability, added);
    for (int i = 0; i < (quick ? 15 : 60); ++i) {
      const std::string bundle = new_bundle(folder, i);
      loads.push_back(bare.load_us(*driver) / 1e3);
      cold.push_back(executor.add_instance_us(++instances, bundle, graph) / 1e3);
      // The same bundle once more: everything but its load.
      warm.push_back(executor.add_instance_us(++instances, bundle, graph) / 1e3);
    }
    result["loop"] = loop_rounds(executor, instances + 1, quick);
    result["cold_ms"] = quantile(cold, 0.5);
    result["cold_load_ms"] = quantile(loads, 0.5);
    result["cold_known_bundle_ms"] = quantile(warm, 0.5);
    result["details"] = details;
    result["details"]["cold_p90_ms"] = quantile(cold, 0.9);
  }
  std::filesystem::remove_all(folder);
  result["machine"] = {{"cores", std::thread::hardware_concurrency()},
                       {"load_1min_at_start", load}};

  std::printf("%-10s %12s %12s %12s %12s %12s\n", "us, median", "request", "inside", "bare",
              "added", "echo");
  for (const char* name : {"noop", "matmul"}) {
    const Json& row = result["details"][name];
    std::printf("%-10s %12.1f %12.1f %12.1f %12.1f %12.1f\n", name, row["request_us"].get<double>(),
                row["inside_us"].get<double>(), row["bare_us"].get<double>(),
                row["added_us"].get<double>(), row["echo_us"].get<double>());
  }
  std::printf(
      "new function %.2f ms (the driver's load %.2f ms); %.0f requests a second, 8 instances\n",
      result["cold_ms"].get<double>(), result["cold_load_ms"].get<double>(),
      result["rps"].get<double>());
  std::printf(
      "a round of a loop: %.1f us by the host, %.1f by the device, %.1f where it is counted\n",
      result["loop"]["host_round_us"].get<double>(),
      result["loop"]["device_round_us"].get<double>(),
      result["loop"]["counted_round_us"].get<double>());
  std::printf("%s\n", result.dump().c_str());
  return 0;
}
