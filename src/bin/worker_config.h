// WorkerConfig: every flag of lambent-worker as one typed value, printed at start. Used by its
// main.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bin/listen_options.h"
#include "core/base/log.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/base/units.h"
#include "core/domain/executor_pool.h"
#include "core/domain/function.h"
#include "core/domain/function_limits.h"
#include "decide/dispatch/options.h"
#include "decide/routing/policy.h"
#include "decide/scheduling/make_policy.h"
#include "edge/frontend/access_log.h"
#include "edge/frontend/authenticator.h"
#include "edge/frontend/shared_memory_owner.h"
#include "node/sandbox/zygote_limits.h"
#include "node/worker/limits.h"

namespace lambent {

enum class GpuKind { kNone, kEmulated, kNvidia };
// How much executors do for objects to stay off the link: see --executor-objects.
enum class ExecutorObjects { kHost, kShared, kElastic };

struct WorkerConfig {
  ListenOptions listen;
  frontend::AuthMode auth = frontend::AuthMode::kNone;
  std::string audit_log;     // empty: none is kept
  std::string node_key;      // the file of it
  std::string state_folder;  // catalog and code
  std::string run_folder;    // ledgers, the emulated GPU's node file
  GpuKind gpu = GpuKind::kEmulated;
  bool chooses_gpu = false;  // main chooses `gpu`
  std::string gpu_reason;    // why it is that; empty: the command line says so
  bool leaves_gpu = false;   // there are some of NVIDIA's that cannot be used
  std::string gpu_preset = "v100-16gb";
  double time_scale = 1;
  double memory_scale = 1;
  std::string nvidia_driver_folder;  // of libcuda.so.1; empty: searched for
  std::optional<Bytes> context_memory;
  // For device memory that is moved off a GPU; zero: none is. Main sets it where the command line
  // does not.
  std::optional<Bytes> host_memory;
  // For sandboxes without a GPU, together; zero: no limit.
  std::optional<Bytes> sandbox_memory;
  WorkingSet working_set = WorkingSet::kWhole;  // of functions that do not say
  std::string managed_memory = "prefetch";      // how memory of mode uvm comes in
  unsigned sandbox_pool = 4;                    // sandboxes kept ready to start
  unsigned zygotes = limits::kZygotes;          // processes that Python sandboxes are forked from
  std::string policy{scheduling::kDefaultPolicy};
  std::vector<std::string> settings;    // KEY=VALUE of the scheduler
  std::string max_queue_time = "auto";  // or seconds; 0: no bound
  unsigned most_sandboxes = 64;
  unsigned concurrency = 2;  // D, per device
  // D by utilisation instead, where NVML tells it; elsewhere `concurrency` holds.
  std::optional<scheduling::UtilisationOptions> by_utilisation;
  Duration utilisation_average{};                   // over which its readings are smoothed for that
  Duration longest_gpu_run = limits::kMostTimeout;  // of functions that take turns on a GPU
  bool near_gpu = true;  // functions stay on the processors near their GPU
  Duration keep_alive = std::chrono::minutes(10);
  Duration drain_time = seconds(30);
  // Of asynchronous invocations that failed, where their functions do not say.
  unsigned async_retries = 0;
  Duration async_retry_delay = std::chrono::minutes(1);
  // Of executors: see node/worker/executor_plan.h.
  ExecutorPool executor_pool = ExecutorPool::kResilient;
  Duration executor_pool_hold = seconds(1);
  bool executor_transfers_take_turns = true;
  ExecutorObjects executor_objects = ExecutorObjects::kShared;
  std::string cublas = "auto";  // or "off", or the path of a library
  bool require_strong_limits = false;
  // Functions' logs, in the state folder; zero bytes: they end with the worker.
  Bytes function_log_size = limits::kLogPerFunction;
  Duration function_log_age = std::chrono::hours(24 * 7);
  // Of every event of dispatch; empty: none. One that was not asked for is smaller, and what keeps
  // the worker from writing it does not keep it from serving.
  std::string journal_folder = "auto";
  bool journal_is_usual = false;
  Bytes journal_size = Bytes::mib(1024);
  // Of objects: host memory, disk in the state folder (zero: none is spilled), and what one tenant
  // may have of both.
  Bytes object_memory = Bytes::gib(1);
  Bytes object_disk = Bytes::gib(8);
  std::optional<Bytes> object_quota;
  std::vector<std::string> peers;  // other nodes, where objects that are unknown here are sought
  // Of a cluster: see docs/operate/cluster.md. Without a key this node is in none.
  std::string node_name;                   // empty: the machine's
  std::string cluster_key;                 // the file of it
  std::vector<std::string> cluster_nodes;  // NAME=URL of all, this one too; the first is the home
  std::string catalog;  // postgresql://…, which all nodes share; empty: each has its own
  std::string cluster_policy{routing::kDefaultPolicy};
  std::optional<Bytes>
      volume_copies;  // disk for copies of other nodes' volumes; nothing: all of it
  std::string pipeline_slices = "none";  // devices that serve pipelines: node/worker/slice_choice.h
  std::string slice_policy;              // who gets which of them; empty: the default
  std::string python = "/usr/bin/python3";
  // Of functions' Python packages: see node/environments/store.h.
  std::string uv;               // the program; empty: searched for
  std::string python_index;     // URL, or @FILE that holds it; empty: PyPI
  std::string python_wheels;    // a folder
  bool python_offline = false;  // nothing but that folder
  Bytes environments_size = Bytes::gib(20);
  Duration environment_timeout = std::chrono::minutes(30);
  // Of functions' images: see node/images/store.h.
  std::vector<std::string> image_registries;
  std::string registry_auth;  // a file
  Bytes images_size = Bytes::gib(40);
  // Folders of the host that functions may mount: see node/volumes/host_folders.h.
  std::vector<std::string> mount_allow;
  // Whose shared memory which tenant may register; empty: it is off.
  std::vector<frontend::SharedMemoryOwner> shared_memory;
  NetworkBounds network;      // of what functions may ask for
  std::string otlp_endpoint;  // of a collector; empty: nothing is exported
  std::string access_log;     // a file, or "-"; empty: there is none
  frontend::AccessLogFormat access_log_format = frontend::AccessLogFormat::kJson;
  LogFormat log_format = LogFormat::kText;
  LogLevel log_level = LogLevel::kInfo;
  std::string fault_point;  // of a test: see core/base/fault_points.h; empty: none
};

// Reads the command line. The exit code to end with, after --help or a mistake; nullopt to go on.
std::optional<int> parse_worker_config(int argc, char** argv, WorkerConfig& config);

}  // namespace lambent
