#include "node/worker/deployments.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "core/archive/zip.h"
#include "core/domain/image_function.h"
#include "core/domain/kernel_graph_service.h"
#include "core/domain/limits.h"
#include "node/worker/image_access.h"
#include "node/worker/instance_rules.h"

namespace lambent::worker {
namespace {

// What a deployment adds to what its tenant has; `before` is null for a new function.
FunctionQuotas::Use addition_of(const FunctionSpec* before, const FunctionSpec& spec) {
  const uint64_t functions = is_kept_graph(spec.name) ? 0 : 1;
  if (before == nullptr) return {.functions = functions, .disk = spec.code_size};
  if (spec.code_size <= before->code_size) return {};
  return {.functions = 0, .disk = spec.code_size - before->code_size};
}

// Clients know how it begins, and send all.
Error no_code_to_change() {
  return {ErrorCode::kFailedPrecondition,
          "the worker does not have this code to change a part of it; send it as the part 'code'"};
}

// Between two looks whether only the new revision serves.
constexpr Duration kHandOverPeriod = milliseconds(20);

// What only the function has, and none of its versions: these are started and invoked by their
// own names, and what follows their asynchronous invocations is the function's to say.
FunctionSpec as_version(FunctionSpec spec) {
  spec.min_instances = 0;
  spec.schedules.clear();
  spec.asynchronous = {};
  return spec;
}

uint64_t number_of(const FunctionName& record) {
  return version_number(version_of(record)).value_or(0);
}

Error another_change(const FunctionName& name) {
  return {ErrorCode::kAborted,
          "another change of function '" + name.name + "' is under way; try again when it is done"};
}

// Gives its answer once.
Deployments::Done once(Deployments::Done done) {
  auto given = std::make_shared<bool>(false);
  return [given, done = std::move(done)](Result<FunctionSpec> result) {
    if (!std::exchange(*given, true)) done(std::move(result));
  };
}

// No longer than this worker allows, for one that was deployed when a longer one was allowed.
void cap_timeout(FunctionSpec& spec, Duration most, LogSink& log) {
  if (spec.timeout <= most) return;
  log.warning("function_timeout_capped", {{"function", spec.name.name},
                                          {"tenant", int64_t{spec.name.tenant.value}},
                                          {"timeout_s", to_seconds(spec.timeout)},
                                          {"longest_gpu_run_s", to_seconds(most)}});
  spec.timeout = most;
}

// Whether this machine has the Python that its runtime names. What it had before it keeps.
Result<void> check_runtime(const environments::EnvironmentStore& environments,
                           const FunctionSpec* before, const FunctionSpec& spec,
                           const std::optional<PythonPackages>& packages) {
  const bool is_new = before == nullptr || before->runtime_name != spec.runtime_name;
  if (!is_new || spec.runtime != Runtime::kPython) return {};
  return environments.check_runtime(spec.runtime_name, packages);
}

bool uses_slices(const PipelinePackage& package, bool has_slices) {
  const pipeline::IsolationRule rule = package.definition.isolation;
  return rule == pipeline::IsolationRule::kSlices ||
         (rule == pipeline::IsolationRule::kAuto && has_slices);
}

}  // namespace

Result<void> Deployments::check(const FunctionSpec& spec) const {
  const OtherNodes others = gpus_.others();
  RETURN_IF_ERROR(check_function(as_function(spec), rules_->functions, others));
  if (runs_image(spec)) RETURN_IF_ERROR(check_image_function(spec));
  const FunctionSpec* before = uses_.functions.find(spec.name);
  // What was promised stays so, also in a worker that is smaller now. Nodes with its GPUs keep
  // them.
  const bool promises_more = before == nullptr || spec.min_instances > before->min_instances ||
                             !could_run_here(*before, rules_->functions);
  const bool runs_here = could_run_here(spec, rules_->functions);
  // A copy was judged where it was deployed: this node keeps of it what it can.
  if (spec.min_instances > 0 && promises_more && runs_here && !others.judged) {
    std::vector<FunctionSpec> kept_here = uses_.functions.with_instances();
    std::erase_if(kept_here, [this](const FunctionSpec& other) {
      return !could_run_here(other, rules_->functions);
    });
    const dispatch::Dispatcher& dispatcher = uses_.driver.dispatcher();
    RETURN_IF_ERROR(check_instances(spec, kept_here,
                                    {.options = dispatcher.options(),
                                     .quotas = quotas_.find(spec.name.tenant),
                                     .keeps_instances = dispatcher.policy().keeps_instances(),
                                     .context_memory = rules_->functions.context_memory}));
  }
  if (!spec.mounts.empty()) {
    if (!mounts_.folders) {
      return Error{ErrorCode::kFailedPrecondition, "this worker has no volumes and mounts"};
    }
    const auto folders = mounts_.folders(spec);
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
  const bool is_graph = is_kept_graph(change.spec.name);
  const bool is_version = is_version_record(change.spec.name);
  const FunctionQuotas::Use one{.functions = is_graph || is_version ? 0U : 1U};
  if (const auto allowed = quotas_.check(tenant, used(tenant), one); !allowed.ok()) {
    return done(allowed.error());
  }
  if (!change.delta.empty()) return done(no_code_to_change());
  if (!change.has_code() && !is_version && !runs_image(change.spec)) {
    return done(Error{ErrorCode::kInvalidArgument, "a new function needs its code as a zip"});
  }
  if (!is_graph) {
    change.spec.id = FunctionId{};
    change.spec.revision = 1;
  }
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
  // Only of what this function has: of no other code is told whether it is here.
  if (!change.delta.empty() && change.delta_base != (*current)->code_sha256) {
    return done(no_code_to_change());
  }
  change.spec.id = (*current)->id;
  change.spec.revision = (*current)->revision + 1;
  store(std::move(change), std::move(done));
}

void Deployments::store(FunctionChange change, Done done) {
  const FunctionName name = change.spec.name;
  if (!uses_.functions.begin_change(name)) return done(another_change(name));
  if (const auto claimed = claim_gpu(change.spec); !claimed.ok()) {
    uses_.functions.end_change(name);
    renew_waiting(name);
    return done(claimed.error());
  }
  const Done answer = once(std::move(done));
  const bool dry_run = change.dry_run;
  if (!dry_run && pending_.forget(name)) uses_.catalog.remove_deployment(name, [](Result<void>) {});
  const auto finish = [this, name, answer, dry_run](Result<FunctionSpec> result) {
    uses_.functions.end_change(name);
    release_gpu_unless_used(name);
    if (!dry_run) end_pending(name, result);
    collector_.collect();
    answer(std::move(result));
    renew_waiting(name);
  };
  store_change(std::move(change), answer, finish);
}

void Deployments::store_change(FunctionChange change, Done answer, Done finish) {
  const FunctionSpec* before = uses_.functions.find(change.spec.name);
  // Which Python a function gets follows from its packages.
  const bool has_other_runtime = before != nullptr && !runs_image(change.spec) &&
                                 before->runtime_name != change.spec.runtime_name;
  const bool has_files = needs_files(change) || has_other_runtime;
  if (!has_files && runs_image(change.spec)) {
    OtherNodes others = gpus_.others();
    return pull({.change = std::move(change), .others = std::move(others)}, std::move(answer),
                std::move(finish));
  }
  if (!has_files) {
    return put_within_quota({.change = std::move(change)}, std::move(finish));
  }
  // Shared with the file thread, which fills it in while this thread goes on.
  struct Work {
    DeploymentPackage package;
    Result<void> result;
  };
  auto work = std::make_shared<Work>();
  work->package.others = gpus_.others();
  work->package.change = std::move(change);
  if (const FunctionSpec& spec = work->package.change.spec; !spec.mounts.empty()) {
    auto folders = mounts_.folders(spec);
    if (!folders.ok()) return finish(folders.error());
    work->package.mount_folders = std::move(*folders);
  }
  const bool queued = uses_.files.run(
      [work, &code = std::as_const(uses_.code), rules = rules_] {
        work->result = unpack_package(code, *rules, work->package);
      },
      [this, work, answer, finish] {
        collector_.came(work->package.change.spec.code_sha256);
        if (!work->result.ok()) return finish(work->result.error());
        const auto good = check_function(as_function(work->package.change.spec), rules_->functions,
                                         work->package.others);
        if (!good.ok()) return finish(good.error());
        install(std::move(work->package), answer, finish);
      });
  if (!queued) {
    finish(Error{ErrorCode::kResourceExhausted, "too many deployments at once; try again later"});
  }
}

void Deployments::install(DeploymentPackage unpacked, Done answer, Done done) {
  if (runs_image(unpacked.change.spec)) {
    return pull(std::move(unpacked), std::move(answer), std::move(done));
  }
  if (uses_.environments != nullptr && !unpacked.change.is_copy) {
    const FunctionSpec& spec = unpacked.change.spec;
    const auto good =
        check_runtime(*uses_.environments, uses_.functions.find(spec.name), spec, unpacked.python);
    if (!good.ok()) return done(good.error());
  }
  if (!unpacked.python) return put_within_quota(std::move(unpacked), std::move(done));
  if (uses_.environments == nullptr) {
    return done(Error{ErrorCode::kFailedPrecondition, "this worker installs no Python packages"});
  }
  // Whether they can be had is known once they are there.
  if (unpacked.change.dry_run) return put_within_quota(std::move(unpacked), std::move(done));
  const std::string code = archive::code_folder_name(unpacked.change.spec.code_sha256);
  const loop::TimerId timer = begin_waiting(unpacked, code, std::move(answer));
  const PythonPackages packages = *unpacked.python;
  auto shared = std::make_shared<DeploymentPackage>(std::move(unpacked));
  uses_.environments->ensure(
      code, packages, [this, timer, shared, code, done = std::move(done)](Result<void> ready) {
        uses_.loop.cancel(timer);
        if (!ready.ok()) return done(ready.error());
        const auto go_on = [this, shared, done](std::string package) {
          if (!package.empty()) shared->cuda_package = std::move(package);
          put_within_quota(std::move(*shared), done);
        };
        uses_.cuda_packages.look(uses_.files, uses_.environments->folder_of(code), go_on);
      });
}

loop::TimerId Deployments::begin_waiting(const DeploymentPackage& unpacked,
                                         const std::string& awaited, Done answer) {
  FunctionSpec spec = unpacked.change.spec;
  spec.last_modified = uses_.loop.clock().wall_now();
  pending_.begin(spec, uses_.functions.find(spec.name) == nullptr, awaited);
  return uses_.loop.call_after(
      unpacked.change.answer_within,
      [this, spec, answer = std::move(answer)] { answer_early(spec, answer); });
}

void Deployments::pull(DeploymentPackage unpacked, Done answer, Done done) {
  const FunctionSpec& spec = unpacked.change.spec;
  if (uses_.images == nullptr) {
    return done(Error{ErrorCode::kFailedPrecondition, "this worker runs no images"});
  }
  const auto command = parse_image_command(spec.handler);
  if (!command.ok()) return done(command.error());
  const ImageReference image = command->image;
  auto access =
      image_access(spec.name.tenant, image, uses_.functions, uses_.revisions, uses_.secrets);
  if (!access.ok()) return done(access.error());
  access->is_elsewhere = has_image_elsewhere(spec, image);
  // One that is here already, and the tenant's, needs no path.
  const bool is_here = access->is_known && uses_.images->find(image.digest) != nullptr;
  auto path = is_here && uses_.images->is_whole(image.digest)
                  ? Result<std::string>(std::string())
                  : host_path_of(mounts_.host_path, spec.name.tenant, image);
  if (!path.ok() && (is_here || access->is_elsewhere)) path = std::string();
  if (!path.ok()) return done(path.error());
  // Whether it can be had is known once it is there.
  if (unpacked.change.dry_run && !is_here) {
    return put_within_quota(std::move(unpacked), std::move(done));
  }
  const loop::TimerId timer = begin_waiting(unpacked, text_of(image), std::move(answer));
  auto shared = std::make_shared<DeploymentPackage>(std::move(unpacked));
  uses_.images->ensure(
      image, *path, *access,
      [this, timer, shared, done = std::move(done)](Result<images::PulledImage> here) {
        uses_.loop.cancel(timer);
        if (!here.ok()) return done(here.error());
        const auto fit = fit_to_image(shared->change.spec, *here, *uses_.images, rules_->functions,
                                      shared->others);
        if (!fit.ok()) return done(fit.error());
        put_within_quota(std::move(*shared), done);
      });
}

void Deployments::answer_early(const FunctionSpec& spec, const Done& answer) {
  pending_.answered(spec.name);
  const bool creates = uses_.functions.find(spec.name) == nullptr;
  // Durable first: who was answered is told what became of it, by this worker or the next one.
  uses_.catalog.put_deployment({.spec = spec, .creates = creates, .failure = ""},
                               [spec, answer](Result<void> kept) {
                                 if (!kept.ok()) return answer(kept.error());
                                 answer(spec);
                               });
}

void Deployments::end_pending(const FunctionName& name, const Result<FunctionSpec>& result) {
  const std::optional<DeploymentStatus> answered = pending_.find(name);
  pending_.end(name, result);
  if (!answered) return;
  if (result.ok()) return uses_.catalog.remove_deployment(name, [](Result<void>) {});
  uses_.catalog.put_deployment(
      {.spec = answered->spec, .creates = answered->creates, .failure = result.error().message},
      [](Result<void>) {});
}

FunctionQuotas::Use Deployments::used(TenantId tenant) const {
  const FunctionTotals totals = uses_.functions.totals(tenant);
  const Bytes beside = mounts_.used_beside ? mounts_.used_beside(tenant) : Bytes();
  return {.functions = totals.functions, .disk = totals.code + beside};
}

void Deployments::put_within_quota(DeploymentPackage unpacked, Done done) {
  const FunctionSpec* before = uses_.functions.find(unpacked.change.spec.name);
  const bool may_stay = unpacked.change.only_if_different && before != nullptr;
  if (may_stay && is_same_deployment(*before, unpacked.change.spec)) return done(*before);
  const TenantId tenant = unpacked.change.spec.name.tenant;
  // One that comes from another node was taken there, and often has the code of its function.
  if (is_version_record(unpacked.change.spec.name)) {
    return put(std::move(unpacked), std::move(done));
  }
  const FunctionQuotas::Use addition = addition_of(before, unpacked.change.spec);
  const auto allowed = quotas_.check(tenant, used(tenant), addition);
  if (!allowed.ok()) return done(allowed.error());
  if (unpacked.change.dry_run) return done(std::move(unpacked.change.spec));
  quotas_.reserve(tenant, addition);
  put(std::move(unpacked), [this, tenant, addition, done = std::move(done)](auto stored) {
    quotas_.release(tenant, addition);
    done(std::move(stored));
  });
}

void Deployments::put(DeploymentPackage unpacked, Done done) {
  FunctionSpec spec = std::move(unpacked.change.spec);
  spec.last_modified = uses_.loop.clock().wall_now();
  // The value of a secret is told to others apart, and a kept graph is this node's own.
  const bool is_own = unpacked.change.renews_sandboxes || is_kept_graph(spec.name);
  if (uses_.shared == nullptr || is_own) {
    return keep(std::move(unpacked), std::move(spec), std::move(done));
  }
  // Shared because callbacks must be copyable.
  auto held = std::make_shared<DeploymentPackage>(std::move(unpacked));
  uses_.shared->put(spec, uses_.functions.find(spec.name),
                    [this, held, spec, done = std::move(done)](const auto& agreed) {
                      if (!agreed.ok()) return done(agreed.error());
                      const FunctionSpec* before = uses_.functions.find(spec.name);
                      // To all nodes it is the deployment that is here.
                      const bool is_it = agreed->revision > 0 && agreed->revision < spec.revision &&
                                         before != nullptr && is_same_deployment(*before, spec);
                      if (is_it && held->change.publish) {
                        return publish_now(*before, std::nullopt, done);
                      }
                      if (is_it) return done(*before);
                      FunctionSpec kept = spec;
                      // Never back: dispatch takes a lower one for an older deployment.
                      kept.revision = std::max(kept.revision, agreed->revision);
                      if (agreed->revision > 0) kept.last_modified = agreed->at;
                      keep(std::move(*held), std::move(kept), done);
                    });
}

void Deployments::keep(DeploymentPackage unpacked, FunctionSpec spec, Done done) {
  if (is_kept_graph(spec.name)) {
    uses_.functions.put(spec);
    adopt(spec);
    return done(std::move(spec));
  }
  // What differs in the value of a secret only is no revision to go back to.
  const bool keeps = !unpacked.change.renews_sandboxes && !is_version_record(spec.name);
  const bool is_new_version = is_version_record(spec.name) && spec.id == FunctionId{};
  const auto kept = [this, done, keeps,
                     unpacked = std::move(unpacked)](Result<FunctionSpec> stored) {
    if (!stored.ok()) return done(stored.error());
    const FunctionSpec* before = uses_.functions.find(stored->name);
    const std::optional<FunctionSpec> old = before ? std::optional(*before) : std::nullopt;
    uses_.functions.put(*stored, unpacked.change.renews_sandboxes);
    if (keeps) uses_.revisions.keep(*stored);
    uses_.workflows.put(stored->id, unpacked.graph);
    if (unpacked.pipeline != nullptr) {
      uses_.pipelines.put(*stored, unpacked.pipeline, unpacked.planned, "");
    } else {
      uses_.pipelines.remove(stored->id);
    }
    uses_.schedules.know(unpacked.zones);
    uses_.cuda_packages.put(stored->code_sha256, unpacked.cuda_package);
    adopt(*stored);
    if (old) uses_.keeper.drop(*old);
    if (unpacked.change.publish) return publish_now(*stored, std::nullopt, done);
    answer_after_hand_over(*std::move(stored), done);
  };
  if (!is_new_version) return uses_.catalog.put_function(std::move(spec), kept, keeps);
  const uint64_t number = number_of(spec.name);
  spec.name = function_of(spec.name);
  uses_.catalog.keep_version(std::move(spec), number, kept);
}

// From the answer on the new one serves. Dispatch bounds how long that takes.
void Deployments::answer_after_hand_over(FunctionSpec spec, Done done) {
  if (!uses_.driver.dispatcher().instances(spec.id).hands_over) return done(std::move(spec));
  uses_.loop.call_after(kHandOverPeriod, [this, spec = std::move(spec), done = std::move(done)] {
    answer_after_hand_over(spec, done);
  });
}

void Deployments::adopt(const FunctionSpec& spec) {
  uses_.log.info("function_deployed", {{"tenant", int64_t{spec.name.tenant.value}},
                                       {"function", spec.name.name},
                                       {"revision", static_cast<int64_t>(spec.revision)}});
  uses_.driver.journal().name(spec.id, spec.name.name);
  collector_.used_by(spec);
  uses_.keeper.keep(spec);
  uses_.executors.change_share(spec);
  uses_.schedules.put(spec);
  uses_.driver.handle(dispatch::FunctionRegistered{profile(spec)});
}

void Deployments::publish(Publication publication, Done done) {
  const FunctionName& name = publication.function;
  const auto current = uses_.functions.get(name);
  if (!current.ok()) return done(pending_.refuse(name).value_or(current.error()));
  if (is_version_record(name) || is_kept_graph(name)) {
    return done(
        Error{ErrorCode::kFailedPrecondition,
              "'" + name.name + "' is " +
                  (is_kept_graph(name) ? "a graph that came with a request" : "a version already") +
                  "; functions that are deployed have versions"});
  }
  FunctionSpec spec = **current;
  if (publication.revision && *publication.revision != spec.revision) {
    return done(
        Error{ErrorCode::kFailedPrecondition, "function '" + name.name + "' is at revision " +
                                                  std::to_string(spec.revision) + ", not at " +
                                                  std::to_string(*publication.revision)});
  }
  if (!publication.code_sha256.empty() && publication.code_sha256 != spec.code_sha256) {
    return done(Error{ErrorCode::kInvalidArgument, "the code of function '" + name.name +
                                                       "' has the digest " + spec.code_sha256 +
                                                       ", not " + publication.code_sha256});
  }
  if (!uses_.functions.begin_change(name)) return done(another_change(name));
  if (publication.description) spec.description = *publication.description;
  publish_now(std::move(spec), publication.number,
              [this, name, done = std::move(done)](Result<FunctionSpec> version) {
                uses_.functions.end_change(name);
                done(std::move(version));
                renew_waiting(name);
              });
}

void Deployments::publish_now(FunctionSpec spec, std::optional<uint64_t> number, Done done) {
  if (spec.kind == FunctionKind::kWorkflow || spec.kind == FunctionKind::kPipeline) {
    return done(Error{ErrorCode::kFailedPrecondition,
                      "a " + std::string(name_of(spec.kind)) +
                          " has no versions; handlers, HTTP functions and kernel functions have"});
  }
  spec = as_version(std::move(spec));
  const std::vector<const FunctionSpec*> versions = uses_.functions.versions(spec.name);
  if (!versions.empty()) {
    FunctionSpec last = as_version(*versions.back());
    last.description = spec.description;
    const bool is_that = !number || version_of(versions.back()->name) == std::to_string(*number);
    if (is_that && is_same_deployment(last, spec)) return done(*versions.back());
  }
  if (versions.size() >= kVersionsPerFunction || uses_.functions.size() >= limits::kFunctions) {
    return done(Error{ErrorCode::kFailedPrecondition,
                      "function '" + spec.name.name + "' has " + std::to_string(versions.size()) +
                          " versions, and there is room for no more; remove those that no alias "
                          "needs"});
  }
  const Done kept = [this, done](Result<FunctionSpec> stored) {
    if (!stored.ok()) return done(stored.error());
    uses_.functions.put(*stored);
    if (uses_a_gpu(*stored)) (void)tenancy_.admit(stored->name).ok();
    adopt(*stored);
    done(std::move(stored));
  };
  if (uses_.shared == nullptr) return uses_.catalog.publish_version(std::move(spec), number, kept);
  const FunctionSpec* function = uses_.functions.find(spec.name);
  if (function == nullptr) {
    return done(Error{ErrorCode::kNotFound, "function '" + spec.name.name + "' is gone"});
  }
  const SharedFunctions::Publication publication{
      .version = spec,
      .function = *function,
      .number = number,
      .last_here = versions.empty() ? 0 : number_of(versions.back()->name)};
  uses_.shared->publish(publication, [this, spec, kept](Result<uint64_t> agreed) {
    if (!agreed.ok()) return kept(agreed.error());
    uses_.catalog.keep_version(spec, *agreed, kept);
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
  uses_.functions.for_each([&](const FunctionSpec& spec) {
    if (spec.name.tenant != tenant) return;
    const auto names = secret_names(spec.environment);
    if (names.ok() && names->contains(secret)) users.push_back(spec.name.name);
  });
  return users;
}

std::vector<std::string> Deployments::users_of_volume(TenantId tenant,
                                                      const std::string& volume) const {
  std::vector<std::string> users;
  for (const FunctionSpec* spec : uses_.functions.page(tenant, "", limits::kFunctions)) {
    const auto mounts_it = [&](const Mount& mount) { return mount.volume == volume; };
    if (std::ranges::any_of(spec->mounts, mounts_it)) users.push_back(spec->name.name);
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
    return uses_.catalog.remove_deployment(name, [done, spec = *created](Result<void> forgotten) {
      if (!forgotten.ok()) return done(forgotten.error());
      done(spec);
    });
  }
  const auto current = uses_.functions.get(name);
  if (!current.ok()) return done(pending_.refuse(name).value_or(current.error()));
  if (!uses_.functions.begin_change(name)) return done(another_change(name));
  if (pending_.forget(name)) uses_.catalog.remove_deployment(name, [](Result<void>) {});
  const FunctionSpec spec = **current;
  if (uses_.shared == nullptr || is_kept_graph(name)) return remove_here(spec, std::move(done));
  uses_.shared->remove(spec, [this, spec, done = std::move(done)](const Result<void>& agreed) {
    if (agreed.ok()) return remove_here(spec, done);
    uses_.functions.end_change(spec.name);
    renew_waiting(spec.name);
    done(agreed.error());
  });
}

void Deployments::remove_here(const FunctionSpec& spec, Done done) {
  const FunctionName name = spec.name;
  const auto removed_from_catalog = [this, name, done, spec](Result<void> removed) {
    std::vector<FunctionSpec> gone{spec};
    for (const FunctionSpec* version : uses_.functions.versions(name)) gone.push_back(*version);
    if (removed.ok()) {
      for (const FunctionSpec& each : gone) uses_.functions.remove(each.name);
      uses_.aliases.remove_all(name);
      uses_.revisions.remove(spec.id);
    }
    uses_.functions.end_change(name);
    renew_waiting(name);
    if (!removed.ok()) return done(removed.error());
    for (const FunctionSpec& each : gone) forget(each);
    collector_.collect();
    uses_.log.info("function_removed",
                   {{"tenant", int64_t{name.tenant.value}}, {"function", name.name}});
    done(spec);
  };
  if (is_kept_graph(name)) return removed_from_catalog({});
  uses_.catalog.remove_function(name, removed_from_catalog);
}

void Deployments::forget(const FunctionSpec& spec) {
  release_gpu_unless_used(spec.name);
  uses_.keeper.drop(spec);
  uses_.statistics.forget(spec.id);
  uses_.schedules.remove(spec.id);
  uses_.workflows.remove(spec.id);
  uses_.pipelines.remove(spec.id);
  uses_.driver.handle(dispatch::FunctionRemoved{spec.id});
  uses_.driver.journal().forget(spec.id);
  uses_.logs.remove(spec.id);
  uses_.metrics.forget(spec.name);
}

dispatch::FunctionProfile Deployments::profile(const FunctionSpec& spec) const {
  auto profile =
      profile_of(spec, uses_.functions.sandbox_revision(spec.id), rules_->functions.context_memory,
                 uses_.statistics.find(spec.id), uses_.functions.account_of(spec.name));
  // Nodes that have its GPUs keep some ready.
  if (!could_run_here(spec, rules_->functions)) profile.min_instances = 0;
  return profile;
}

Result<void> Deployments::claim_gpu(const FunctionSpec& spec) {
  if (!uses_a_gpu(spec)) return {};
  RETURN_IF_ERROR(tenancy_.admit(spec.name));
  if (!tenancy_.one_tenant_only()) return {};
  const TenantId tenant = spec.name.tenant;
  const auto is_anothers = [tenant](const ExecutorKey& key) { return key.tenant != tenant; };
  std::vector<ExecutorKey> executors = uses_.executors.ready_executors();
  std::erase_if(executors, std::not_fn(is_anothers));
  for (const ExecutorKey& key : executors) uses_.executors.memory_use().evict_unused(key.device);
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

Result<void> Deployments::recover(catalog::Snapshot snapshot) {
  for (Alias& alias : snapshot.aliases) uses_.aliases.put(std::move(alias));
  for (const FunctionSpec& spec : snapshot.revisions) uses_.revisions.keep(spec);
  recover_deployments(std::move(snapshot.deployments));
  const Duration longest_run = rules_->functions.longest_gpu_run;
  uses_.schedules.restore(std::move(snapshot.firings));
  for (FunctionSpec& spec : snapshot.functions) {
    if (uses_a_gpu(spec) && !tenancy_.admit(spec.name).ok()) {
      return Error{
          ErrorCode::kFailedPrecondition,
          "functions of several tenants use the GPU, and an emulated GPU serves one tenant "
          "only; use a real GPU, or a worker with a --state of its own for each tenant"};
    }
    if (takes_turns_on_a_gpu(spec)) cap_timeout(spec, longest_run, uses_.log);
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
    // Packages are those of the code: one look for all functions that have it.
    if (runs_image(spec) || !uses_.functions.codes().contains(spec.code_sha256)) {
      recovery_.recover(spec);
    }
    uses_.functions.put(spec);
    keep_first_revision(spec);
    uses_.schedules.recover(spec);
    dispatch::FunctionProfile known = profile(spec);
    known.min_instances = 0;
    uses_.driver.handle(dispatch::FunctionRegistered{known});
  }
  collector_.collect_all();
  return {};
}

void Deployments::start_instances() {
  uses_.functions.for_each([this](const FunctionSpec& spec) {
    const dispatch::FunctionProfile wanted = profile(spec);
    if (wanted.min_instances > 0) uses_.driver.handle(dispatch::FunctionRegistered{wanted});
  });
}

// Of a function that was deployed before revisions were kept, the present one is the first.
void Deployments::keep_first_revision(const FunctionSpec& spec) {
  if (is_version_record(spec.name) || uses_.revisions.has_any(spec.id)) return;
  uses_.revisions.keep(spec);
  uses_.catalog.put_function(spec, [](const Result<FunctionSpec>&) {});
}

void Deployments::recover_deployments(std::vector<catalog::DeploymentRecord> records) {
  for (catalog::DeploymentRecord& record : records) {
    if (record.failure.empty()) {
      record.failure = "the worker ended while the function's " +
                       std::string(runs_image(record.spec) ? "image was pulled"
                                                           : "Python packages were installed") +
                       "; deploy it again";
      uses_.catalog.put_deployment(record, [](Result<void>) {});
    }
    pending_.restore({.spec = std::move(record.spec),
                      .creates = record.creates,
                      .progress = "",
                      .failure = Error{ErrorCode::kAborted, record.failure}});
  }
}

void Deployments::recover_pipeline(FunctionSpec& spec,
                                   const std::vector<catalog::PipelineProfileRecord>& profiles) {
  auto package = read_pipeline(uses_.code.folder(spec), spec.handler);
  if (!package.ok()) {
    return uses_.log.error("pipeline_not_read",
                           {{"function", spec.name.name}, {"error", to_string(package.error())}});
  }
  if (!uses_slices(**package, rules_->functions.has_slices)) {
    cap_timeout(spec, rules_->functions.longest_gpu_run, uses_.log);
  }
  const auto learnt = std::ranges::find_if(profiles, [&](const auto& profile) {
    return profile.function == spec.id && profile.revision == spec.revision;
  });
  uses_.pipelines.put(spec, std::move(package).value(), nullptr,
                      learnt != profiles.end() ? learnt->profile : "");
}

Result<void> check_disk(Deployments& deployments, TenantId tenant, Bytes more) {
  const TenantQuotas* quotas = deployments.quotas().find(tenant);
  if (quotas == nullptr || !quotas->disk) return {};
  return deployments.quotas().check(tenant, deployments.used(tenant),
                                    {.functions = 0, .disk = more});
}

}  // namespace lambent::worker
