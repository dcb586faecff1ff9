// WorkerMetrics: what a worker counts, and its Prometheus text. Used on the worker's loop thread.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/domain/function.h"
#include "core/domain/invocation.h"

namespace lambent::metrics {

class WorkerMetrics {
 public:
  // `version` is told by lambent_build_info.
  explicit WorkerMetrics(const std::string& version);
  ~WorkerMetrics();
  WorkerMetrics(const WorkerMetrics&) = delete;
  WorkerMetrics& operator=(const WorkerMetrics&) = delete;

  // An invocation has its outcome. One that was refused because too much waits is counted and has
  // no part in the latencies.
  void completed(const FunctionName& function, const InvocationResult& result);
  void sandbox_started(Duration sandbox_time, Duration init_time);
  // A sandbox was forked from a zygote, and did not start a program.
  void sandbox_forked();
  // A zygote is "ready", has "failed" or was "retired".
  void zygote(std::string_view event);
  // A new sandbox was sent what its function is warmed up with.
  void warm_up(bool succeeded);
  // Programs of the function were refused connections or names, so many times.
  void network_refused(const FunctionName& function, uint64_t times);
  // Device memory of a sandbox was moved, off its device or back.
  void memory_moved(bool out, Bytes moved, Duration duration);
  // A running sandbox asked for memory that was offloaded, and may fetch it or not.
  void memory_wanted(bool granted);
  // A request of a function with an SLO ended, in time or not.
  void slo(const FunctionName& function, bool in_time);
  // So many calls of the kernel function were made as one.
  void batched(const FunctionName& function, size_t calls);
  // An asynchronous invocation is tried again: its run failed, or it could not run.
  void retried(const FunctionName& function, bool failed);
  // The outcome of one was to be told to its destination, under this condition, and was sent or
  // not.
  void destination(const FunctionName& function, std::string_view condition, bool sent);
  // How many wait to be tried again.
  void set_waiting_for_retry(uint64_t waiting);
  // The function is gone, and its series with it.
  void forget(const FunctionName& function);
  // Those that have series: of the functions that were invoked, the last
  // limits::kFunctionsWithMetrics, so that a scrape is bounded however many there are.
  std::vector<FunctionName> functions() const;

  // Gauges, set just before the text is asked for.
  struct FlowGauges {
    uint64_t pending = 0;
    uint64_t running = 0;
    Duration virtual_time{};
  };
  // Of a function that was never invoked nothing is told.
  void set_flow(const FunctionName& function, const FlowGauges& gauges);
  // Of one schedule of a function. `begun` and `missed` are since the worker's start.
  struct ScheduleGauges {
    FunctionName function;
    std::string schedule;
    uint64_t begun = 0;
    uint64_t missed = 0;
    std::optional<std::chrono::seconds> last = {};  // since the Unix epoch; none: it never was
    std::optional<std::chrono::seconds> next = {};  // none: it is disabled, or never comes
  };
  // All that there are. The series of one that is not among them go, so that there are no more than
  // schedules.
  void set_schedules(const std::vector<ScheduleGauges>& schedules);
  struct DeviceGauges {
    Bytes memory_total;
    Bytes memory_used;       // by NVML
    Bytes memory_committed;  // by admission
    Bytes memory_resident;   // by what dispatch knows of moves; zero where nothing moves
    Bytes memory_taken;      // by executors, beside what functions were promised
    double utilisation = 0;  // 0..1
    unsigned tokens = 0;
    unsigned tokens_held = 0;
    unsigned tokens_reserved = 0;  // kept for a function that takes several GPUs
    uint64_t executors = 0;        // that are ready there
    bool healthy = true;
  };
  void set_device(DeviceId device, const DeviceGauges& gauges);
  // How often each Xid was reported; never less than the last time.
  void set_xids(DeviceId device, const std::map<uint32_t, uint64_t>& xids);
  // A slice of a pipeline worker: what it is, how long components ran on it since the worker began
  // (never less than the last time), and whether an instance has it.
  void set_slice(DeviceId slice, const std::string& shape, Duration busy, bool held);
  // How many executors have ended so; never less than the last time.
  void set_executor_ends(std::string_view how, uint64_t count);
  // Sandboxes that were started ahead of calls so far: "started", "used" by a call, "wasted".
  void set_starts_ahead(std::string_view what, uint64_t count);
  // How long components ran on any slice of that GPU since the worker began (never less than the
  // last time).
  void set_gpu_time(uint32_t gpu, Duration busy);
  // How many sandboxes are in each state.
  void set_sandboxes(const std::map<std::string, uint64_t>& by_state);
  // Host memory that all of them use now.
  void set_host_memory(Bytes memory);
  void set_queued(uint64_t queued);
  // Device memory that is on the host, of all GPUs.
  void set_memory_on_host(Bytes memory);

  struct ObjectGauges {
    uint64_t objects = 0;
    uint64_t expected = 0;
    uint64_t waiting = 0;  // requests and invocations that wait for one
    Bytes memory;
    Bytes disk;
    // Since the worker's start; never less than the last time.
    uint64_t stored = 0;
    uint64_t failed = 0;
    uint64_t expired = 0;
    uint64_t spilled = 0;
    uint64_t read_back = 0;
    uint64_t lost = 0;
    uint64_t refused = 0;
    uint64_t waits = 0;
    uint64_t timed_out = 0;
  };
  void set_objects(const ObjectGauges& gauges);

  // Of a listener that is encrypted.
  struct TlsGauges {
    Duration expires_at{};  // of the certificate in use, since the Unix epoch
    // Since the worker's start; never less than the last time.
    uint64_t full_handshakes = 0;
    uint64_t resumed_handshakes = 0;
    uint64_t failed_handshakes = 0;
    uint64_t reloads = 0;
    uint64_t failed_reloads = 0;
  };
  void set_tls(const TlsGauges& gauges);

  struct ObjectMoves {
    Bytes on_devices;  // what objects take of all devices
    // Since the worker's start; never less than the last time.
    struct Way {
      std::string_view name;
      uint64_t objects = 0;
      Bytes bytes;
    };
    std::array<Way, 3> ways;
    std::array<Way, 3> reads;  // of executors, by where they had the object from
    std::array<Way, 5> kept;   // only on a device at first, by what became of them
  };
  void set_object_moves(const ObjectMoves& moves);

  // The disk of the state folder.
  void set_state_disk(Bytes free, bool full);

  // Prometheus text format 0.0.4.
  std::string text() const;
  // Only what has the label of this tenant.
  std::string text_of(TenantId tenant) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lambent::metrics
