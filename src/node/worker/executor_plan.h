// What the sandbox of a lambent-executor looks like: from the node's paths to a LaunchPlan. Pure;
// used by ExecutorHost on the loop thread.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/domain/executor_pool.h"
#include "core/domain/limits.h"
#include "node/sandbox/plan.h"
#include "node/worker/sandbox_plan.h"

namespace lambent::worker {

// What all executors of a node have in common.
struct ExecutorSetting {
  std::string program;   // path of lambent-executor
  std::string built_in;  // holds the bundles that graphs call lambent:NAME
  GpuDriver gpu;
  Bytes device_memory;                 // of the largest device
  Bytes host_memory = Bytes::gib(16);  // that one executor may use: what it caches, above all
  // How long one stays that nothing uses, and how many a device has at most while it can be helped.
  Duration keep_alive = std::chrono::minutes(10);
  size_t most_on_device = 3;
  // What becomes of buffers' device memory between requests, and, where it goes, after how long.
  ExecutorPool pool = ExecutorPool::kResilient;
  Duration pool_hold = seconds(1);
  // Each a libcublas.so, for built-in linear algebra: the first that works. None: our own kernels.
  std::vector<std::string> cublas;
  // Functions take turns on the link, block by block; else each copy is done before the next.
  bool transfers_take_turns = true;
  // Executors of a tenant export objects to each other that lie on the device; else these come from
  // the host.
  bool share_objects = true;
  // Objects stay on devices as far as functions leave memory idle, and are evicted for them; else
  // they have no more than what functions have there.
  bool elastic_objects = true;
  Bytes context_memory;  // what an executor's context takes of its device
  // What a start may take, or as long as its function may run, if that is longer.
  Duration init_timeout = limits::kInitTimeout;
};

struct ExecutorRequest {
  SandboxId executor;
  DeviceId device;
  bool modelled = false;       // how the emulated driver runs kernels; ignored by a real one
  std::string socket_path;     // where it finds the worker
  std::string link_path = {};  // where it gets its turns on the device's link; empty: nowhere
  // Devices that no process should open: a driver may fail with them.
  std::set<DeviceId> hidden = {};
};

// What the calls of cuBLAS of one function work in (gpu/executor/program_compiler.cc).
inline constexpr Bytes kCallWorkspace = Bytes::mib(4);

inline constexpr char kExecutorProgram[] = "/opt/lambent/lambent-executor";
inline constexpr char kCublasFolder[] = "/opt/lambent/cublas";  // and a number
inline constexpr char kExecutorSocket[] = "/opt/lambent/executor";

// The devices that an executor sees, in the order of its ordinals: its own, and after it those
// whose objects it may import, if they can reach each other. MIG instances see only themselves: a
// process has one of them at most.
std::vector<DeviceId> devices_seen(const ExecutorSetting& setting, const ExecutorRequest& request);

sandbox::LaunchPlan plan_executor(const ExecutorSetting& setting, const ExecutorRequest& request);

}  // namespace lambent::worker
