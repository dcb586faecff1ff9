#include "node/worker/deployments.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <set>
#include <utility>

#include "core/archive/zip.h"
#include "core/base/fd.h"
#include "node/worker/kernel_package.h"
#include "node/worker/workflow_package.h"

namespace lambent::worker {
namespace {

// Whether a file of its package says what it does.
bool has_graph(FunctionKind kind) {
  return kind != FunctionKind::kHandler && kind != FunctionKind::kHttp;
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

// What the function's package says of Python packages; nothing if it says nothing. Blocks.
Result<std::optional<PythonPackages>> read_python(const std::string& folder) {
  const auto text = read_file(folder + "/" + kPythonPackagesFile, 2 * kMostRequirementText.count);
  if (!text.ok() && text.error().code == ErrorCode::kNotFound) {
    return std::optional<PythonPackages>();
  }
  if (!text.ok()) return text.error();
  ASSIGN_OR_RETURN(PythonPackages packages, parse_python_packages(*text));
  return std::optional(std::move(packages));
}

// That what is mounted is there, by a path without links, as lambent-launcher will want it. Blocks.
Result<void> check_mounted(const Mounts& mounts, const std::vector<std::string>& folders) {
  for (size_t i = 0; i < folders.size(); ++i) {
    std::error_code error;
    const std::filesystem::path real = std::filesystem::canonical(folders[i], error);
    if (!error && real == folders[i] && std::filesystem::is_directory(real, error)) continue;
    const std::string& source = mounts[i].host.empty() ? mounts[i].volume : mounts[i].host;
    return Error{ErrorCode::kFailedPrecondition,
                 "the mount at " + mounts[i].at + ": " + source +
                     (error ? " is not there: " + error.message()
                            : std::string(" is no folder, or its path goes through a link"))};
  }
  return {};
}

// Gives its answer once.
Deployments::Done once(Deployments::Done done) {
  auto given = std::make_shared<bool>(false);
  return [given, done = std::move(done)](Result<FunctionSpec> result) {
    if (!std::exchange(*given, true)) done(std::move(result));
  };
}

}  // namespace

Result<void> Deployments::check(const FunctionSpec& spec) const {
  RETURN_IF_ERROR(check_function(spec, rules_->functions));
  if (!spec.mounts.empty()) {
    if (!uses_.folders_of_mounts) {
      return Error{ErrorCode::kFailedPrecondition, "this worker has no volumes and mounts"};
    }
    const auto folders = uses_.folders_of_mounts(spec);
    if (!folders.ok()) return folders.error();
  }
  if (uses_.secrets == nullptr) return {};
  const auto resolved = resolve_secrets(spec.environment, [&](const std::string& name) {
    return uses_.secrets->find_secret(spec.name.tenant, name);
  });
  if (!resolved.ok()) return resolved.error();
  return {};
}

void Deployments::create(FunctionChange change, Done done) {
  if (const auto good = check(change.spec); !good.ok()) return done(good.error());
  if (uses_.functions.find(change.spec.name) != nullptr) {
    return done(Error{ErrorCode::kAlreadyExists,
                      "function '" + change.spec.name.name + "' already exists"});
  }
  if (uses_.functions.size() >= limits::kFunctions) {
    return done(Error{ErrorCode::kResourceExhausted,
                      "this worker has " + std::to_string(limits::kFunctions) + " functions"});
  }
  const TenantId tenant = change.spec.name.tenant;
  if (const auto allowed = quotas_.check(tenant, totals(tenant), {.functions = 1}); !allowed.ok()) {
    return done(allowed.error());
  }
  if (change.zip_base64.empty()) {
    return done(Error{ErrorCode::kInvalidArgument, "a new function needs its code as a zip"});
  }
  change.spec.id = FunctionId{};
  change.spec.revision = 1;
  store(std::move(change), std::move(done));
}

void Deployments::update(FunctionChange change, Done done) {
  const auto current = uses_.functions.get(change.spec.name);
  if (!current.ok()) return done(pending_.refuse(change.spec.name).value_or(current.error()));
  if (const auto good = check(change.spec); !good.ok()) return done(good.error());
  // The spec was made from one that was read: if that is no longer the current one, two clients
  // overlapped.
  if (change.spec.revision != (*current)->revision) {
    return done(Error{ErrorCode::kAborted, "function '" + change.spec.name.name +
                                               "' was changed by another client meanwhile"});
  }
  change.spec.id = (*current)->id;
  change.spec.revision = (*current)->revision + 1;
  store(std::move(change), std::move(done));
}

void Deployments::store(FunctionChange change, Done done) {
  const FunctionName name = change.spec.name;
  if (!uses_.functions.begin_change(name)) {
    return done(
        Error{ErrorCode::kAborted, "another change of function '" + name.name + "' is under way"});
  }
  if (const auto claimed = claim_gpu(change.spec); !claimed.ok()) {
    uses_.functions.end_change(name);
    renew_waiting(name);
    return done(claimed.error());
  }
  const Done answer = once(std::move(done));
  pending_.forget(name);
  const auto finish = [this, name, answer](Result<FunctionSpec> result) {
    uses_.functions.end_change(name);
    release_gpu_unless_used(name);
    pending_.end(name, result);
    collect();
    answer(std::move(result));
    renew_waiting(name);
  };
  if (change.zip_base64.empty() && !has_graph(change.spec.kind) && change.spec.mounts.empty()) {
    return put_within_quota({.change = std::move(change)}, finish);
  }

  // Shared with the file thread, which fills it in while this thread goes on.
  struct Work {
    Unpacking unpacking;
    Result<void> result;
  };
  auto work = std::make_shared<Work>();
  work->unpacking.change = std::move(change);
  if (const FunctionSpec& spec = work->unpacking.change.spec; !spec.mounts.empty()) {
    auto folders = uses_.folders_of_mounts(spec);
    if (!folders.ok()) return finish(folders.error());
    work->unpacking.mount_folders = std::move(*folders);
  }
  const bool queued = uses_.files.run(
      [work, &code = std::as_const(uses_.code), rules = rules_] {
        work->result = unpack(code, *rules, work->unpacking);
      },
      [this, work, answer, finish] {
        if (!work->result.ok()) return finish(work->result.error());
        const auto good = check_function(work->unpacking.change.spec, rules_->functions);
        if (!good.ok()) return finish(good.error());
        install(std::move(work->unpacking), answer, finish);
      });
  if (!queued) {
    finish(Error{ErrorCode::kResourceExhausted, "too many deployments at once; try again later"});
  }
}

Result<void> Deployments::unpack(const CodeStore& code, const Rules& rules, Unpacking& unpacking) {
  FunctionSpec& spec = unpacking.change.spec;
  RETURN_IF_ERROR(check_mounted(spec.mounts, unpacking.mount_folders));
  std::string zip_base64 = std::exchange(unpacking.change.zip_base64, {});
  if (!zip_base64.empty()) RETURN_IF_ERROR(code.unpack(std::move(zip_base64), spec));
  const std::string folder = code.folder(spec);
  if (spec.kind != FunctionKind::kKernel && spec.kind != FunctionKind::kWorkflow) {
    ASSIGN_OR_RETURN(unpacking.python, read_python(folder));
  }
  if (spec.kind == FunctionKind::kKernel) {
    return fit_to_package(spec, {folder, spec.handler, rules.built_in_kernels},
                          most_device_memory(spec.kind, rules.functions));
  }
  if (spec.kind == FunctionKind::kWorkflow) {
    ASSIGN_OR_RETURN(unpacking.graph, read_workflow(folder, spec.handler));
  } else if (spec.kind == FunctionKind::kPipeline) {
    ASSIGN_OR_RETURN(unpacking.pipeline, read_pipeline(folder, spec.handler));
    ASSIGN_OR_RETURN(unpacking.planned,
                     PipelineHost::check(rules.pipelines, spec, *unpacking.pipeline));
  }
  return {};
}

void Deployments::install(Unpacking unpacked, Done answer, Done done) {
  if (!unpacked.python) return put_within_quota(std::move(unpacked), std::move(done));
  if (uses_.environments == nullptr) {
    return done(Error{ErrorCode::kFailedPrecondition, "this worker installs no Python packages"});
  }
  const FunctionSpec& spec = unpacked.change.spec;
  const std::string code = archive::code_folder_name(spec.code_sha256);
  pending_.begin(spec, uses_.functions.find(spec.name) == nullptr, code);
  const loop::TimerId timer = uses_.loop.call_after(unpacked.change.answer_within,
                                                    [this, spec, answer = std::move(answer)] {
                                                      pending_.answered(spec.name);
                                                      answer(spec);
                                                    });
  const PythonPackages packages = *unpacked.python;
  auto shared = std::make_shared<Unpacking>(std::move(unpacked));
  uses_.environments->ensure(code, packages,
                             [this, timer, shared, done = std::move(done)](Result<void> ready) {
                               uses_.loop.cancel(timer);
                               if (!ready.ok()) return done(ready.error());
                               put_within_quota(std::move(*shared), done);
                             });
}

void Deployments::collect() {
  uses_.code.collect(uses_.functions);
  if (uses_.environments == nullptr || uses_.functions.changing()) return;
  std::set<std::string> codes;
  for (const FunctionSpec& spec : uses_.functions.all()) {
    codes.insert(archive::code_folder_name(spec.code_sha256));
  }
  uses_.environments->collect(codes);
}

FunctionTotals Deployments::totals(TenantId tenant) const {
  FunctionTotals totals = uses_.functions.totals(tenant);
  if (uses_.used_by_volumes) totals.code += uses_.used_by_volumes(tenant);
  return totals;
}

FunctionQuotas::Addition Deployments::addition_of(const FunctionSpec& spec) const {
  const FunctionSpec* before = uses_.functions.find(spec.name);
  if (before == nullptr) return {.functions = 1, .code = spec.code_size};
  if (spec.code_size <= before->code_size) return {};
  return {.functions = 0, .code = spec.code_size - before->code_size};
}

void Deployments::put_within_quota(Unpacking unpacked, Done done) {
  const TenantId tenant = unpacked.change.spec.name.tenant;
  const FunctionQuotas::Addition addition = addition_of(unpacked.change.spec);
  const auto allowed = quotas_.check(tenant, totals(tenant), addition);
  if (!allowed.ok()) return done(allowed.error());
  quotas_.reserve(tenant, addition);
  put(std::move(unpacked), [this, tenant, addition, done = std::move(done)](auto stored) {
    quotas_.release(tenant, addition);
    done(std::move(stored));
  });
}

void Deployments::put(Unpacking unpacked, Done done) {
  FunctionSpec spec = std::move(unpacked.change.spec);
  spec.last_modified = uses_.loop.clock().wall_now();
  uses_.catalog.put_function(
      std::move(spec), [this, done, unpacked = std::move(unpacked)](Result<FunctionSpec> stored) {
        if (!stored.ok()) return done(stored.error());
        const FunctionSpec* before = uses_.functions.find(stored->name);
        const std::optional<FunctionSpec> old = before ? std::optional(*before) : std::nullopt;
        uses_.functions.put(*stored, unpacked.change.renews_sandboxes);
        uses_.workflows.put(stored->id, unpacked.graph);
        if (unpacked.pipeline != nullptr) {
          uses_.pipelines.put(*stored, unpacked.pipeline, unpacked.planned, "");
        } else {
          uses_.pipelines.remove(stored->id);
        }
        uses_.log.info("function_deployed", {{"tenant", int64_t{stored->name.tenant.value}},
                                             {"function", stored->name.name},
                                             {"revision", static_cast<int64_t>(stored->revision)}});
        uses_.driver.journal().name(stored->id, stored->name.name);
        uses_.keeper.keep(*stored);
        if (old) uses_.keeper.drop(*old);
        uses_.executors.change_share(*stored);
        tell_dispatch(*stored);
        done(std::move(stored));
      });
}

void Deployments::renew(const FunctionName& name, Done done) {
  if (uses_.functions.is_changing(name)) {
    renewals_[name].push_back(std::move(done));
    return;
  }
  const auto current = uses_.functions.get(name);
  if (!current.ok()) return done(current.error());
  update({.spec = **current, .zip_base64 = {}, .renews_sandboxes = true}, std::move(done));
}

std::vector<std::string> Deployments::users_of_secret(TenantId tenant,
                                                      const std::string& secret) const {
  std::vector<std::string> users;
  for (const FunctionSpec& spec : uses_.functions.list(tenant, "", limits::kFunctions)) {
    const auto names = secret_names(spec.environment);
    if (names.ok() && names->contains(secret)) users.push_back(spec.name.name);
  }
  return users;
}

std::vector<std::string> Deployments::users_of_volume(TenantId tenant,
                                                      const std::string& volume) const {
  std::vector<std::string> users;
  for (const FunctionSpec& spec : uses_.functions.list(tenant, "", limits::kFunctions)) {
    const auto mounts_it = [&](const Mount& mount) { return mount.volume == volume; };
    if (std::ranges::any_of(spec.mounts, mounts_it)) users.push_back(spec.name.name);
  }
  return users;
}

void Deployments::secret_changed(TenantId tenant, const std::string& secret,
                                 std::function<void()> renewed) {
  // Held by the callbacks: the last one that goes calls it.
  const std::shared_ptr<void> all_renewed(nullptr,
                                          [renewed = std::move(renewed)](void*) { renewed(); });
  for (const std::string& name : users_of_secret(tenant, secret)) {
    renew({tenant, name}, [this, name, all_renewed](Result<FunctionSpec> changed) {
      if (changed.ok() || changed.error().code == ErrorCode::kNotFound) return;
      uses_.log.warning("sandboxes_not_renewed",
                        {{"function", name}, {"error", to_string(changed.error())}});
    });
  }
}

void Deployments::renew_waiting(const FunctionName& name) {
  const auto waiting = renewals_.find(name);
  if (waiting == renewals_.end()) return;
  // One renewal serves all that wait.
  auto all = std::make_shared<std::vector<Done>>(std::move(waiting->second));
  renewals_.erase(waiting);
  renew(name, [all](const Result<FunctionSpec>& renewed) {
    for (const Done& each : *all) each(renewed);
  });
}

void Deployments::remove(const FunctionName& name, Done done) {
  // One that could not be created is gone when it is forgotten.
  if (const auto created = pending_.created(name); created && !uses_.functions.is_changing(name)) {
    pending_.forget(name);
    return done(*created);
  }
  const auto current = uses_.functions.get(name);
  if (!current.ok()) return done(pending_.refuse(name).value_or(current.error()));
  pending_.forget(name);
  if (!uses_.functions.begin_change(name)) {
    return done(
        Error{ErrorCode::kAborted, "a change of function '" + name.name + "' is under way"});
  }
  uses_.catalog.remove_function(name, [this, name, done, spec = **current](Result<void> removed) {
    if (removed.ok()) uses_.functions.remove(name);
    uses_.functions.end_change(name);
    renew_waiting(name);
    if (!removed.ok()) return done(removed.error());
    release_gpu_unless_used(name);
    uses_.keeper.drop(spec);
    uses_.statistics.forget(spec.id);
    uses_.workflows.remove(spec.id);
    uses_.pipelines.remove(spec.id);
    uses_.driver.handle(dispatch::FunctionRemoved{spec.id});
    uses_.driver.journal().forget(spec.id);
    uses_.logs.remove(spec.id);
    uses_.metrics.forget(name);
    collect();
    uses_.log.info("function_removed",
                   {{"tenant", int64_t{name.tenant.value}}, {"function", name.name}});
    done(spec);
  });
}

void Deployments::tell_dispatch(const FunctionSpec& spec) {
  uses_.driver.handle(dispatch::FunctionRegistered{
      profile_of(spec, uses_.functions.sandbox_revision(spec.id), rules_->functions.context_memory,
                 uses_.statistics.find(spec.id))});
}

Result<void> Deployments::claim_gpu(const FunctionSpec& spec) {
  if (!uses_a_gpu(spec)) return {};
  RETURN_IF_ERROR(tenancy_.admit(spec.name));
  if (!tenancy_.one_tenant_only()) return {};
  const TenantId tenant = spec.name.tenant;
  const auto is_anothers = [tenant](const ExecutorKey& key) { return key.tenant != tenant; };
  std::vector<ExecutorKey> executors = uses_.executors.ready_executors();
  std::erase_if(executors, std::not_fn(is_anothers));
  for (const ExecutorKey& key : executors) uses_.executors.evict_unused(key.device);
  if (executors.empty() && !uses_.sandboxes.has_gpu_sandboxes_of_others(tenant)) return {};
  release_gpu_unless_used(spec.name);
  return Error{ErrorCode::kUnavailable,
               "this worker's GPU is emulated and serves one tenant only, and the last processes "
               "of the tenant that had it have not ended; try again in a few seconds"};
}

void Deployments::release_gpu_unless_used(const FunctionName& name) {
  const FunctionSpec* function = uses_.functions.find(name);
  if (function == nullptr || !uses_a_gpu(*function)) tenancy_.release(name);
}

void Deployments::cap_timeout(FunctionSpec& spec) const {
  if (spec.timeout <= rules_->functions.longest_gpu_run) return;
  uses_.log.warning("function_timeout_capped",
                    {{"function", spec.name.name},
                     {"tenant", int64_t{spec.name.tenant.value}},
                     {"timeout_s", to_seconds(spec.timeout)},
                     {"longest_gpu_run_s", to_seconds(rules_->functions.longest_gpu_run)}});
  spec.timeout = rules_->functions.longest_gpu_run;
}

bool Deployments::uses_slices(const PipelinePackage& package) const {
  const pipeline::IsolationRule rule = package.definition.isolation;
  return rule == pipeline::IsolationRule::kSlices ||
         (rule == pipeline::IsolationRule::kAuto && rules_->functions.has_slices);
}

Result<void> Deployments::recover(catalog::Snapshot snapshot) {
  for (FunctionSpec& spec : snapshot.functions) {
    if (uses_a_gpu(spec) && !tenancy_.admit(spec.name).ok()) {
      return Error{
          ErrorCode::kFailedPrecondition,
          "functions of several tenants use the GPU, and an emulated GPU serves one tenant "
          "only; use a real GPU, or a worker with a --state of its own for each tenant"};
    }
    if (takes_turns_on_a_gpu(spec)) cap_timeout(spec);
    uses_.driver.journal().name(spec.id, spec.name.name);
    uses_.keeper.keep(spec);
    if (spec.kind == FunctionKind::kWorkflow) {
      auto graph = read_workflow(uses_.code.folder(spec), spec.handler);
      if (graph.ok()) {
        uses_.workflows.put(spec.id, std::move(graph).value());
      } else {
        uses_.log.error("workflow_not_read",
                        {{"function", spec.name.name}, {"error", to_string(graph.error())}});
      }
    } else if (spec.kind == FunctionKind::kPipeline) {
      recover_pipeline(spec, snapshot.profiles);
    }
    recover_packages(spec);
    uses_.functions.put(spec);
    tell_dispatch(spec);
  }
  collect();
  return {};
}

// A state that was restored has no environments, and an operator may have removed one.
void Deployments::recover_packages(const FunctionSpec& spec) {
  const bool may_have_some =
      spec.kind == FunctionKind::kHandler || spec.kind == FunctionKind::kPipeline;
  if (uses_.environments == nullptr || !may_have_some) return;
  const std::string code = archive::code_folder_name(spec.code_sha256);
  if (uses_.environments->has(code)) return;
  const auto packages = read_python(uses_.code.folder(spec));
  if (!packages.ok() || !*packages) return;
  uses_.environments->ensure(code, **packages, [this, name = spec.name](Result<void> ready) {
    if (ready.ok()) return;
    uses_.log.error("packages_not_installed", {{"function", name.name},
                                               {"tenant", int64_t{name.tenant.value}},
                                               {"error", to_string(ready.error())}});
  });
}

void Deployments::recover_pipeline(FunctionSpec& spec,
                                   const std::vector<catalog::PipelineProfileRecord>& profiles) {
  auto package = read_pipeline(uses_.code.folder(spec), spec.handler);
  if (!package.ok()) {
    return uses_.log.error("pipeline_not_read",
                           {{"function", spec.name.name}, {"error", to_string(package.error())}});
  }
  if (!uses_slices(**package)) cap_timeout(spec);
  const auto learnt = std::ranges::find_if(profiles, [&](const auto& profile) {
    return profile.function == spec.id && profile.revision == spec.revision;
  });
  uses_.pipelines.put(spec, std::move(package).value(), nullptr,
                      learnt != profiles.end() ? learnt->profile : "");
}

}  // namespace lambent::worker
