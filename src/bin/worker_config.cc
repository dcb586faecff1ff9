#include "bin/worker_config.h"

#include <pwd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <utility>
#include <vector>

#include "bin/flag_checks.h"
#include "bin/former_names.h"
#include "bin/lambent_paths.h"
#include "bin/pool_flags.h"
#include "bin/scheduler_settings.h"
#include "bin/shown_names.h"
#include "bin/usage.h"
#include "core/base/fault_points.h"
#include "core/base/time.h"
#include "core/domain/async_limits.h"
#include "core/domain/function_limits.h"
#include "decide/scheduling/make_policy.h"
#include "decide/slice_scheduling/make_policy.h"
#include "node/catalog/backup.h"
#include "node/catalog/postgres_database.h"
#include "node/catalog/shared_schema.h"

namespace lambent {
namespace {

constexpr Bytes kLeastEnvironments = Bytes::mib(1);

const std::vector<std::pair<std::string, LogFormat>> kFormats = {{"text", LogFormat::kText},
                                                                 {"json", LogFormat::kJson}};
const std::vector<std::pair<std::string, frontend::AccessLogFormat>> kAccessFormats = {
    {"json", frontend::AccessLogFormat::kJson}, {"combined", frontend::AccessLogFormat::kCombined}};
const std::vector<std::pair<std::string, frontend::AuthMode>> kAuthModes = {
    {"none", frontend::AuthMode::kNone}, {"tokens", frontend::AuthMode::kTokens}};
const std::vector<std::pair<std::string, WorkingSet>> kWorkingSets = {
    {"whole", WorkingSet::kWhole}, {"touched", WorkingSet::kTouched}};
const std::vector<std::pair<std::string, LogLevel>> kLevels = {{"debug", LogLevel::kDebug},
                                                               {"info", LogLevel::kInfo},
                                                               {"warning", LogLevel::kWarning},
                                                               {"error", LogLevel::kError}};

// What its short help has.
const std::vector<std::string_view> kUsual = {
    "--listen",     "--state",       "--gpu",  "--policy",  "--concurrency",     "--pool",
    "--keep-alive", "--host-memory", "--auth", "--journal", "--pipeline-slices", "--log-level",
    "--check"};

// As root /var/lib and /run, otherwise the user's own folders.
void default_folders(WorkerConfig& config) {
  const char* run = std::getenv("XDG_RUNTIME_DIR");
  const bool has_run = run != nullptr && *run != '\0';
  const bool root = geteuid() == 0;
  config.state_folder = bin::default_state_folder();
  config.run_folder = root      ? "/run/lambent"
                      : has_run ? std::string(run) + "/lambent"
                                : "/tmp/lambent-" + std::to_string(geteuid());
}

Result<void> read_gpu(const std::string& text, WorkerConfig& config) {
  const size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  if (text == "auto") {
    config.chooses_gpu = true;
  } else if (kind == "none") {
    config.gpu = GpuKind::kNone;
  } else if (kind == "nvidia") {
    config.gpu = GpuKind::kNvidia;
  } else if (kind == "emulated") {
    config.gpu = GpuKind::kEmulated;
    if (colon != std::string::npos) config.gpu_preset = text.substr(colon + 1);
  } else {
    return Error{ErrorCode::kInvalidArgument,
                 "--gpu is auto, none, nvidia, emulated or emulated:PRESET, not '" + text + "'"};
  }
  return {};
}

// An amount that FLAG gives; nothing if it was not given.
Result<std::optional<Bytes>> read_amount(const char* flag, const std::string& text) {
  if (text.empty()) return std::optional<Bytes>();
  auto amount = parse_bytes(text);
  if (!amount.ok()) {
    return Error{ErrorCode::kInvalidArgument, std::string(flag) + ": " + amount.error().message};
  }
  return std::optional<Bytes>(*amount);
}

// The flags come in groups. Each adds its flags, which CLI11 reads into the group or the config,
// and after parsing puts into the config what needs a look first.

class GpuFlags {
 public:
  GpuFlags(CLI::App& app, WorkerConfig& config) {
    app.add_option(
           "--gpu", gpu_,
           "auto: NVIDIA's where they can be used, else emulated:" + config.gpu_preset +
               "; or none, nvidia, emulated or emulated:PRESET (PRESET-xN: N of them; or a .toml "
               "file)")
        ->capture_default_str();
    time_scale_ = app.add_option("--time-scale", config.time_scale,
                                 "emulated GPU: modelled seconds per second")
                      ->check(bin::within(0.001, 100000.0));
    memory_scale_ = app.add_option("--memory-scale", config.memory_scale,
                                   "emulated GPU: reported over real bytes")
                        ->check(bin::within(1.0, 100000.0));
    app.add_option("--nvidia-driver", config.nvidia_driver_folder,
                   "folder of NVIDIA's libcuda.so.1, if it is not found");
    context_ = app.add_option("--context-memory", context_mib_,
                              "MiB that a CUDA context takes of a GPU (default: 512, or a 48th "
                              "of the memory)")
                   ->check(CLI::Range(0, 65536));
    app.add_option(
        "--host-memory", host_memory_,
        "host memory for device memory that is moved off a GPU while its function rests, "
        "such as 64G; 0: it stays (default: half of what is available)");
    app.add_option("--working-set", config.working_set,
                   "what of a function's device memory comes in again before it runs, unless its "
                   "manifest says: whole, or touched: what it has used recently (default: whole)")
        ->transform(bin::one_of(kWorkingSets));
    app.add_option("--managed-memory", config.managed_memory,
                   "how memory of mode uvm comes back to a GPU: prefetch (before a run), advise "
                   "(told to the driver) or faults (as kernels touch it)")
        ->check(CLI::IsMember({"prefetch", "advise", "faults"}))
        ->capture_default_str();
  }

  Result<void> read(WorkerConfig& config) const {
    RETURN_IF_ERROR(read_gpu(gpu_, config));
    // Who scales a GPU means the emulated one.
    if (time_scale_->count() + memory_scale_->count() > 0) config.chooses_gpu = false;
    ASSIGN_OR_RETURN(config.host_memory, read_amount("--host-memory", host_memory_));
    if (context_->count() > 0) config.context_memory = Bytes::mib(context_mib_);
    return {};
  }

 private:
  std::string gpu_ = "auto";
  uint64_t context_mib_ = 0;
  CLI::Option* context_ = nullptr;
  CLI::Option* time_scale_ = nullptr;
  CLI::Option* memory_scale_ = nullptr;
  std::string host_memory_;
};

class PolicyFlags {
 public:
  PolicyFlags(CLI::App& app, WorkerConfig& config)
      : concurrency_(std::to_string(config.concurrency)) {
    app.add_option("--policy", config.policy, "who runs next; see docs/reference/scheduling.md")
        ->check(bin::shown_names(scheduling::policy_names()))
        ->capture_default_str();
    app.add_option(
           "--concurrency", concurrency_,
           "D: invocations at once on a GPU; auto: one more while the GPU's utilisation is low")
        ->capture_default_str();
    threshold_ =
        app.add_option(
               "--utilisation-threshold", utilisation_.threshold,
               "--concurrency auto: no more is begun while the utilisation is at or above this")
            ->check(bin::within(0.01, 1.0))
            ->capture_default_str();
    most_ = app.add_option("--most-concurrency", utilisation_.most,
                           "--concurrency auto: D at most, whatever the utilisation")
                ->check(CLI::Range(1, 1024))
                ->capture_default_str();
    average_ = app.add_option("--utilisation-average", average_s_,
                              "--concurrency auto: seconds over which the utilisation is averaged "
                              "(0: only the last reading counts)")
                   ->check(bin::within(0.0, 3600.0))
                   ->capture_default_str();
  }

  Result<void> read(WorkerConfig& config) const {
    if (concurrency_ == "auto") {
      config.by_utilisation = utilisation_;
      config.utilisation_average = from_seconds(average_s_);
      return {};
    }
    if (threshold_->count() + most_->count() + average_->count() > 0) {
      return Error{ErrorCode::kInvalidArgument,
                   "--utilisation-threshold, --utilisation-average and --most-concurrency are for "
                   "--concurrency auto"};
    }
    char* end = nullptr;
    const unsigned long number = std::strtoul(concurrency_.c_str(), &end, 10);
    const bool is_number =
        !concurrency_.empty() && concurrency_.size() <= 4 && *end == '\0' && concurrency_[0] != '-';
    if (!is_number || number < 1 || number > 1024) {
      return Error{ErrorCode::kInvalidArgument,
                   "--concurrency is 1 to 1024, or auto, not '" + concurrency_ + "'"};
    }
    config.concurrency = static_cast<unsigned>(number);
    return {};
  }

 private:
  std::string concurrency_;
  scheduling::UtilisationOptions utilisation_;
  CLI::Option* threshold_ = nullptr;
  CLI::Option* most_ = nullptr;
  double average_s_ = 0;
  CLI::Option* average_ = nullptr;
};

class ExecutorFlags {
 public:
  ExecutorFlags(CLI::App& app, WorkerConfig& config)
      : pool_hold_s_(to_seconds(config.executor_pool_hold)) {
    bin::add_pool_rule(app, "--executor-pool", config.executor_pool);
    app.add_option("--executor-pool-hold", pool_hold_s_,
                   "--executor-pool resilient: seconds without a request after which a function's "
                   "buffers give theirs back")
        ->check(bin::within(0.0, 3600.0))
        ->capture_default_str();
    app.add_option(
           "--executor-transfers", config.executor_transfers_take_turns,
           "the order of an executor's copies over the link: turns (functions in turn, block "
           "by block), first-come (one copy after the other)")
        ->type_name("TEXT")
        ->transform(bin::one_of<bool>({{"turns", true}, {"first-come", false}}))
        ->default_str("turns");
    app.add_option(
           "--executor-objects", config.executor_objects,
           "where executors take objects from: host, shared (also a device that has them) or "
           "elastic (idle memory of devices keeps them too)")
        ->type_name("TEXT")
        ->transform(bin::one_of<ExecutorObjects>({{"elastic", ExecutorObjects::kElastic},
                                                  {"shared", ExecutorObjects::kShared},
                                                  {"host", ExecutorObjects::kHost}}))
        ->transform(bin::former_word("--executor-objects", "lent", "shared"))
        ->default_str("shared");
    app.add_option("--cublas", config.cublas,
                   "built-in linear algebra is computed by: auto (with --gpu nvidia a "
                   "libcublas.so.13 or .12 that works), off (kernels of Lambent's own), or the "
                   "path of a libcublas.so")
        ->capture_default_str();
  }

  void read(WorkerConfig& config) const { config.executor_pool_hold = from_seconds(pool_hold_s_); }

 private:
  double pool_hold_s_;
};

// How long what runs or waits may go on, and how many sandboxes there are.
class SandboxFlags {
 public:
  SandboxFlags(CLI::App& app, WorkerConfig& config)
      : longest_gpu_run_s_(to_seconds(config.longest_gpu_run)),
        keep_alive_s_(to_seconds(config.keep_alive)),
        drain_s_(to_seconds(config.drain_time)),
        async_retry_delay_s_(to_seconds(config.async_retry_delay)) {
    app.add_option(
           "--longest-gpu-run", longest_gpu_run_s_,
           "seconds: the longest timeout of a function that uses a GPU, which is how long it can "
           "keep the others waiting")
        ->check(bin::within(to_seconds(limits::kLeastTimeout), to_seconds(limits::kMostTimeout)))
        ->capture_default_str();
    app.add_flag("--no-numa", no_numa_,
                 "functions may run on all processors, not only on those near their GPU");
    app.add_option("--pool", config.most_sandboxes,
                   "sandboxes kept at most, of GPU functions and of others each")
        ->check(CLI::Range(1, 4096))
        ->capture_default_str();
    app.add_option(
        "--sandbox-memory", sandbox_memory_,
        "host memory of sandboxes without a GPU; those at rest leave beyond it, or beyond "
        "a quarter more; 0: no limit (default: three quarters of what --host-memory "
        "leaves)");
    app.add_option("--set", config.settings,
                   "KEY=VALUE for the scheduler; see docs/reference/scheduling.md");
    app.add_option("--max-queue-time", config.max_queue_time,
                   "seconds that a client may wait in a function's queue; 0: no bound; auto: a few "
                   "runs, while it is overloaded")
        ->check(CLI::Validator(
            [](const std::string& text) {
              return queue_time_from(text) ? "" : "'" + text + "' is neither auto nor seconds";
            },
            "SECONDS or auto"))
        ->capture_default_str();
    app.add_option("--keep-alive", keep_alive_s_, "seconds after which an idle sandbox is stopped")
        ->check(bin::within(0.0, 86400.0))
        ->capture_default_str();
    app.add_option("--drain", drain_s_, "seconds that running invocations get when stopping")
        ->check(bin::within(0.0, 86400.0))
        ->capture_default_str();
    app.add_option("--async-retries", config.async_retries,
                   "how often an asynchronous invocation that failed is tried again, of functions "
                   "that do not say; AWS Lambda: 2")
        ->check(CLI::Range(0u, limits::kMostAsyncRetries))
        ->capture_default_str();
    app.add_option("--async-retry-delay", async_retry_delay_s_,
                   "seconds before its first retry; twice as many before the second")
        ->check(bin::within(0.01, 3600.0))
        ->capture_default_str();
    app.add_option("--ready-sandboxes", config.sandbox_pool, "empty sandboxes kept ready to start")
        ->check(CLI::Range(0, 64))
        ->capture_default_str();
    app.add_option("--zygotes", config.zygotes,
                   "most processes that have imported packages and are forked into sandboxes of "
                   "Python functions and models; 0: each sandbox starts its own program")
        ->check(CLI::Range(0, 256))
        ->capture_default_str();
    app.add_option_function<std::string>(
           "--network",
           [&config](const std::string& text) {
             // The validator has seen it.
             if (auto bounds = parse_network_bounds(text); bounds.ok()) config.network = *bounds;
           },
           "where functions that ask for a network may connect to: none, or a list of public and "
           "of closed ranges that are to be open, such as public,10.1.2.0/24")
        ->check(CLI::Validator(
            [](const std::string& text) {
              const auto bounds = parse_network_bounds(text);
              return bounds.ok() ? std::string() : bounds.error().message;
            },
            "none or LIST"))
        ->default_str("none");
    app.add_flag("--strict-limits", config.require_strong_limits,
                 "refuse to start where a limit would be weaker than with cgroups");
  }

  Result<void> read(WorkerConfig& config) const {
    ASSIGN_OR_RETURN(config.sandbox_memory, read_amount("--sandbox-memory", sandbox_memory_));
    config.longest_gpu_run = from_seconds(longest_gpu_run_s_);
    config.near_gpu = !no_numa_;
    config.keep_alive = from_seconds(keep_alive_s_);
    config.drain_time = from_seconds(drain_s_);
    config.async_retry_delay = from_seconds(async_retry_delay_s_);
    return {};
  }

 private:
  std::string sandbox_memory_;
  double longest_gpu_run_s_;
  bool no_numa_ = false;
  double keep_alive_s_;
  double drain_s_;
  double async_retry_delay_s_;
};

class JournalFlags {
 public:
  JournalFlags(CLI::App& app, WorkerConfig& config) {
    app.add_option("--journal", config.journal_folder,
                   "record every event in this folder, for 'lambent simulate --replay', 'lambent "
                   "why' and the dashboard; auto: 'journal' in the state folder; none")
        ->capture_default_str();
    app.add_option("--journal-size", size_mib_,
                   "MiB of it at most; the oldest part goes; 64 with auto, else 1024")
        ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 24));
  }

  // After the state folder is known.
  void read(WorkerConfig& config) const {
    config.journal_is_usual = config.journal_folder == "auto";
    if (config.journal_is_usual) {
      config.journal_folder = config.state_folder + "/journal";
      config.journal_size = Bytes::mib(64);
    }
    if (config.journal_folder == "none") config.journal_folder.clear();
    if (size_mib_) config.journal_size = Bytes::mib(*size_mib_);
  }

 private:
  std::optional<uint64_t> size_mib_;
};

class FunctionLogFlags {
 public:
  FunctionLogFlags(CLI::App& app, const WorkerConfig& config)
      : days_(std::chrono::duration<double, std::ratio<86400>>(config.function_log_age).count()) {
    app.add_option("--function-log-size", size_,
                   "what is kept of each function's log, such as 4M, also over a restart; 0: until "
                   "the worker ends")
        ->capture_default_str();
    app.add_option("--function-log-days", days_,
                   "a log to which nothing was added for so long is removed")
        ->check(bin::within(0.01, 3650.0))
        ->capture_default_str();
  }

  Result<void> read(WorkerConfig& config) const {
    ASSIGN_OR_RETURN(const auto size, read_amount("--function-log-size", size_));
    config.function_log_size = size.value_or(config.function_log_size);
    config.function_log_age = from_seconds(days_ * 86400);
    return {};
  }

 private:
  std::string size_ = "4M";
  double days_;
};

class ObjectFlags {
 public:
  explicit ObjectFlags(CLI::App& app) {
    app.add_option("--object-memory", memory_,
                   "host memory for objects, such as 4G; above three quarters of it the least "
                   "recently used go to disk")
        ->capture_default_str();
    app.add_option("--object-disk", disk_,
                   "disk for objects, in the state folder; 0: none goes there")
        ->capture_default_str();
    app.add_option("--object-quota", quota_,
                   "what the objects of one tenant may take of both (default: all of it)");
  }

  Result<void> read(WorkerConfig& config) const {
    ASSIGN_OR_RETURN(const auto memory, read_amount("--object-memory", memory_));
    ASSIGN_OR_RETURN(const auto disk, read_amount("--object-disk", disk_));
    ASSIGN_OR_RETURN(config.object_quota, read_amount("--object-quota", quota_));
    config.object_memory = memory.value_or(config.object_memory);
    config.object_disk = disk.value_or(config.object_disk);
    return {};
  }

 private:
  std::string memory_ = "1G";
  std::string disk_ = "8G";
  std::string quota_;
};

class EnvironmentFlags {
 public:
  EnvironmentFlags(CLI::App& app, WorkerConfig& config)
      : timeout_s_(to_seconds(config.environment_timeout)) {
    app.add_option("--uv", config.uv,
                   "program that installs functions' Python packages (default: uv of this "
                   "installation, or in the PATH)");
    app.add_option("--python-index", config.python_index,
                   "package index, a URL, and after blanks others where its files lie; @FILE: the "
                   "file that holds them, with passwords (default: PyPI)");
    app.add_option("--python-wheels", config.python_wheels,
                   "folder of wheels from which packages are installed as well");
    app.add_flag("--python-offline", config.python_offline,
                 "install packages only from --python-wheels");
    app.add_option("--mount-allow", config.mount_allow,
                   "folder of the host that functions may mount, read-only, with all below it; "
                   "PATH=TENANT: only those of one tenant; several: several times")
        ->type_name("PATH[=TENANT]");
    app.add_option("--environments-size", size_,
                   "disk for functions' Python packages, in the state folder, such as 50G")
        ->capture_default_str();
    app.add_option("--image-registry", config.image_registries,
                   "registry of images that functions may have, such as ghcr.io or ghcr.io/owner; "
                   "several: several times (default: all but those of this machine)")
        ->type_name("REGISTRY[/NAME]");
    app.add_option("--registry-auth", config.registry_auth,
                   "file of credentials for registries, such as that of podman login or docker "
                   "login")
        ->type_name("FILE");
    app.add_option("--images-size", images_size_,
                   "disk for functions' images, unpacked, in the state folder, such as 100G")
        ->capture_default_str();
    app.add_option("--volume-copies", volume_copies_,
                   "disk for copies of volumes that another node of the cluster keeps, in the "
                   "state folder, such as 200G (default: all but 512 MiB of what is free)");
    app.add_option("--environment-timeout", timeout_s_,
                   "seconds that installing a function's Python packages, or pulling its image, "
                   "may take")
        ->check(bin::within(1.0, 86400.0))
        ->capture_default_str();
  }

  Result<void> read(WorkerConfig& config) const {
    ASSIGN_OR_RETURN(const auto size, read_amount("--environments-size", size_));
    config.environments_size = size.value_or(config.environments_size);
    if (config.environments_size < kLeastEnvironments) {
      return Error{ErrorCode::kInvalidArgument, "--environments-size is at least " +
                                                    to_string(kLeastEnvironments) +
                                                    ": less holds no environment"};
    }
    config.environment_timeout = from_seconds(timeout_s_);
    ASSIGN_OR_RETURN(config.volume_copies, read_amount("--volume-copies", volume_copies_));
    ASSIGN_OR_RETURN(const auto images, read_amount("--images-size", images_size_));
    config.images_size = images.value_or(config.images_size);
    if (config.images_size < kLeastEnvironments) {
      return Error{
          ErrorCode::kInvalidArgument,
          "--images-size is at least " + to_string(kLeastEnvironments) + ": less holds no image"};
    }
    if (config.python_offline && config.python_wheels.empty()) {
      return Error{ErrorCode::kInvalidArgument,
                   "--python-offline needs --python-wheels, a folder of wheels"};
    }
    return {};
  }

 private:
  std::string size_ = "20G";
  std::string images_size_ = "40G";
  std::string volume_copies_;
  double timeout_s_;
};

class SharedMemoryFlags {
 public:
  explicit SharedMemoryFlags(CLI::App& app) {
    app.add_option("--system-shared-memory", owners_,
                   "user whose shared memory clients may register for tensors of models; "
                   "USER=TENANT: for that tenant, else for default; several: several times")
        ->type_name("USER[=TENANT]");
  }

  Result<void> read(WorkerConfig& config) const {
    for (const std::string& text : owners_) {
      ASSIGN_OR_RETURN(config.shared_memory.emplace_back(), read_owner(text));
    }
    return {};
  }

 private:
  static Result<frontend::SharedMemoryOwner> read_owner(const std::string& text) {
    const size_t equals = text.find('=');
    const std::string user = text.substr(0, equals);
    frontend::SharedMemoryOwner owner;
    if (equals != std::string::npos) owner.tenant = text.substr(equals + 1);
    const auto [end, problem] = std::from_chars(user.data(), user.data() + user.size(), owner.user);
    const bool is_number = problem == std::errc() && end == user.data() + user.size();
    const passwd* found = is_number ? nullptr : getpwnam(user.c_str());
    if (owner.tenant.empty() || (!is_number && found == nullptr)) {
      return Error{ErrorCode::kInvalidArgument,
                   "--system-shared-memory is USER or USER=TENANT, with a user of this machine by "
                   "name or number, not '" +
                       text + "'"};
    }
    if (found != nullptr) owner.user = found->pw_uid;
    return owner;
  }

  std::vector<std::string> owners_;
};

class AccessFlags {
 public:
  AccessFlags(CLI::App& app, WorkerConfig& config) {
    app.add_option("--auth", config.auth,
                   "who may use the API: none, everyone who reaches it; tokens, who has a token, "
                   "and root and the worker's own user over the Unix socket")
        ->type_name("TEXT")
        ->transform(bin::one_of(kAuthModes));
    app.add_option("--audit-log", audit_log_,
                   "file to which every change and every refusal is appended, or none (default: "
                   "audit.log in the state folder)");
    app.add_option("--node-key", node_key_,
                   "file of the key from which signing secrets are derived; made if there is none "
                   "(default: node.key in the state folder)");
  }

  void read(WorkerConfig& config) const {
    const auto or_in_state = [&](const std::string& path, const char* name) {
      return path.empty() ? config.state_folder + "/" + name : path;
    };
    config.node_key = or_in_state(node_key_, "node.key");
    if (audit_log_ != "none") config.audit_log = or_in_state(audit_log_, "audit.log");
  }

 private:
  std::string audit_log_;
  std::string node_key_;
};

void add_cluster_flags(CLI::App& app, WorkerConfig& config) {
  app.add_option("--cluster-key", config.cluster_key,
                 "file of the key that all nodes of a cluster have, at least 32 bytes; makes this "
                 "node one of a cluster; see docs/operate/cluster.md");
  app.add_option("--cluster-node", config.cluster_nodes,
                 "a node of the cluster, such as a=http://10.0.0.2:8980; all of them, this one "
                 "too, in the same order on each: the first has the catalog");
  app.add_option("--node-name", config.node_name,
                 "what this node is called in its cluster (default: the machine's name)");
  app.add_option("--catalog", config.catalog,
                 "a database that all nodes share: functions, tenants and asynchronous invocations "
                 "outlive each node; see docs/operate/cluster.md")
      ->check(CLI::Validator(
          [](const std::string& url) -> std::string {
            const bool known = url.starts_with("postgresql://") || url.starts_with("postgres://");
            return known ? "" : "a catalog is postgresql://USER@HOST/DATABASE";
          },
          ""))
      ->type_name("URL");
  app.add_option("--cluster-policy", config.cluster_policy, "which node runs an invocation")
      ->capture_default_str()
      ->check(bin::shown_names(routing::policy_names()));
}

void add_node_flags(CLI::App& app, WorkerConfig& config) {
  app.add_option("--peer", config.peers,
                 "another node, such as http://10.0.0.2:8980, where objects that are unknown here "
                 "are sought; several: give it again");
  app.add_option("--pipeline-slices", config.pipeline_slices,
                 "devices that serve pipelines, and nothing else: none, all, mig (every MIG "
                 "instance), or some, such as 0,1:2,MIG-4f")
      ->capture_default_str();
  app.add_option("--slice-policy", config.slice_policy,
                 "which pipeline gets which slice; see docs/guides/pipelines.md")
      ->check(bin::shown_names(slice_scheduling::slice_policy_names()));
  app.add_option("--python", config.python, "interpreter of Python functions")
      ->capture_default_str();
  app.add_option("--otlp-endpoint", config.otlp_endpoint,
                 "an OpenTelemetry collector that gets each invocation as spans, and the worker's "
                 "own log: http://HOST:PORT, or https");
  app.add_option("--access-log", config.access_log,
                 "a file that gets a line for each HTTP request; -: standard output");
  app.add_option("--access-log-format", config.access_log_format, "format of the access log")
      ->type_name("TEXT")
      ->transform(bin::one_of(kAccessFormats));
  app.add_option("--log-format", config.log_format, "format of the worker's own log")
      ->type_name("TEXT")
      ->transform(bin::one_of(kFormats));
  app.add_option("--log-level", config.log_level, "least level that the worker logs")
      ->type_name("TEXT")
      ->transform(bin::one_of(kLevels));
  // In no help: docs/internals/durability.md.
  app.add_option("--fault-point", config.fault_point)
      ->check(CLI::Validator(
          [](const std::string& text) {
            const auto parsed = FaultPoints::parse(text);
            return parsed.ok() ? std::string() : parsed.error().message;
          },
          ""))
      ->group("");
}

// What is refused elsewhere only once the worker is built from it.
Result<void> check_policies(const WorkerConfig& config) {
  SchedulerSettings settings = default_settings();
  RETURN_IF_ERROR(apply_settings(config.settings, settings));
  if (const auto policy = scheduling::make_policy(config.policy, settings.policy); !policy.ok()) {
    return policy.error();
  }
  if (config.slice_policy.empty()) return {};
  const auto policy = slice_scheduling::make_slice_policy(config.slice_policy, {});
  return policy.ok() ? Result<void>() : policy.error();
}

// Of all nodes. A worker starts without one that does not answer, so it is no reason against it.
Result<void> check_catalog(const std::string& url) {
  const SystemClock clock;
  ASSIGN_OR_RETURN(
      const auto database,
      catalog::open_postgres(
          {.url = url, .lease = "", .connect_timeout = seconds(2), .answer_timeout = seconds(2)},
          clock));
  const Result<void> known = catalog::check_shared_schema(*database);
  return !known.ok() && known.error().code == ErrorCode::kUnavailable ? Result<void>() : known;
}

// A worker that gives way to an older program would otherwise be gone before that one refuses.
Result<void> check_state(const WorkerConfig& config) {
  const Result<void> known = catalog::check_schema(config.state_folder + "/catalog.db");
  if (!known.ok() && known.error().code != ErrorCode::kNotFound) return known;
  return config.catalog.empty() ? Result<void>() : check_catalog(config.catalog);
}

}  // namespace

std::optional<int> parse_worker_config(int argc, char** argv, WorkerConfig& config) {
  default_folders(config);
  CLI::App app(
      "The Lambent worker: runs functions on this machine.\n\n"
      "Example: lambent serve --gpu emulated:v100-16gb --policy mqfq-sticky",
      "lambent serve");
  ListenFlags listen(app);
  AccessFlags access(app, config);
  app.add_option("--state", config.state_folder, "folder of what must survive a restart")
      ->capture_default_str();
  app.add_option("--run", config.run_folder, "folder of what need not survive it")
      ->capture_default_str();
  GpuFlags gpu(app, config);
  PolicyFlags policy(app, config);
  ExecutorFlags executor(app, config);
  SandboxFlags sandbox(app, config);
  JournalFlags journal(app, config);
  FunctionLogFlags function_logs(app, config);
  ObjectFlags objects(app);
  EnvironmentFlags environments(app, config);
  SharedMemoryFlags shared_memory(app);
  add_cluster_flags(app, config);
  add_node_flags(app, config);
  bool only_check = false;
  app.add_flag("--check", only_check,
               "read the flags and the state's version, say what is wrong with them, and end");
  if (const auto exit_code = bin::parse(app, argc, argv, kUsual)) return *exit_code;

  // Sandboxes are shown what lies there, by paths of this machine.
  for (std::string* folder : {&config.state_folder, &config.run_folder}) {
    *folder = std::filesystem::absolute(*folder).lexically_normal();
  }
  access.read(config);
  config.listen.asks_who_clients_are = config.auth == frontend::AuthMode::kTokens;
  executor.read(config);
  journal.read(config);
  for (const Result<void>& result :
       {gpu.read(config), listen.read(config.run_folder + "/lambent.sock", config.listen),
        policy.read(config), objects.read(config), function_logs.read(config),
        environments.read(config), shared_memory.read(config), sandbox.read(config)}) {
    if (result.ok()) continue;
    std::cerr << "lambent serve: " << result.error().message << "\n";
    return 2;
  }
  if (!only_check) return std::nullopt;
  for (const Result<void>& result : {check_policies(config), check_state(config)}) {
    if (result.ok()) continue;
    std::cerr << "lambent serve: " << result.error().message << "\n";
    return 2;
  }
  return 0;
}

}  // namespace lambent
