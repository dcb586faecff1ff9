// lambent-device: reads the node's devices through NVML and tells the worker over a socket. A
// process of its own because NVML calls can hang; it holds nothing of any tenant and ends with its
// socket. On a second thread, which no hanging NVML holds up, it gives functions their turns on the
// devices' links and leases them host memory.
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <optional>
#include <thread>

#include "bin/driver_description.h"
#include "core/base/time.h"
#include "gpu/monitor/driver_facts.h"
#include "gpu/monitor/memory_service.h"
#include "gpu/monitor/nvml.h"

namespace {

using namespace lambent;

constexpr size_t kMostFaultsARound = 64;
// CUDA's driver may take seconds to start on a node with many devices; what it says matters on one
// with an integrated device, where it is quick.
constexpr Duration kDriverGracePeriod = seconds(5);

enum class Sent { kYes, kSocketFull, kWorkerGone };

Sent send_message(int socket, const protocol::DeviceMessage& message) {
  const std::string bytes = protocol::encode(message);
  const ssize_t sent = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent >= 0) return Sent::kYes;
  return errno == EAGAIN || errno == EINTR ? Sent::kSocketFull : Sent::kWorkerGone;
}

// Xids are told once, so those that find the socket full wait for the next round. NVML keeps what
// is not fetched meanwhile.
class FaultReport {
 public:
  FaultReport(monitor::Nvml& nvml, int socket) : nvml_(nvml), socket_(socket) {}

  // False if the worker is gone.
  bool send() {
    if (untold_.faults.empty()) untold_.faults = nvml_.take_faults(kMostFaultsARound);
    if (untold_.faults.empty()) return true;
    const Sent sent = send_message(socket_, untold_);
    if (sent == Sent::kYes) untold_.faults.clear();
    return sent != Sent::kWorkerGone;
  }

 private:
  monitor::Nvml& nvml_;
  int socket_;
  protocol::DevicesFaulted untold_;
};

// Waits for the next period; false if the worker hung up meanwhile.
bool wait_until(int socket, Instant next, const Clock& clock) {
  for (;;) {
    const Duration left = next - clock.now();
    if (left <= Duration::zero()) return true;
    pollfd hang_up = {socket, 0, 0};
    const auto left_ms = std::chrono::ceil<milliseconds>(left).count();
    if (poll(&hang_up, 1, static_cast<int>(left_ms)) > 0) return false;
  }
}

void print_complaints(monitor::Nvml& nvml) {
  for (const std::string& complaint : nvml.take_complaints()) {
    std::fprintf(stderr, "lambent-device: %s\n", complaint.c_str());
  }
}

// A reading that finds the socket full is dropped: the worker is busy, and the next is better.
// Xids go first: what is wrong with the device may make its reading hang.
int report(monitor::Nvml& nvml, int socket, Duration period) {
  const SystemClock clock;
  FaultReport faults(nvml, socket);
  if (send_message(socket, protocol::DevicesFound{nvml.devices()}) == Sent::kWorkerGone) return 0;
  Instant next = clock.now();
  for (uint64_t sequence = 1; wait_until(socket, next, clock); ++sequence) {
    if (!faults.send()) return 0;
    const protocol::DevicesRead read{sequence, nvml.read()};
    if (send_message(socket, read) == Sent::kWorkerGone) return 0;
    nvml.watch_those_that_answer();
    print_complaints(nvml);
    // After a slow reading go on from now; do not catch up.
    next = std::max(next + period, clock.now());
  }
  return 0;
}

// Serves the functions' shims on a thread of its own for as long as the worker lives.
class MemoryThread {
 public:
  MemoryThread(OwnedFd control, const monitor::MemoryServiceOptions& options)
      : loop_(clock_), service_(loop_, std::move(control), options, [this] { loop_.stop(); }) {
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~MemoryThread() {
    loop_.stop();
    thread_.join();
  }
  MemoryThread(const MemoryThread&) = delete;
  MemoryThread& operator=(const MemoryThread&) = delete;

 private:
  SystemClock clock_;
  loop::EventLoop loop_;
  monitor::MemoryService service_;
  std::thread thread_;
};

// Signals meant for the worker's process group, such as Ctrl-C's, are the worker's business: while
// it stops, its devices are watched as before. We end when it closes the socket.
void leave_signals_to_worker() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) ::signal(number, SIG_IGN);
}

}  // namespace

int main(int count, char** words) {
  CLI::App app("Reads the node's devices through NVML and sends what it reads over a socket.");
  std::string nvml_path = "libnvidia-ml.so.1";
  int socket = -1;
  int period_ms = 200;
  int memory_socket = -1;
  uint64_t host_memory = 0;
  bool sparse_leases = false;
  app.add_option("--nvml", nvml_path, "The NVML library, by path or by name")
      ->capture_default_str();
  std::string sysfs = "/sys";
  app.add_option("--sysfs", sysfs, "Where the kernel describes devices")->capture_default_str();
  std::string driver_folder;
  app.add_option("--driver-folder", driver_folder,
                 "Holds libcuda.so.1, which is asked what NVML does not tell of devices");
  bool describes = false;
  CLI::Option* describe =
      app.add_flag("--describe-driver", describes,
                   "Print what CUDA's driver, among the libraries, says of its devices, and end");
  bool tells_version = false;
  CLI::Option* tell_version =
      app.add_flag("--cuda-version", tells_version,
                   "Print the version of CUDA that the driver was made for, and end");
  app.add_option("--socket-fd", socket, "A connected SOCK_SEQPACKET socket")
      ->check(CLI::NonNegativeNumber)
      ->excludes(describe)
      ->excludes(tell_version);
  app.add_option("--period-ms", period_ms, "Time between two readings")
      ->capture_default_str()
      ->check(CLI::Range(10, 60'000));
  app.add_option("--memory-socket-fd", memory_socket,
                 "A connected SOCK_SEQPACKET socket that names the sandboxes to serve")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--host-memory", host_memory,
                 "Bytes of host memory to lease for device memory that is moved out");
  app.add_flag("--sparse-leases", sparse_leases,
               "Leases take host memory when they are written, and for the account of the writer");
  CLI11_PARSE(app, count, words);
  if (describes) return describe_driver();
  if (tells_version) return print_cuda_version();
  if (socket < 0) return std::fprintf(stderr, "lambent-device: --socket-fd is required\n"), 3;
  leave_signals_to_worker();

  std::optional<MemoryThread> memory;
  if (memory_socket >= 0) {
    memory.emplace(
        OwnedFd(memory_socket),
        monitor::MemoryServiceOptions{.budget = Bytes(host_memory), .sparse = sparse_leases});
  }
  std::vector<monitor::DriverFacts> facts;
  if (!driver_folder.empty()) {
    facts = monitor::ask_driver("/proc/self/exe", driver_folder, kDriverGracePeriod);
  }
  auto nvml = monitor::Nvml::open(nvml_path, sysfs, std::move(facts));
  if (!nvml.ok()) {
    std::fprintf(stderr, "lambent-device: %s\n", to_string(nvml.error()).c_str());
    send_message(socket, protocol::DevicesUnavailable{nvml.error().message});
    return exit_code_of(nvml.error().code);
  }
  return report(**nvml, socket, milliseconds(period_ms));
}
