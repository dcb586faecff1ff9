// The part of Worker that keeps functions: deploying, changing and removing them, their code, what
// was learnt of them, and what an earlier worker left.
#include <cstdio>
#include <filesystem>
#include <set>
#include <utility>

#include "core/archive/zip.h"
#include "core/base/base64.h"
#include "node/worker/worker.h"
#include "node/worker/workflow_package.h"

namespace lambent::worker {
namespace {

// How many asynchronous invocations are read from the catalog at once.
constexpr size_t kRecoveryPage = 1000;

// Whole seconds are what timeouts mostly are.
std::string seconds_in_words(Duration duration) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g s", to_seconds(duration));
  return text;
}

bool takes_turns_on_a_gpu(const FunctionSpec& spec) {
  if (spec.kind == FunctionKind::kPipeline || spec.kind == FunctionKind::kWorkflow) return false;
  return spec.gpu.memory > Bytes(0) || spec.kind == FunctionKind::kKernel;
}

// Checks a kernel function's package; the memory that its requests take is what it asks for, unless
// it asks for more. Blocks.
Result<void> fit_to_package(FunctionSpec& spec, const KernelPackageOptions& package, Bytes most) {
  ASSIGN_OR_RETURN(const Bytes needed, check_kernel_package(package, most));
  if (spec.gpu.memory == Bytes(0)) spec.gpu.memory = needed;
  if (spec.gpu.memory < needed) {
    return Error{ErrorCode::kInvalidArgument, "gpu.memory is " + to_string(spec.gpu.memory) +
                                                  ", but a request takes " + to_string(needed) +
                                                  "; leave it out to have what is needed"};
  }
  return {};
}

}  // namespace

std::string Worker::code_folder(const FunctionSpec& spec) const {
  return options_.state_folder + "/code/" + archive::code_folder_name(spec.code_sha256);
}

// What the largest device has for a function of this kind.
Bytes Worker::most_device_memory(FunctionKind kind) const {
  const Bytes most = options_.device_memory - options_.context_memory;
  const bool calls_cublas = kind == FunctionKind::kKernel && !options_.executors.cublas.empty();
  return calls_cublas ? most - kCallWorkspace : most;
}

Result<void> Worker::check_change(const FunctionSpec& spec) const {
  RETURN_IF_ERROR(validate(spec));
  if (spec.kind == FunctionKind::kWorkflow && spec.gpu.memory > Bytes(0)) {
    return Error{ErrorCode::kInvalidArgument,
                 "a workflow uses no GPU itself; gpu.memory is for the functions that it calls"};
  }
  if (spec.gpu.runtime == GpuRuntime::kShared && options_.sandboxes.forward_folder.empty()) {
    return Error{ErrorCode::kUnimplemented,
                 "this installation has no driver for shared GPU runtimes (lib/forward)"};
  }
  if (spec.kind == FunctionKind::kPipeline) {
    if (spec.gpu.runtime == GpuRuntime::kShared || spec.gpu.share != 100) {
      return Error{
          ErrorCode::kInvalidArgument,
          "the stages of a pipeline have slices of their own: no shared GPU runtime and no "
          "share"};
    }
    const bool limited =
        spec.max_concurrency != limits::kDefaultConcurrency && spec.max_concurrency != 1;
    if (limited || spec.weight != 1) {
      return Error{ErrorCode::kInvalidArgument,
                   "a pipeline has neither max_concurrency nor weight: its SLO says how much of it "
                   "there is to be"};
    }
    if (spec.runtime != Runtime::kPython) {
      return Error{ErrorCode::kInvalidArgument, "a pipeline is a Python function"};
    }
    return {};  // PipelineHost::check knows whether its devices and its memory are there
  }
  const bool wants_gpu = takes_turns_on_a_gpu(spec);
  // Where no GPU is large enough, the host serves a function that has a CPU variant.
  const bool host_serves =
      spec.cpu_variant && dispatcher_->options().hybrid.rule != scheduling::HybridRule::kOff;
  if (wants_gpu && !host_serves && options_.device_memory == Bytes(0)) {
    return Error{ErrorCode::kFailedPrecondition,
                 options_.pipelines.slices.empty()
                     ? "the function asks for a GPU, but this worker has none; start it with --gpu"
                     : "the function asks for a GPU, but this worker keeps all of its own for "
                       "pipelines; give it fewer with --pipeline-slices"};
  }
  if (wants_gpu && spec.timeout > options_.longest_gpu_run) {
    return Error{ErrorCode::kInvalidArgument,
                 "the timeout is " + seconds_in_words(spec.timeout) +
                     ", but a function that uses a GPU may run for " +
                     seconds_in_words(options_.longest_gpu_run) +
                     " at most here (lambent serve --longest-gpu-run)"};
  }
  const Bytes most = most_device_memory(spec.kind);
  if (!host_serves && spec.gpu.memory > most) {
    return Error{ErrorCode::kInvalidArgument, "the function asks for " +
                                                  to_string(spec.gpu.memory) +
                                                  " of device memory; the largest GPU here has " +
                                                  to_string(most) + " for a function"};
  }
  return {};
}

void Worker::create_function(FunctionChange change, Callback<FunctionSpec> done) {
  if (const auto good = check_change(change.spec); !good.ok()) return done(good.error());
  if (functions_.find(change.spec.name) != nullptr) {
    return done(Error{ErrorCode::kAlreadyExists,
                      "function '" + change.spec.name.name + "' already exists"});
  }
  if (functions_.size() >= limits::kFunctions) {
    return done(Error{ErrorCode::kResourceExhausted,
                      "this worker has " + std::to_string(limits::kFunctions) + " functions"});
  }
  if (change.zip_base64.empty()) {
    return done(Error{ErrorCode::kInvalidArgument, "a new function needs its code as a zip"});
  }
  change.spec.id = FunctionId{};
  change.spec.revision = 1;
  store_function(std::move(change), std::move(done));
}

void Worker::update_function(FunctionChange change, Callback<FunctionSpec> done) {
  const auto current = functions_.get(change.spec.name);
  if (!current.ok()) return done(current.error());
  if (const auto good = check_change(change.spec); !good.ok()) return done(good.error());
  // The spec was made from one that was read: if that is no longer the current one, two clients
  // overlapped.
  if (change.spec.revision != (*current)->revision) {
    return done(Error{ErrorCode::kAborted, "function '" + change.spec.name.name +
                                               "' was changed by another client meanwhile"});
  }
  change.spec.id = (*current)->id;
  change.spec.revision = (*current)->revision + 1;
  store_function(std::move(change), std::move(done));
}

void Worker::store_function(FunctionChange change, Callback<FunctionSpec> done) {
  const FunctionName name = change.spec.name;
  if (!functions_.begin_change(name)) {
    return done(
        Error{ErrorCode::kAborted, "another change of function '" + name.name + "' is under way"});
  }
  const auto finish = [this, name, done](Result<FunctionSpec> result) {
    functions_.end_change(name);
    collect_code();
    done(std::move(result));
  };
  const FunctionKind kind = change.spec.kind;
  if (change.zip_base64.empty() && kind == FunctionKind::kHandler) {
    return put_function(std::move(change.spec), {}, finish);
  }

  // Shared with the file thread, which fills it in while this thread goes on.
  struct Unpacking {
    FunctionChange change;
    std::string folder;
    Packaged packaged;
    Result<void> result;
  };
  auto unpacking = std::make_shared<Unpacking>();
  unpacking->change = std::move(change);
  const auto unpack = [unpacking, code = options_.state_folder + "/code/"] {
    FunctionSpec& spec = unpacking->change.spec;
    if (unpacking->change.zip_base64.empty()) return;
    const auto zip = base64_decode(std::exchange(unpacking->change.zip_base64, {}));
    if (!zip) {
      unpacking->result = Error{ErrorCode::kInvalidArgument, "ZipFile is no valid base64"};
      return;
    }
    spec.code_sha256 = archive::code_sha256(*zip);
    spec.code_size = Bytes(zip->size());
    const auto unpacked =
        archive::unpack_zip(*zip, code + archive::code_folder_name(spec.code_sha256));
    if (!unpacked.ok()) unpacking->result = unpacked.error();
  };
  const auto work = [this, unpacking, unpack, kind, built_in = options_.executors.built_in] {
    unpack();
    if (!unpacking->result.ok()) return;
    FunctionSpec& spec = unpacking->change.spec;
    if (kind == FunctionKind::kKernel) {
      unpacking->result = fit_to_package(spec, {code_folder(spec), spec.handler, built_in},
                                         most_device_memory(kind));
    } else if (kind == FunctionKind::kWorkflow) {
      auto graph = read_workflow(code_folder(spec), spec.handler);
      if (!graph.ok()) unpacking->result = graph.error();
      if (graph.ok()) unpacking->packaged.graph = std::move(graph).value();
    } else if (kind == FunctionKind::kPipeline) {
      auto pipeline = read_pipeline(code_folder(spec), spec.handler);
      if (!pipeline.ok()) {
        unpacking->result = pipeline.error();
        return;
      }
      auto planned = PipelineHost::check(options_.pipelines, spec, **pipeline);
      if (!planned.ok()) unpacking->result = planned.error();
      if (planned.ok()) unpacking->packaged = {nullptr, std::move(*pipeline), std::move(*planned)};
    }
  };
  const bool queued = files_.run(work, [this, unpacking, finish] {
    if (!unpacking->result.ok()) return finish(unpacking->result.error());
    if (const auto good = check_change(unpacking->change.spec); !good.ok()) {
      return finish(good.error());
    }
    put_function(std::move(unpacking->change.spec), std::move(unpacking->packaged), finish);
  });
  if (!queued) {
    finish(Error{ErrorCode::kResourceExhausted, "too many deployments at once; try again later"});
  }
}

void Worker::put_function(FunctionSpec spec, Packaged packaged, Callback<FunctionSpec> done) {
  spec.last_modified = loop_.clock().wall_now();
  catalog_.put_function(std::move(spec), [this, done, packaged](Result<FunctionSpec> stored) {
    if (!stored.ok()) return done(stored.error());
    const FunctionSpec* before = functions_.find(stored->name);
    const std::optional<FunctionSpec> old = before ? std::optional(*before) : std::nullopt;
    functions_.put(*stored);
    workflows_.put(stored->id, packaged.graph);
    if (packaged.pipeline == nullptr) pipelines_.remove(stored->id);
    if (packaged.pipeline != nullptr)
      pipelines_.put(*stored, packaged.pipeline, packaged.planned, "");
    log_.info("function_deployed", {{"tenant", int64_t{stored->name.tenant.value}},
                                    {"function", stored->name.name},
                                    {"revision", static_cast<int64_t>(stored->revision)}});
    if (journal_ != nullptr) journal_->name(stored->id, stored->name.name);
    keep_executors(*stored);
    if (old) drop_executors(*old);
    executors_.change_share(*stored);
    handle(dispatch::FunctionRegistered{profile_of(*stored)});
    done(std::move(stored));
  });
}

void Worker::remove_function(FunctionName name, Callback<FunctionSpec> done) {
  const auto current = functions_.get(name);
  if (!current.ok()) return done(current.error());
  if (!functions_.begin_change(name)) {
    return done(
        Error{ErrorCode::kAborted, "a change of function '" + name.name + "' is under way"});
  }
  catalog_.remove_function(name, [this, name, done, spec = **current](Result<void> removed) {
    functions_.end_change(name);
    if (!removed.ok()) return done(removed.error());
    functions_.remove(name);
    drop_executors(spec);
    learnt_.erase(spec.id);
    workflows_.remove(spec.id);
    pipelines_.remove(spec.id);
    handle(dispatch::FunctionRemoved{spec.id});
    if (journal_ != nullptr) journal_->forget(spec.id);
    logs_.remove(spec.id);
    metrics_.forget(name);
    collect_code();
    log_.info("function_removed",
              {{"tenant", int64_t{name.tenant.value}}, {"function", name.name}});
    done(spec);
  });
}

// Removes code folders that no function uses. Sandboxes that still run from one keep their open
// files and mounts; the names go at once.
void Worker::collect_code() {
  auto used = std::make_shared<std::set<std::string>>();
  for (const FunctionSpec& spec : functions_.all()) {
    used->insert(archive::code_folder_name(spec.code_sha256));
  }
  if (functions_.changing()) return;  // its code may be unpacked already
  const std::string folder = options_.state_folder + "/code";
  files_.run(
      [folder, used] {
        std::error_code error;
        for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
          if (!used->contains(entry.path().filename())) {
            std::error_code ignored;
            std::filesystem::remove_all(entry.path(), ignored);
          }
        }
      },
      [] {});
}

dispatch::FunctionProfile Worker::profile_of(const FunctionSpec& spec) const {
  dispatch::FunctionProfile profile;
  profile.id = spec.id;
  profile.tenant = spec.name.tenant;
  profile.revision = functions_.sandbox_revision(spec.id);
  profile.weight = spec.weight;
  profile.max_concurrency = spec.max_concurrency;
  profile.device_memory = spec.gpu.memory;
  // Kernel functions and handlers that share a runtime have the context of their executor.
  const bool has_process =
      spec.kind == FunctionKind::kHandler || spec.kind == FunctionKind::kPipeline;
  const bool has_context = has_process && spec.gpu.runtime == GpuRuntime::kOwn;
  if (spec.gpu.memory > Bytes(0) && has_context) {
    profile.device_memory += options_.context_memory;
  }
  profile.timeout = spec.timeout;
  const bool is_client =
      spec.kind == FunctionKind::kHandler && spec.gpu.runtime == GpuRuntime::kShared;
  // What a client holds is its own: nobody else knows which of it could move.
  profile.memory_moves = spec.gpu.memory_mode != MemoryMode::kOff && !is_client;
  profile.checkpoints = spec.gpu.checkpoint;
  profile.has_cpu_variant = spec.cpu_variant.has_value();
  if (spec.cpu_variant) profile.gpu_speedup = spec.cpu_variant->gpu_speedup;
  if (const auto learnt = learnt_.find(spec.id); learnt != learnt_.end()) {
    profile.mean_execution = learnt->second.mean_execution;
    profile.mean_interarrival = learnt->second.mean_interarrival;
    profile.mean_cold_start = learnt->second.mean_cold_start;
    profile.completed = learnt->second.executions;
    profile.mean_host_execution = learnt->second.mean_host_execution;
    profile.mean_host_cold_start = learnt->second.mean_host_cold_start;
    profile.completed_on_host = learnt->second.host_executions;
  }
  return profile;
}

void Worker::cap_timeout(FunctionSpec& spec) const {
  if (spec.timeout <= options_.longest_gpu_run) return;
  log_.warning("function_timeout_capped",
               {{"function", spec.name.name},
                {"tenant", int64_t{spec.name.tenant.value}},
                {"timeout_s", to_seconds(spec.timeout)},
                {"longest_gpu_run_s", to_seconds(options_.longest_gpu_run)}});
  spec.timeout = options_.longest_gpu_run;
}

Result<void> Worker::recover() {
  std::error_code error;
  std::filesystem::create_directories(options_.state_folder + "/code", error);
  if (error) {
    return Error{ErrorCode::kInternal, "create " + options_.state_folder + ": " + error.message()};
  }
  ASSIGN_OR_RETURN(catalog::Snapshot snapshot, catalog_.load_all());
  for (const auto& statistics : snapshot.statistics) learnt_[statistics.function] = statistics;
  recover_devices(snapshot.devices);
  for (FunctionSpec& spec : snapshot.functions) {
    if (takes_turns_on_a_gpu(spec)) cap_timeout(spec);
    if (journal_ != nullptr) journal_->name(spec.id, spec.name.name);
    keep_executors(spec);
    if (spec.kind == FunctionKind::kWorkflow) {
      auto graph = read_workflow(code_folder(spec), spec.handler);
      if (graph.ok()) {
        workflows_.put(spec.id, std::move(graph).value());
      } else {
        log_.error("workflow_not_read",
                   {{"function", spec.name.name}, {"error", to_string(graph.error())}});
      }
    } else if (spec.kind == FunctionKind::kPipeline) {
      auto pipeline = read_pipeline(code_folder(spec), spec.handler);
      if (pipeline.ok()) {
        const pipeline::IsolationRule rule = (*pipeline)->definition.isolation;
        const bool has_slices =
            rule == pipeline::IsolationRule::kSlices ||
            (rule == pipeline::IsolationRule::kAuto && !options_.pipelines.slices.empty());
        if (!has_slices) cap_timeout(spec);
        const auto learnt = std::find_if(
            snapshot.profiles.begin(), snapshot.profiles.end(), [&](const auto& profile) {
              return profile.function == spec.id && profile.revision == spec.revision;
            });
        pipelines_.put(spec, std::move(pipeline).value(), nullptr,
                       learnt != snapshot.profiles.end() ? learnt->profile : "");
      } else {
        log_.error("pipeline_not_read",
                   {{"function", spec.name.name}, {"error", to_string(pipeline.error())}});
      }
    }
    functions_.put(spec);
    handle(dispatch::FunctionRegistered{profile_of(spec)});
  }
  collect_code();
  return recover_async();
}

Result<void> Worker::recover_async() {
  uint64_t after = 0;
  size_t resumed = 0;
  while (true) {
    ASSIGN_OR_RETURN(auto page, catalog_.pending_async(after, kRecoveryPage));
    if (page.empty()) break;
    for (catalog::AsyncInvocation& pending : page) {
      after = pending.sequence;
      Error problem{ErrorCode::kNotFound, "the function was removed"};
      if (pending.attempts >= options_.most_attempts) {
        problem = {ErrorCode::kAborted, "the worker ended " + std::to_string(pending.attempts) +
                                            " times while this ran; it is given up"};
      } else if (functions_.find(pending.function) != nullptr) {
        ++resumed;
        accept(std::move(pending.request), pending.function, nullptr);
        continue;
      }
      InvocationResult result;
      result.id = pending.request.id;
      result.outcome = Outcome::kRejected;
      result.error = problem;
      store_async_result(pending.request.function.tenant, result);
    }
  }
  log_.info("recovered", {{"functions", static_cast<int64_t>(functions_.size())},
                          {"asynchronous", static_cast<int64_t>(resumed)}});
  return {};
}

Result<FunctionSpec> Worker::find_function(const FunctionName& name) const {
  ASSIGN_OR_RETURN(const FunctionSpec* spec, functions_.get(name));
  return *spec;
}

std::vector<FunctionSpec> Worker::list_functions(TenantId tenant, const std::string& after,
                                                 size_t limit) const {
  return functions_.list(tenant, after, limit);
}

}  // namespace lambent::worker
